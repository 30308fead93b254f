import { asSluiceError, SluiceError } from "@sluice/core/model";
import { type Call, int64, listOffsets } from "./admin.ts";
import { Backoff } from "./backoff.ts";
import type { Connection } from "./connection.ts";
import { clientTimers } from "./timing.ts";
import type { ConsumerOptions, Position } from "./types.ts";

/** One consumed partition. */
export class PartitionCursor {
  readonly partition: number;
  readonly backoff: Backoff;
  /** Next offset that the iteration gives. */
  position: number;
  /** Next offset to ask a new stream for. */
  receivedNext: number;
  /** The iteration stops before it; Infinity = never. */
  end: number;
  /** Started at the log's start and has read nothing yet: when retention was faster, it starts at the new start. */
  fromEarliest: boolean;
  /** The server sends nothing until a seek. */
  paused = false;
  /** Counts seeks; the last one told to the present stream. */
  seekNumber = 0;
  streamSeekNumber = 0;
  constructor(partition: number, offset: number, fromEarliest: boolean, backoff: Backoff) {
    this.partition = partition;
    this.position = offset;
    this.receivedNext = offset;
    this.end = Number.POSITIVE_INFINITY;
    this.fromEarliest = fromEarliest;
    this.backoff = backoff;
  }
}

/** Fixes all positions as offsets, so that a stream that breaks at once goes on where the first one would have begun. */
export async function startPositions(
  connection: Connection,
  call: Call,
  options: ConsumerOptions,
  untilEnd: boolean,
  signal: AbortSignal,
): Promise<PartitionCursor[]> {
  const { topic, from = "latest" } = options;
  const partitions = await partitionsOf(connection, call, options, signal);
  const positionOf = (p: number): Position => (from instanceof Map ? (from.get(p) ?? "earliest") : (from as Position));
  const groups = Map.groupBy(partitions, (p) => JSON.stringify(positionOf(p)));
  const ends = untilEnd ? listOffsets(call, topic, "latest", partitions, { signal }) : undefined;
  ends?.catch(() => undefined);
  const cursors = (
    await Promise.all(
      [...groups.values()].map(async (members) => {
        const position = positionOf(members[0] as number);
        const offsets = await offsetsOf(call, topic, members, position, signal);
        return members.map(
          (p) => new PartitionCursor(p, offsets.get(p) as number, position === "earliest", new Backoff(connection.random)),
        );
      }),
    )
  ).flat();
  const endOf = new Map((await ends)?.map((e) => [e.partition, e.offset]));
  for (const cursor of cursors) {
    cursor.end = endOf.get(cursor.partition) ?? Number.POSITIVE_INFINITY;
    if (cursor.position > cursor.end) await beyondEnd(call, options, cursor, signal);
  }
  return cursors.toSorted((a, b) => a.partition - b.partition);
}
/** Reading until the end would give nothing and look like success. */
async function beyondEnd(call: Call, options: ConsumerOptions, cursor: PartitionCursor, signal: AbortSignal): Promise<void> {
  const { topic, onOutOfRange = "error" } = options;
  const { partition, position, end } = cursor;
  if (onOutOfRange === "error")
    throw new SluiceError("OFFSET_OUT_OF_RANGE", `${topic}/${partition}: offset ${position} is beyond the end of the log, ${end}`);
  const offset = onOutOfRange === "latest" ? end : await resolvePosition(call, topic, partition, onOutOfRange, signal);
  cursor.position = offset;
  cursor.receivedNext = offset;
}
export async function resolvePosition(
  call: Call,
  topic: string,
  partition: number,
  position: Position,
  signal: AbortSignal,
): Promise<number> {
  return (await offsetsOf(call, topic, [partition], position, signal)).get(partition) as number;
}

/** Offset of the position in each partition. */
async function offsetsOf(
  call: Call,
  topic: string,
  partitions: readonly number[],
  position: Position,
  signal: AbortSignal,
): Promise<ReadonlyMap<number, number>> {
  if (typeof position === "object" && "offset" in position) {
    int64(position.offset, "offset");
    return new Map(partitions.map((p) => [p, position.offset]));
  }
  const found = new Map((await listOffsets(call, topic, position, partitions, { signal })).map((o) => [o.partition, o.offset]));
  const missing = partitions.filter((p) => (found.get(p) ?? -1) < 0);
  if (missing.length === 0) return found;
  // Nothing at or after that time: the end, where the first such record will be.
  if (typeof position === "object")
    for (const o of await listOffsets(call, topic, "latest", missing, { signal })) found.set(o.partition, o.offset);
  for (const p of missing) {
    if ((found.get(p) ?? -1) < 0) throw new SluiceError("UNKNOWN_PARTITION", `${topic}/${p}: the server told no offset`);
  }
  return found;
}

async function partitionsOf(connection: Connection, call: Call, options: ConsumerOptions, signal: AbortSignal): Promise<readonly number[]> {
  const { topic, partitions } = options;
  const untilMs = connection.clock.monotonicMs() + clientTimers.newTopicMs;
  for (;;) {
    try {
      const answer = await call((link, o) => link.admin.describeTopic({ name: topic }, o), { signal });
      const count = answer.topic?.partitions ?? 0;
      if (partitions === undefined) return Array.from({ length: count }, (_, p) => p);
      for (const p of partitions) {
        if (!Number.isInteger(p) || p < 0 || p >= count)
          throw new SluiceError("UNKNOWN_PARTITION", `${topic}/${p}: the topic has ${count} partitions`);
      }
      if (partitions.length === 0) throw new SluiceError("INVALID_ARGUMENT", "partitions is empty; leave it out for all");
      return [...new Set(partitions)];
    } catch (thrown) {
      const error = asSluiceError(thrown);
      // Made at another proxy a moment ago.
      if (error.code !== "UNKNOWN_TOPIC" || connection.clock.monotonicMs() >= untilMs) throw error;
      await connection.sleep(clientTimers.retryMaxMs / 5, signal);
    }
  }
}
