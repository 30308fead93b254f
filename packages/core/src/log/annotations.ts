import { limits, SluiceError } from "../model/index.ts";
import { readInt64, readUint32, writeInt32, writeInt64 } from "./bytes.ts";

/**
 * Optional tagged fields behind the fixed header of a link frame or a journal entry, at most 256 bytes in all. Records are opaque, so what concerns
 * a batch but is not part of it has no other place. Zero bytes when there are none.
 *
 *   { tag uint8 | length varint (unsigned, at most 2 bytes) | bytes }*       each tag once, in any order
 *
 * A tag that this version does not know is kept and passed on. Tags are persisted: never reuse one, never change one.
 *
 *   tag  field         bytes
 *    1   traceParent   26: version, trace id (16), parent id (8), flags: the W3C header in binary
 *    2   appendTime     8: milliseconds since 1970, the broker's clock
 *    3   principal      UTF-8
 *    4   clientId       UTF-8
 *    5   deadline       4: milliseconds that were left when the frame was sent (clocks of two machines differ)
 *    6   lane           1
 *    7   deliverAt      8: milliseconds since 1970
 *    8   priority       1
 *    9   anySequence    1: 1 = whoever sends it vouches that no earlier batch of the producer is missing (of a Produce frame alone)
 */
export const annotationTags = {
  traceParent: 1,
  appendTime: 2,
  principal: 3,
  clientId: 4,
  deadline: 5,
  lane: 6,
  deliverAt: 7,
  priority: 8,
  anySequence: 9,
} as const;

export interface UnknownAnnotation {
  readonly tag: number;
  readonly bytes: Uint8Array;
}
export interface Annotations {
  readonly traceParent?: Uint8Array;
  readonly appendTimeMs?: number;
  /** UTF-8, as is `clientId`. */
  readonly principal?: Uint8Array;
  readonly clientId?: Uint8Array;
  readonly deadlineMs?: number;
  readonly lane?: number;
  readonly deliverAtMs?: number;
  readonly priority?: number;
  readonly anySequence?: boolean;
  readonly unknown?: readonly UnknownAnnotation[];
}
export const NO_ANNOTATIONS: Annotations = Object.freeze({});
const EMPTY = new Uint8Array(0);
export const TRACE_PARENT_BYTES = 26;
const TRACE_ID_AT = 1;
const PARENT_ID_AT = 17;
const FLAGS_AT = 25;
const SAMPLED = 1;

/** Fields in the order in which they are written. */
function fieldsOf(a: Annotations): UnknownAnnotation[] {
  const t = annotationTags;
  const out: UnknownAnnotation[] = [];
  if (a.traceParent !== undefined) out.push({ tag: t.traceParent, bytes: sized("traceParent", a.traceParent, TRACE_PARENT_BYTES) });
  if (a.appendTimeMs !== undefined) out.push({ tag: t.appendTime, bytes: int64("appendTime", a.appendTimeMs) });
  if (a.principal !== undefined) out.push({ tag: t.principal, bytes: a.principal });
  if (a.clientId !== undefined) out.push({ tag: t.clientId, bytes: a.clientId });
  if (a.deadlineMs !== undefined) out.push({ tag: t.deadline, bytes: uint("deadline", a.deadlineMs, 4) });
  if (a.lane !== undefined) out.push({ tag: t.lane, bytes: uint("lane", a.lane, 1) });
  if (a.deliverAtMs !== undefined) out.push({ tag: t.deliverAt, bytes: int64("deliverAt", a.deliverAtMs) });
  if (a.priority !== undefined) out.push({ tag: t.priority, bytes: uint("priority", a.priority, 1) });
  if (a.anySequence === true) out.push({ tag: t.anySequence, bytes: uint("anySequence", 1, 1) });
  if (a.unknown !== undefined) out.push(...a.unknown);
  return out;
}

/** Throws INVALID_ARGUMENT when a value does not fit its field or all of them do not fit 256 bytes. */
export function encodeAnnotations(a: Annotations): Uint8Array {
  const fields = fieldsOf(a);
  if (fields.length === 0) return EMPTY;
  let total = 0;
  for (const { bytes } of fields) total += 1 + (bytes.length < 0x80 ? 1 : 2) + bytes.length;
  if (total > limits.annotationBytesMax)
    throw new SluiceError("INVALID_ARGUMENT", `annotations of ${total} bytes, the limit is ${limits.annotationBytesMax}`);
  const out = new Uint8Array(total);
  let at = 0;
  for (const { tag, bytes } of fields) {
    out[at++] = tag;
    if (bytes.length >= 0x80) out[at++] = (bytes.length & 0x7f) | 0x80;
    out[at++] = bytes.length < 0x80 ? bytes.length : bytes.length >> 7;
    out.set(bytes, at);
    at += bytes.length;
  }
  return out;
}

