import type { Codec, Gathered } from "@sluice/rpc";
import { Gathered as GatheredBytes } from "@sluice/rpc/client";
import { FieldReader, writeBytesHead, writeNumber } from "./protobuf.ts";

/** The messages of the hot path in a lean form; numbers of fields as in produce.proto and consume.proto. */

/** ProduceStreamRequest with encoded batches. */
export interface ProduceCall {
  readonly id: number;
  /** "" = as in the previous message of the stream. */
  readonly topic: string;
  readonly partition: number;
  /** Written together. */
  readonly batches: readonly Uint8Array[];
  readonly expectedBaseOffset: number | undefined;
  readonly fenceToken: number | undefined;
  /** W3C trace context; undefined = not recorded. */
  readonly trace: string | undefined;
}
/** ProduceStreamResponse. */
export interface ProduceAnswer {
  id: number;
  /** Number of the error catalogue; 0 = written. */
  error: number;
  errorMessage: string;
  partition: number;
  baseOffset: number;
  lastOffset: number;
  appendTimeMs: number;
  throttleMs: number;
}
/** ConsumeResponse without structured records. */
export interface ConsumeAnswer {
  partition: number;
  /** Whole batches; a view. */
  batches: Uint8Array;
  nextOffset: number;
  highWatermark: number;
  logStartOffset: number;
  endReached: boolean;
  seekNumber: number;
  error: number;
  errorMessage: string;
  /** Trace context of what delivered the batches; "" = not recorded. */
  traceparent: string;
}

const utf8 = new TextEncoder();
/** Tags and numbers of a request without its topic and batch. */
const HEAD_BYTES = 64;
const NOTHING = new Uint8Array(0);

export function encodeProduceCall(call: ProduceCall): Gathered {
  const topic = call.topic === "" ? NOTHING : utf8.encode(call.topic);
  const trace = call.trace === undefined ? NOTHING : utf8.encode(call.trace);
  const head = new Uint8Array(HEAD_BYTES + topic.length + trace.length);
  let at = writeNumber(head, 0, 1, call.id);
  if (topic.length > 0) {
    at = writeBytesHead(head, at, 2, topic.length);
    head.set(topic, at);
    at += topic.length;
  }
  at = writeNumber(head, at, 3, call.partition);
  if (call.expectedBaseOffset !== undefined) at = writeNumber(head, at, 6, call.expectedBaseOffset);
  if (call.fenceToken !== undefined) at = writeNumber(head, at, 7, call.fenceToken);
  if (trace.length > 0) {
    at = writeBytesHead(head, at, 8, trace.length);
    head.set(trace, at);
    at += trace.length;
  }
  let bytes = 0;
  for (const batch of call.batches) bytes += batch.length;
  at = writeBytesHead(head, at, 5, bytes);
  return new GatheredBytes([head.subarray(0, at), ...call.batches]);
}

export function decodeProduceAnswer(bytes: Uint8Array): ProduceAnswer {
  const a: ProduceAnswer = {
    id: 0,
    error: 0,
    errorMessage: "",
    partition: 0,
    baseOffset: 0,
    lastOffset: 0,
    appendTimeMs: 0,
    throttleMs: 0,
  };
  const r = new FieldReader(bytes);
  while (r.next()) {
    if (r.field === 1) a.id = r.number();
    else if (r.field === 2) a.error = r.number();
    else if (r.field === 3) a.errorMessage = r.text();
    else if (r.field === 4) a.partition = r.number();
    else if (r.field === 5) a.baseOffset = r.number();
    else if (r.field === 6) a.lastOffset = r.number();
    else if (r.field === 7) a.appendTimeMs = r.number();
    else if (r.field === 9) a.throttleMs = r.number();
    else r.skip();
  }
  return a;
}

export function decodeConsumeAnswer(bytes: Uint8Array): ConsumeAnswer {
  const a: ConsumeAnswer = {
    partition: 0,
    batches: NOTHING,
    nextOffset: 0,
    highWatermark: 0,
    logStartOffset: 0,
    endReached: false,
    seekNumber: 0,
    error: 0,
    errorMessage: "",
    traceparent: "",
  };
  const r = new FieldReader(bytes);
  while (r.next()) {
    if (r.field === 2) a.partition = r.number();
    else if (r.field === 4) a.batches = r.bytes();
    else if (r.field === 5) a.nextOffset = r.number();
    else if (r.field === 6) a.highWatermark = r.number();
    else if (r.field === 8) a.logStartOffset = r.number();
    else if (r.field === 9) a.endReached = r.number() !== 0;
    else if (r.field === 10) a.seekNumber = r.number();
    else if (r.field === 11) a.error = r.number();
    else if (r.field === 12) a.errorMessage = r.text();
    else if (r.field === 13) a.traceparent = r.text();
    else r.skip();
  }
  return a;
}

const oneWay = (): never => {
  throw new Error("the client only sends requests and only reads answers");
};
export const produceCodecs = {
  produceStream: {
    request: { encode: encodeProduceCall, decode: oneWay } satisfies Codec<ProduceCall, never>,
    response: { encode: oneWay, decode: decodeProduceAnswer } satisfies Codec<never, ProduceAnswer>,
  },
};
export const consumeCodecs = {
  consume: { response: { encode: oneWay, decode: decodeConsumeAnswer } satisfies Codec<never, ConsumeAnswer> },
};
