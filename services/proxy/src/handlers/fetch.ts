import { sampledTraceParent } from "@sluice/core/log";
import { codeOf, limits, SluiceError } from "@sluice/core/model";
import { DataFormat, type FetchRequest } from "@sluice/proto/v1/consume";
import type { CallContext } from "@sluice/rpc";
import { spanAttributes } from "@sluice/runtime";
import { proxyLimits, replyBytesMax } from "../limits.ts";
import type { ReadAnswer } from "../read-path.ts";
import { atPartition, checkFormat, recordPages, withoutControl, type RecordPage } from "../record-set.ts";
import { partitionOf, refuseReserved } from "../topics.ts";
import type { Fetched } from "../wire/consume-codec.ts";
import type { ConsumeHandlersContext } from "./consume-context.ts";

/**
 * One read: answers when `minBytes` are there or the wait is over, and at once when the proxy drains.
 * Throws UNKNOWN_TOPIC, PERMISSION_DENIED, UNKNOWN_PARTITION, INVALID_ARGUMENT, OFFSET_OUT_OF_RANGE, READ_UNAVAILABLE, UNREADABLE_BATCH.
 */
export async function fetch(context: ConsumeHandlersContext, request: FetchRequest, call: CallContext): Promise<Fetched> {
  const { tracer } = context;
  const parent = tracer === undefined ? undefined : sampledTraceParent(call.traceparent);
  if (tracer === undefined || parent === undefined) return read(context, request, call);
  const topic = request.topic.slice(0, limits.nameCharsMax);
  const span = tracer.begin(`fetch ${topic}`, parent, {
    [spanAttributes.operation]: "fetch",
    [spanAttributes.destination]: topic,
    [spanAttributes.partition]: String(request.partition),
    [spanAttributes.firstOffset]: Number(request.offset),
  });
  try {
    const answer = await read(context, request, call);
    span?.end();
    return answer;
  } catch (error) {
    span?.end(codeOf(error));
    throw error;
  }
}
async function read(context: ConsumeHandlersContext, request: FetchRequest, call: CallContext): Promise<Fetched> {
  const { clock, timers, topics, reads, metrics, codecs } = context;
  await call.authorize(request.topic);
  refuseReserved(request.topic);
  checkFormat(request.format);
  const topic = await topics.find(call.principal.tenant, request.topic);
  const offset = Number(request.offset);
  if (!Number.isSafeInteger(offset) || offset < 0) throw new SluiceError("INVALID_ARGUMENT", `offset ${request.offset} is out of range`);
  const maxBytes = Math.min(request.maxBytes === 0 ? proxyLimits.fetchBytesDefault : request.maxBytes, replyBytesMax);
  const minBytes = Math.min(Math.max(1, request.minBytes), maxBytes);
  const nowMs = clock.monotonicMs();
  const waitUntilMs = Math.min(nowMs + Math.min(request.waitMs, timers.fetchWaitMsMax), call.deadlineMs);
  const giveUpMs = Math.min(Math.max(waitUntilMs, nowMs + proxyLimits.readUnavailableMs), call.deadlineMs);
  const signal = AbortSignal.any([call.signal, call.draining]);
  const reader = reads.open(topic, partitionOf(topic, request.partition), offset);
  const runs: Uint8Array[] = [];
  let bytes = 0;
  let last: ReadAnswer;
  try {
    do {
      last = await reads.read(reader, { maxBytes: maxBytes - bytes, waitUntilMs, giveUpMs, signal });
      if (last.runs.length === 0) break;
      // A batch that does not fit behind others is left for the next fetch.
      if (bytes > 0 && bytes + last.bytes > maxBytes) break;
      runs.push(...last.runs);
      bytes += last.bytes;
      reader.offset = last.nextOffset;
    } while (bytes < minBytes);
  } finally {
    reads.close(reader);
  }
  const known = Math.max(last.highWatermark, reader.offset);
  const marks = {
    highWatermark: known,
    lastStableOffset: last.lastStableOffset < 0 ? known : last.lastStableOffset,
    logStartOffset: last.logStart,
    throttleMs: 0,
  };
  if (request.format === DataFormat.BATCHES) {
    metrics.consumeBytes.inc(bytes);
    return { records: undefined, runs: withoutControl(runs), nextOffset: reader.offset, ...marks };
  }
  const page = firstPage(request, recordPages(runs, offset, maxBytes, codecs));
  if (page === undefined) return { records: undefined, runs: [], nextOffset: offset, ...marks };
  metrics.consumeBytes.inc(page.bytes.length);
  return { records: page.count === 0 ? undefined : page.bytes, runs: [], nextOffset: page.nextOffset, ...marks };
}

function firstPage({ topic, partition }: FetchRequest, pages: ReturnType<typeof recordPages>): RecordPage | void {
  try {
    return pages.next().value;
  } catch (error) {
    throw atPartition(topic, partition, error);
  }
}
