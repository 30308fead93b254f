import { startCodec, topicCodec } from "@sluice/catalog";
import { codeOf, SluiceError, type PartitionId, type TopicRecord } from "@sluice/core/model";
import { apis, type DeleteRecordsResponseDeleteRecordsPartitionResult, type Input } from "@sluice/kafka-wire";
import { partitionOf, refuseReserved } from "../../topics.ts";
import { proxyLimits } from "../../limits.ts";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
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
    refuseReserved(name);
    const topic = await topicNamed(context, call, name);
    const partition = partitionOf(topic, partitionIndex);
    const { highWatermark } = await context.offsets.confirm(partition, deadlineMs, call.signal);
    const wanted = offset === HIGH_WATERMARK ? highWatermark : offset;
    if (wanted < 0 || wanted > highWatermark)
      throw new SluiceError("OFFSET_OUT_OF_RANGE", `offset ${offset} is not within the log, which ends at ${highWatermark}`);
    const lowWatermark = await raiseStart(context, topic, partition, wanted, deadlineMs, call.signal);
    await seen(context, () => (context.view.partition(partition)?.startOffset ?? 0) >= lowWatermark, deadlineMs);
    return { partitionIndex, lowWatermark };
  } catch (error) {
    return { partitionIndex, lowWatermark: -1, errorCode: kafkaFailure(error).errorCode };
  }
}

/**
 * Returns the log start after it. Putting the same value again is no harm, so an unknown outcome is tried again. The topic's record is compared
 * too: its keys are deleted when it is, and none may come after that.
 */
async function raiseStart(
  { store, keys, clock }: KafkaContext,
  { tenant, name, topicId }: TopicRecord,
  partition: PartitionId,
  wanted: number,
  deadlineMs: number,
  signal: AbortSignal,
): Promise<number> {
  const key = keys.start(partition);
  const topicKey = keys.topic(tenant, name);
  for (;;) {
    const [{ entry }, { entry: topicEntry }] = await Promise.all([store.get(key), store.get(topicKey)]);
    const topic = topicEntry && topicCodec.decode(topicEntry.value);
    if (topicEntry === undefined || topic?.topicId !== topicId || topic.phase !== "ACTIVE")
      throw new SluiceError("UNKNOWN_TOPIC", `topic ${name} has been deleted`);
    const before = entry && startCodec.decode(entry.value);
    if (before !== undefined && before.offset >= wanted) return before.offset;
    if (wanted === 0) return 0;
    if (clock.monotonicMs() >= deadlineMs) throw new SluiceError("TIMED_OUT", "the log start was not raised within the deadline");
    try {
      const done = await store.txn({
        compare: [
          { key, target: "mod", equals: entry?.modRevision ?? 0 },
          { key: topicKey, target: "mod", equals: topicEntry.modRevision },
        ],
        then: [{ kind: "put", key, value: startCodec.encode({ offset: wanted }, before) }],
      });
      if (done.succeeded) return wanted;
    } catch (error) {
      if (codeOf(error) !== "UNKNOWN_OUTCOME") throw error;
    }
    await clock.sleep(proxyLimits.routeRetryMs, signal);
  }
}
