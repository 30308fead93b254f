import { newBatchHeader, readBatchHeader } from "@sluice/core/log";
import type { PartitionId } from "@sluice/core/model";
import {
  apis,
  type Input,
  type ListOffsetsRequestListOffsetsPartition,
  type ListOffsetsResponseListOffsetsPartitionResponse,
} from "@sluice/kafka-wire";
import { partitionOf } from "../../topics.ts";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { kafkaFailure } from "../errors.ts";
import { checkLeaderEpoch } from "../leader-epoch.ts";
import { kafkaLimits } from "../limits.ts";
import { deadlineOf, topicNamed } from "../topic-admin.ts";

/** Times that stand for positions. */
const LATEST = -1;
const EARLIEST = -2;
const MAX_TIMESTAMP = -3;
/** Earliest record on the brokers' own disks: here every record is where every other one is. */
const EARLIEST_LOCAL = -4;
/** Last record in remote storage: nothing is there alone. */
const LATEST_TIERED = -5;

interface Found {
  readonly offset: number;
  readonly timestamp: number;
}
const NOTHING: Found = { offset: -1, timestamp: -1 };

/** Earliest, latest, by time, or the record with the largest time, for each partition alone. */
export const listOffsets = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.ListOffsets,
    access: { resource: "topic", operation: "describe" },
    async handle({ topics, timeoutMs }, call) {
      const deadlineMs = deadlineOf(context, timeoutMs);
      return {
        topics: await inParallel(topics, kafkaLimits.topicsParallel, async ({ name, partitions }) => ({
          name,
          partitions: await inParallel(partitions, kafkaLimits.offsetsParallel, (asked) => one(context, call, name, asked, deadlineMs)),
        })),
      };
    },
  });

async function one(
  context: KafkaContext,
  call: KafkaCall,
  name: string,
  asked: ListOffsetsRequestListOffsetsPartition,
  deadlineMs: number,
): Promise<Input<ListOffsetsResponseListOffsetsPartitionResponse>> {
  const { partitionIndex, timestamp, currentLeaderEpoch } = asked;
  try {
    const partition = partitionOf(await topicNamed(context, call, name), partitionIndex);
    const errorCode = await checkLeaderEpoch(context, partition, currentLeaderEpoch);
    if (errorCode !== 0) return { partitionIndex, errorCode };
    const found = await find(context, partition, timestamp, deadlineMs, call.signal);
    // Nothing is ever cut off again, so no client has to check its position against the epoch of a record.
    return { partitionIndex, offset: found.offset, timestamp: found.timestamp };
  } catch (error) {
    return { partitionIndex, errorCode: kafkaFailure(error).errorCode };
  }
}

async function find(
  context: KafkaContext,
  partition: PartitionId,
  timestamp: number,
  deadlineMs: number,
  signal: AbortSignal,
): Promise<Found> {
  const { positions } = context;
  switch (timestamp) {
    case LATEST:
      return { ...NOTHING, offset: (await positions.latest(partition, deadlineMs, signal)).offset };
    case EARLIEST:
    case EARLIEST_LOCAL:
      return { ...NOTHING, offset: positions.earliest(partition).offset };
    case MAX_TIMESTAMP:
      return largest(context, partition, deadlineMs, signal);
    case LATEST_TIERED:
      return NOTHING;
    default:
      return timestamp < 0 ? NOTHING : byTime(context, partition, timestamp, deadlineMs, signal);
  }
}
async function byTime(
  { positions }: KafkaContext,
  partition: PartitionId,
  timestampMs: number,
  deadlineMs: number,
  signal: AbortSignal,
): Promise<Found> {
  const { offset, timestampMs: timestamp } = await positions.atTime(partition, timestampMs, deadlineMs, signal);
  return offset < 0 ? NOTHING : { offset, timestamp };
}

/**
 * The record with the largest time. "Is there one at or after t" has a quick answer, and is true up to the time that is looked for: so begin at the
 * time of the last batch, which nearly always is it, and go up in growing steps, then down between the two, while there is a later one.
 */
async function largest(context: KafkaContext, partition: PartitionId, deadlineMs: number, signal: AbortSignal): Promise<Found> {
  const { highWatermark } = await context.offsets.confirm(partition, deadlineMs, signal);
  let best = await byTime(context, partition, await lastBatchTime(context, partition, highWatermark), deadlineMs, signal);
  if (best.offset < 0) return NOTHING;
  let below = Number.MAX_SAFE_INTEGER;
  for (let step = 1; best.timestamp + 1 < below;) {
    const probe = Math.min(best.timestamp + step, below - 1);
    const found = await byTime(context, partition, probe, deadlineMs, signal);
    if (found.offset >= 0) {
      best = found;
      step *= 2;
    } else {
      below = probe;
      step = Math.max(1, Math.floor((below - best.timestamp) / 2));
    }
  }
  return best;
}
async function lastBatchTime({ reads, view, clock }: KafkaContext, partition: PartitionId, end: number): Promise<number> {
  const topic = view.topicsById.get(partition.topicId);
  if (topic === undefined || end === 0) return 0;
  const reader = reads.open(topic, partition, end - 1);
  try {
    const nowMs = clock.monotonicMs();
    const { runs } = await reads.read(reader, { maxBytes: 1, waitUntilMs: nowMs, giveUpMs: nowMs });
    const header = newBatchHeader();
    const [batch] = runs;
    if (batch === undefined || readBatchHeader(batch, 0, batch.length, header) !== undefined) return 0;
    return Math.max(0, header.maxTimestamp);
  } finally {
    reads.close(reader);
  }
}
