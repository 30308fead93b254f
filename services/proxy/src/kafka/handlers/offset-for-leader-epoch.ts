import type { PartitionId } from "@sluice/core/model";
import {
  apis,
  type Input,
  type OffsetForLeaderEpochRequestOffsetForLeaderPartition,
  type OffsetForLeaderEpochResponseEpochEndOffset,
} from "@sluice/kafka-wire";
import { partitionOf } from "../../topics.ts";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { kafkaFailure } from "../errors.ts";
import { checkLeaderEpoch } from "../leader-epoch.ts";
import { kafkaLimits } from "../limits.ts";
import { deadlineOf, topicNamed } from "../topic-admin.ts";

const NONE = { leaderEpoch: -1, endOffset: -1 };

/** Where the records of an epoch end. A consumer asks when it has seen a newer epoch, to find out whether its position was cut off. */
export const offsetForLeaderEpoch = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.OffsetForLeaderEpoch,
    access: { resource: "topic", operation: "describe" },
    handle: async ({ topics }, call) => ({
      topics: await inParallel(topics, kafkaLimits.topicsParallel, async ({ topic, partitions }) => ({
        topic,
        partitions: await inParallel(partitions, kafkaLimits.offsetsParallel, (asked) => one(context, call, topic, asked)),
      })),
    }),
  });

async function one(
  context: KafkaContext,
  call: KafkaCall,
  name: string,
  { partition: index, currentLeaderEpoch, leaderEpoch }: OffsetForLeaderEpochRequestOffsetForLeaderPartition,
): Promise<Input<OffsetForLeaderEpochResponseEpochEndOffset>> {
  try {
    const partition = partitionOf(await topicNamed(context, call, name), index);
    const errorCode = await checkLeaderEpoch(context, partition, currentLeaderEpoch);
    if (errorCode !== 0) return { partition: index, errorCode };
    return { partition: index, ...(await endOf(context, call, partition, leaderEpoch)) };
  } catch (error) {
    return { partition: index, errorCode: kafkaFailure(error).errorCode };
  }
}

/**
 * Segments carry the epoch that wrote them. Of an epoch without records, the largest one below it counts; an epoch that is yet to come has no end.
 */
async function endOf(context: KafkaContext, call: KafkaCall, partition: PartitionId, asked: number): Promise<typeof NONE> {
  const { view, offsets, timers } = context;
  const segments = view.segmentsOf(partition).map(({ record }) => record);
  const later = segments.find(({ segment }) => segment.epoch > asked);
  if (later !== undefined) {
    const epoch = segments.findLast(({ segment }) => segment.epoch <= asked)?.segment.epoch ?? asked;
    return { leaderEpoch: epoch, endOffset: later.base };
  }
  const marks = await offsets.confirm(partition, deadlineOf(context, timers.produceHoldMs), call.signal);
  return asked <= marks.epoch ? { leaderEpoch: asked, endOffset: marks.highWatermark } : NONE;
}
