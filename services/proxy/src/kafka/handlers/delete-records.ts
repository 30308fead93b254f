import { startCodec } from "@sluice/catalog";
import { RESERVED_PREFIX, SluiceError, type PartitionId } from "@sluice/core/model";
import { apis, type DeleteRecordsResponseDeleteRecordsPartitionResult, type Input } from "@sluice/kafka-wire";
import { partitionOf } from "../../topics.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import { inParallel, type KafkaContext } from "../context.ts";
import { kafkaFailure } from "../errors.ts";
import { kafkaLimits } from "../limits.ts";
import { deadlineOf, seen, topicNamed } from "../topic-admin.ts";

/** Stands for the end of the log. */
const HIGH_WATERMARK = -1;

/**
 * Raises the log start, by compare-and-swap on its key: never beyond what is committed, never back. Readers refuse what lies below at once; the
 * controller removes the segments.
 */
export const deleteRecords = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.DeleteRecords,
    access: { resource: "topic", operation: "delete" },
    handle: async ({ topics, timeoutMs }, call) => ({
      topics: await inParallel(topics, kafkaLimits.topicsParallel, async ({ name, partitions }) => ({
        name,
        partitions: await inParallel(partitions, kafkaLimits.offsetsParallel, ({ partitionIndex, offset }) =>
          one(context, call, name, partitionIndex, offset, deadlineOf(context, timeoutMs)),
        ),
      })),
    }),
  });

async function one(
  context: KafkaContext,
  call: KafkaCall,
  name: string,
  partitionIndex: number,
  offset: number,
  deadlineMs: number,
): Promise<Input<DeleteRecordsResponseDeleteRecordsPartitionResult>> {
  try {
    const topic = await topicNamed(context, call, name);
    if (name.startsWith(RESERVED_PREFIX)) throw new SluiceError("PERMISSION_DENIED", `topic ${name} belongs to the cluster`);
    const partition = partitionOf(topic, partitionIndex);
    const { highWatermark } = await context.offsets.confirm(partition, deadlineMs, call.signal);
    const wanted = offset === HIGH_WATERMARK ? highWatermark : offset;
    if (wanted < 0 || wanted > highWatermark)
      throw new SluiceError("OFFSET_OUT_OF_RANGE", `offset ${offset} is not within the log, which ends at ${highWatermark}`);
    const lowWatermark = await raiseStart(context, partition, wanted, deadlineMs);
    await seen(context, () => (context.view.partition(partition)?.startOffset ?? 0) >= lowWatermark, deadlineMs);
    return { partitionIndex, lowWatermark };
  } catch (error) {
    return { partitionIndex, lowWatermark: -1, errorCode: kafkaFailure(error).errorCode };
  }
}

/** Returns the log start after it. Putting the same value again is no harm, so an unknown outcome is tried again. */
async function raiseStart(
  { store, keys, clock }: KafkaContext,
  partition: PartitionId,
  wanted: number,
  deadlineMs: number,
): Promise<number> {
  const key = keys.start(partition);
  for (;;) {
    const { entry } = await store.get(key);
    const before = entry && startCodec.decode(entry.value);
    if (before !== undefined && before.offset >= wanted) return before.offset;
    if (wanted === 0) return 0;
    if (clock.monotonicMs() >= deadlineMs) throw new SluiceError("TIMED_OUT", "the log start was not raised within the deadline");
    try {
      const done = await store.txn({
        compare: [{ key, target: "mod", equals: entry?.modRevision ?? 0 }],
        then: [{ kind: "put", key, value: startCodec.encode({ offset: wanted }, before) }],
      });
      if (done.succeeded) return wanted;
    } catch (error) {
      if ((error as { code?: string }).code !== "UNKNOWN_OUTCOME") throw error;
    }
  }
}