/** Reads the fields in [from, to). Byte fields are views. Throws MALFORMED_FRAME. */
export function decodeAnnotations(bytes: Uint8Array, from = 0, to: number = bytes.length): Annotations {
  if (to === from) return NO_ANNOTATIONS;
  if (from < 0 || to > bytes.length || to < from || to - from > limits.annotationBytesMax)
    throw malformed(`${to - from} bytes, the limit is ${limits.annotationBytesMax}`);
  const out: MutableAnnotations = {};
  const seen = new Uint8Array(256);
  for (let at = from; at < to;) {
    const tag = bytes[at++] as number;
    let length = at < to ? (bytes[at++] as number) : to;
    if (length >= 0x80) {
      const high = at < to ? (bytes[at++] as number) : 0;
      if (high === 0 || high >= 0x80) throw malformed("a length over 2 bytes or cut off");
      length = (length & 0x7f) | (high << 7);
    }
    if (length > to - at) throw malformed(`tag ${tag} claims ${length} bytes`);
    if (seen[tag] === 1) throw malformed(`tag ${tag} stands twice`);
    seen[tag] = 1;
    setField(out, tag, bytes.subarray(at, at + length));
    at += length;
  }
  return out;
}

type MutableAnnotations = { -readonly [K in keyof Annotations]: Annotations[K] };
function setField(out: MutableAnnotations, tag: number, bytes: Uint8Array): void {
  const t = annotationTags;
  if (tag === t.traceParent) out.traceParent = expect(tag, bytes, TRACE_PARENT_BYTES);
  else if (tag === t.appendTime) out.appendTimeMs = safe(tag, readInt64(expect(tag, bytes, 8), 0));
  else if (tag === t.principal) out.principal = bytes;
  else if (tag === t.clientId) out.clientId = bytes;
  else if (tag === t.deadline) out.deadlineMs = readUint32(expect(tag, bytes, 4), 0);
  else if (tag === t.lane) out.lane = expect(tag, bytes, 1)[0] as number;
  else if (tag === t.deliverAt) out.deliverAtMs = safe(tag, readInt64(expect(tag, bytes, 8), 0));
  else if (tag === t.priority) out.priority = expect(tag, bytes, 1)[0] as number;
  else if (tag === t.anySequence) out.anySequence = expect(tag, bytes, 1)[0] === 1;
  else out.unknown = [...(out.unknown ?? []), { tag, bytes }];
}

const malformed = (what: string): SluiceError => new SluiceError("MALFORMED_FRAME", `annotations: ${what}`);
function expect(tag: number, bytes: Uint8Array, length: number): Uint8Array {
  if (bytes.length !== length) throw malformed(`tag ${tag} has ${bytes.length} bytes instead of ${length}`);
  return bytes;
}
function safe(tag: number, n: number): number {
  if (!Number.isSafeInteger(n)) throw malformed(`tag ${tag} is out of range`);
  return n;
}
function sized(name: string, bytes: Uint8Array, length: number): Uint8Array {
  if (bytes.length !== length) throw new SluiceError("INVALID_ARGUMENT", `${name} has ${bytes.length} bytes instead of ${length}`);
  return bytes;
}
function int64(name: string, n: number): Uint8Array {
  if (!Number.isSafeInteger(n)) throw new SluiceError("INVALID_ARGUMENT", `${name} is out of range: ${n}`);
  const out = new Uint8Array(8);
  writeInt64(out, 0, n);
  return out;
}
function uint(name: string, n: number, size: 1 | 4): Uint8Array {
  if (!Number.isInteger(n) || n < 0 || n >= 2 ** (8 * size)) throw new SluiceError("INVALID_ARGUMENT", `${name} is out of range: ${n}`);
  const out = new Uint8Array(size);
  if (size === 1) out[0] = n;
  else writeInt32(out, 0, n);
  return out;
}

const TRACE_PARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
/** The W3C `traceparent` header in binary; undefined when the text is none (a broken header is dropped, never an error). */
export function traceParentBytes(text: string): Uint8Array | undefined {
  if (!TRACE_PARENT.test(text)) return undefined;
  const hex = text.replaceAll("-", "");
  const out = new Uint8Array(TRACE_PARENT_BYTES);
  for (let i = 0; i < TRACE_PARENT_BYTES; i++) out[i] = Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16);
  return out;
}
export function traceParentText(bytes: Uint8Array): string {
  let hex = "";
  for (const byte of bytes) hex += byte.toString(16).padStart(2, "0");
  return `${hex.slice(0, 2)}-${hex.slice(2, 34)}-${hex.slice(34, 50)}-${hex.slice(50, 52)}`;
}

/** The trace parent of a request that is being recorded; undefined when the text is none, names nothing, or says that nobody records it. */
export function sampledTraceParent(text: string): Uint8Array | undefined {
  const bytes = traceParentBytes(text);
  return bytes !== undefined && isSampled(bytes) ? bytes : undefined;
}
/** Of a trace parent in binary: whole, with both ids, and with the flag that asks for recording. */
export function isSampled(bytes: Uint8Array): boolean {
  if (bytes.length !== TRACE_PARENT_BYTES || bytes[0] === 0xff || ((bytes[FLAGS_AT] as number) & SAMPLED) === 0) return false;
  return isNamed(bytes, TRACE_ID_AT, PARENT_ID_AT) && isNamed(bytes, PARENT_ID_AT, FLAGS_AT);
}
/** An id of zeros is none. */
function isNamed(bytes: Uint8Array, from: number, to: number): boolean {
  for (let i = from; i < to; i++) if (bytes[i] !== 0) return true;
  return false;
}
