import { errorCodeOf, SluiceError } from "@sluice/core/model";
import { int64 } from "./admin.ts";
import type { OffsetInTopic, TopicPartition } from "./group-types.ts";

/** Offsets and partitions as the calls of groups carry them. */
export interface WireTopic {
  readonly topic: string;
  readonly partitions: number[];
}
/** Throws INVALID_ARGUMENT. */
export const offsetsToWire = (offsets: readonly OffsetInTopic[]) =>
  offsets.map((o) => ({ topic: o.topic, partition: o.partition, offset: int64(o.offset, "offset"), metadata: o.metadata ?? "" }));
/** No partitions = all of the topic. */
export const topicsToWire = (topics: readonly { readonly topic: string; readonly partitions?: readonly number[] }[]): WireTopic[] =>
  topics.map((t) => ({ topic: t.topic, partitions: [...(t.partitions ?? [])] }));
export const partitionsToWire = (partitions: readonly TopicPartition[]): WireTopic[] =>
  [...Map.groupBy(partitions, (p) => p.topic)].map(([topic, all]) => ({ topic, partitions: all.map((p) => p.partition) }));
/** A topic without a name was deleted: it is nobody's. */
export const partitionsOf = (topics: readonly { readonly topic: string; readonly partitions: readonly number[] }[]): TopicPartition[] =>
  topics.flatMap(({ topic, partitions }) => (topic === "" ? [] : partitions.map((partition) => ({ topic, partition }))));

/** The first error of a reply that has one for each partition. */
export function firstError(
  results: readonly { readonly topic: string; readonly partition: number; readonly error: number; readonly errorMessage: string }[],
): SluiceError | undefined {
  const bad = results.find((r) => r.error !== 0);
  return bad && new SluiceError(errorCodeOf(bad.error), `${bad.topic}/${bad.partition}: ${bad.errorMessage}`);
}
export function throwFirst(results: Parameters<typeof firstError>[0]): void {
  const error = firstError(results);
  if (error !== undefined) throw error;
}
