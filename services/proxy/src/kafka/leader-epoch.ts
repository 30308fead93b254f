import { partitionStateCodec } from "@sluice/catalog";
import { partitionKey, type PartitionId, type PartitionKey } from "@sluice/core/model";
import type { KafkaContext } from "./context.ts";
import { KafkaError } from "./errors.ts";

/** Epochs that one request has looked up, or is looking up. */
export type EpochLookUps = Map<PartitionKey, Promise<number>>;

/**
 * Whether a client's leader epoch can be right. An older one is: any proxy serves any partition, and nothing that was committed is ever cut off.
 * A newer one than the own view shows is looked up; only one that never was is refused. -1 = the client does not say.
 */
export async function checkLeaderEpoch(
  context: KafkaContext,
  partition: PartitionId,
  asked: number,
  lookUps: EpochLookUps = new Map(),
): Promise<number> {
  if (asked <= (context.view.partition(partition)?.state?.record.epoch ?? 0)) return KafkaError.none;
  const key = partitionKey(partition);
  let current = lookUps.get(key);
  if (current === undefined) lookUps.set(key, (current = lookUp(context, partition)));
  return asked <= (await current) ? KafkaError.none : KafkaError.unknownLeaderEpoch;
}
async function lookUp({ store, keys }: KafkaContext, partition: PartitionId): Promise<number> {
  const { entry } = await store.get(keys.state(partition));
  return entry === undefined ? 0 : partitionStateCodec.decode(entry.value).epoch;
}
