import { SluiceError } from "@sluice/core/model";
import type { RecordHeader } from "@sluice/core/log";
import { clientLimits } from "./timing.ts";
import { type ClientSpan, sampled } from "./tracing.ts";
import type { Bytes, ConsumedRecord, Header, HeadersInit, ProducerRecord } from "./types.ts";

const utf8 = new TextEncoder();
const fromUtf8 = new TextDecoder();
const NO_HEADERS: readonly RecordHeader[] = [];
const TRACEPARENT = "traceparent";
const VERBATIM = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** INVALID_ARGUMENT for what is neither text nor bytes nor null. */
export function toBytes(value: Bytes | undefined, what: string): Uint8Array | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "string") return utf8.encode(value);
  // By shape: realms differ.
  if (ArrayBuffer.isView(value) && value.BYTES_PER_ELEMENT === 1) return value;
  throw new SluiceError("INVALID_ARGUMENT", `${what} is neither a string nor a Uint8Array nor null`);
}

/** Headers in the stored form, with the trace context unless there is one already. */
export function toHeaders(headers: HeadersInit | undefined, traceparent: string | undefined): readonly RecordHeader[] {
  const traced = traceparent !== undefined && VERBATIM.test(traceparent);
  if (headers === undefined && !traced) return NO_HEADERS;
  const out: RecordHeader[] = [];
  let named = false;
  const pairs = headers === undefined ? [] : Array.isArray(headers) ? headers : Object.entries(headers);
  for (const [name, value] of pairs as readonly (readonly [string, Bytes])[]) {
    if (name === TRACEPARENT) named = true;
    out.push({ key: utf8.encode(name), value: toBytes(value, `header ${name}`) });
  }
  if (traced && !named) out.push({ key: utf8.encode(TRACEPARENT), value: utf8.encode(traceparent) });
  return out;
}

/** A record ready to be encoded. */
export interface PreparedRecord {
  readonly topic: string;
  readonly partition: number | undefined;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: readonly RecordHeader[];
  readonly timestampMs: number;
  /** What it counts for in the buffer. */
  readonly bytes: number;
  /** Trace context that is being recorded; and the span that it is of, when that is the client's own. */
  readonly trace: string | undefined;
  readonly span: ClientSpan | undefined;
}

/** Throws INVALID_ARGUMENT. */
export function prepareRecord(
  record: ProducerRecord,
  defaultTopic: string | undefined,
  nowMs: number,
  traceparent: () => string | undefined,
  span?: ClientSpan,
): PreparedRecord {
  const topic = record.topic ?? defaultTopic;
  if (topic === undefined || topic === "") throw new SluiceError("INVALID_ARGUMENT", "the record names no topic, nor does the producer");
  checkPartition(record.partition);
  const key = toBytes(record.key, "key");
  const value = toBytes(record.value, "value");
  const context = record.traceparent ?? span?.traceparent ?? traceparent();
  const headers = toHeaders(record.headers, context);
  let bytes = clientLimits.recordOverheadBytes + (key?.length ?? 0) + (value?.length ?? 0);
  for (const header of headers) bytes += header.key.length + (header.value?.length ?? 0);
  return {
    topic,
    partition: record.partition,
    key,
    value,
    headers,
    timestampMs: record.timestampMs ?? nowMs,
    bytes,
    trace: span?.traceparent ?? sampled(context),
    span,
  };
}
export function checkPartition(partition: number | undefined): void {
  if (partition !== undefined && (!Number.isInteger(partition) || partition < 0))
    throw new SluiceError("INVALID_ARGUMENT", `partition is ${partition}; it is an integer from 0 up`);
}

const NONE: readonly Header[] = [];

/** A record as read; its headers are decoded when they are asked for. */
export class ReceivedRecord implements ConsumedRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly timestampMs: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly #stored: readonly RecordHeader[] | undefined;
  #headers: readonly Header[] | undefined;
  constructor(
    topic: string,
    partition: number,
    offset: number,
    timestampMs: number,
    key: Uint8Array | null,
    value: Uint8Array | null,
    headers: readonly RecordHeader[] | undefined,
  ) {
    this.topic = topic;
    this.partition = partition;
    this.offset = offset;
    this.timestampMs = timestampMs;
    this.key = key;
    this.value = value;
    this.#stored = headers;
  }
  get headers(): readonly Header[] {
    if (this.#stored === undefined) return NONE;
    return (this.#headers ??= this.#stored.map((h) => [fromUtf8.decode(h.key), h.value] as const));
  }
  keyText(): string | null {
    return this.key === null ? null : fromUtf8.decode(this.key);
  }
  valueText(): string | null {
    return this.value === null ? null : fromUtf8.decode(this.value);
  }
  header(name: string): Uint8Array | null | undefined {
    return this.headers.findLast(([n]) => n === name)?.[1];
  }
}
