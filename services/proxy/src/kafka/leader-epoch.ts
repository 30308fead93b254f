import { partitionStateCodec } from "@sluice/catalog";
import type { PartitionId } from "@sluice/core/model";
import type { KafkaContext } from "./context.ts";
import { KafkaError } from "./errors.ts";

/**
 * Whether a client's leader epoch can be right. An older one is: any proxy serves any partition, and nothing that was committed is ever cut off.
 * A newer one than the own view shows is looked up; only one that never was is refused. -1 = the client does not say.
 */
export async function checkLeaderEpoch({ view, store, keys }: KafkaContext, partition: PartitionId, asked: number): Promise<number> {
  if (asked <= (view.partition(partition)?.state?.record.epoch ?? 0)) return KafkaError.none;
  const { entry } = await store.get(keys.state(partition));
  const current = entry === undefined ? 0 : partitionStateCodec.decode(entry.value).epoch;
  return asked <= current ? KafkaError.none : KafkaError.unknownLeaderEpoch;
}
