import { asSluiceError, errorNumber, SluiceError, type TopicRecord } from "@sluice/core/model";
import type { ListOffsetsRequest } from "@sluice/proto/v1/consume";
import type { CallContext } from "@sluice/rpc";
import { answerDeadline } from "../answer-deadline.ts";
import { proxyLimits } from "../limits.ts";
import { inParallel } from "../parallel.ts";
import { partitionOf } from "../topics.ts";
import type { ConsumeHandlersContext } from "./consume-context.ts";

interface Found {
  partition: number;
  offset: bigint;
  timestampMs: bigint;
  error: number;
  errorMessage: string;
}

/** Positions as offsets, an error for each partition alone. Throws UNKNOWN_TOPIC, INVALID_ARGUMENT. */
export async function listOffsets(
  context: ConsumeHandlersContext,
  request: ListOffsetsRequest,
  call: CallContext,
): Promise<{ offsets: Found[] }> {
  await call.authorize(request.topic);
  const topic = await context.topics.find(call.principal.tenant, request.topic);
  const wanted = request.partitions.length > 0 ? request.partitions : Array.from({ length: topic.partitions }, (_, i) => i);
  if (request.position?.at.case === undefined) throw new SluiceError("INVALID_ARGUMENT", "the request has no position");
  if (wanted.length > proxyLimits.consumePartitionsMax)
    throw new SluiceError("INVALID_ARGUMENT", `at most ${proxyLimits.consumePartitionsMax} partitions are listed at a time`);
  const offsets = await inParallel(wanted, proxyLimits.listOffsetsParallel, (partition) => one(context, topic, partition, request, call));
  return { offsets };
}

async function one(
  context: ConsumeHandlersContext,
  topic: TopicRecord,
  partition: number,
  request: ListOffsetsRequest,
  call: CallContext,
): Promise<Found> {
  const { clock, timers, positions } = context;
  try {
    const id = partitionOf(topic, partition);
    const deadlineMs = answerDeadline(clock, timers, call.remainingMs());
    const found = await positions.find(id, request.position, deadlineMs, call.signal);
    return { partition, offset: BigInt(found.offset), timestampMs: BigInt(found.timestampMs), error: 0, errorMessage: "" };
  } catch (reason) {
    const error = asSluiceError(reason);
    const errorMessage = error.code === "INTERNAL" ? "internal error; the server's log has the cause" : error.message;
    return { partition, offset: -1n, timestampMs: -1n, error: errorNumber(error.code), errorMessage };
  }
}
