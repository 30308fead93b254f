import type { Crc32c } from "../log/index.ts";
import { batchCrc, BatchCursor } from "../log/index.ts";
import { limits, SluiceError } from "../model/index.ts";
import type { ReplicaStatus } from "../replica/api.ts";
import { BodyReader, BodyWriter } from "./entry-body.ts";
import type { JournalEntry, SegmentStateEntry } from "./entry.ts";
import { viewOf } from "./format.ts";

/**
 * Entry.
 *   0   u16  magic 0x4a45          2   u8  type (entryTypes)    3   u8  flags (entryFlags)
 *   4   u32  length of the whole entry
 *   8   u32  segment number        12  u32  epoch
 *   16  f64  first offset          24  f64  last offset
 *   32  f64  committed mark        40  f64  append time
 *   48  u16  bytes of tagged fields  50  u16  0
 *   52  u32  CRC32C
 *   56       tagged fields, then the body
 *
 * The CRC covers bytes 0 to 51, the tagged fields and the body. In an append entry the body is batches, each of which carries the CRC of what follows its first
 * 21 bytes: there the entry's CRC covers those 21 bytes of each batch, so that the payload is summed once and not twice.
 */
export const ENTRY_HEADER_BYTES = 56;
const ENTRY_MAGIC = 0x4a45;
const CRC_AT = 52;
const BATCH_PREFIX = 21;
/** Numbers on disk: never reuse one. */
export const entryTypes = {
  append: 1,
  create: 2,
  fence: 3,
  rebuild: 4,
  seal: 5,
  delete: 6,
  "node-state": 16,
  "partition-state": 17,
  "segment-state": 18,
  "segment-index": 19,
} as const satisfies Record<JournalEntry["kind"], number>;
const kindOf = new Map<number, JournalEntry["kind"]>(
  Object.entries(entryTypes).map(([kind, type]) => [type, kind as JournalEntry["kind"]]),
);
export const entryFlags = { recovery: 1, hasEpoch: 2, damaged: 4, producersKnown: 8, copy: 16 } as const;

/** Statuses by number, on disk for ever. */
const statuses: readonly ReplicaStatus[] = ["OPEN", "FENCED", "FENCED_EMPTY", "REBUILD", "SEALED", "INCOMPLETE", "FAILED", "DELETED"];

const NONE = -1;
const orNone = (n: number | undefined): number => n ?? NONE;
const orUndefined = (n: number): number | undefined => (n === NONE ? undefined : n);

const writer = new BodyWriter();
interface Fields {
  flags: number;
  segmentNumber: number;
  epoch: number;
  first: number;
  last: number;
  lac: number;
  timeMs: number;
}
const EMPTY = new Uint8Array(0);

/** Fixed fields and body of an entry; of an append the body is its payload, which the caller writes itself. */
function fieldsOf(e: JournalEntry, f: Fields): Uint8Array {
  f.flags = 0;
  f.segmentNumber = 0;
  f.epoch = 0;
  f.first = NONE;
  f.last = NONE;
  f.lac = NONE;
  f.timeMs = 0;
  if (e.kind !== "node-state" && e.kind !== "partition-state") f.segmentNumber = e.segmentNumber;
  switch (e.kind) {
    case "append":
      f.flags = (e.recovery ? entryFlags.recovery : 0) | (e.copy === true ? entryFlags.copy : 0);
      f.epoch = e.epoch;
      f.first = e.firstOffset;
      f.last = e.lastOffset;
      f.lac = e.lac;
      f.timeMs = e.appendMs;
      return EMPTY;
    case "create":
      f.epoch = e.segment.epoch;
      f.first = orNone(e.base);
      writer.address(e.partition, e.segment);
      writer.text(e.nonce);
      writer.blob(e.producers);
      return writer.take();
    case "fence":
      f.epoch = e.epoch;
      writer.address(e.partition, e.segment);
      return writer.take();
    case "rebuild":
      f.flags = e.epoch === undefined ? 0 : entryFlags.hasEpoch;
      f.epoch = e.epoch ?? 0;
      f.first = e.base;
      f.last = e.end;
      writer.address(e.partition, e.segment);
      writer.f64(orNone(e.keyRevision));
      writer.blob(e.producers);
      return writer.take();
    case "seal":
      f.epoch = e.epoch;
      f.last = e.end;
      return EMPTY;
    case "delete":
      return EMPTY;
    case "node-state":
      f.flags = e.damaged ? entryFlags.damaged : 0;
      f.first = e.nextSegmentNumber;
      return EMPTY;
    case "partition-state":
      f.first = e.maxEpoch;
      writer.text(e.partition.topicId);
      writer.u32(e.partition.partition);
      return writer.take();
    case "segment-state":
      return segmentStateBody(e, f);
    default:
      writer.floats(e.offsets);
      writer.floats(e.positions);
      writer.floats(e.timestampsBefore);
      writer.floats(e.fileBytes);
      return writer.take();
  }
}

function segmentStateBody(e: SegmentStateEntry, f: Fields): Uint8Array {
  f.flags = e.producersKnown ? entryFlags.producersKnown : 0;
  f.epoch = e.segment.epoch;
  f.first = orNone(e.base);
  f.last = e.last;
  f.lac = e.lac;
  writer.address(e.partition, e.segment);
  writer.u8(statuses.indexOf(e.status));
  writer.text(e.nonce);
  writer.text(e.chainHash);
  // The end of an empty segment that starts at 0 is -1, so "none" is -2 here.
  writer.f64(e.end ?? -2);
  for (const n of [e.fencedBy, e.madeBy, orNone(e.keyRevision), orNone(e.rebuildEpoch)]) writer.f64(n);
  for (const n of [e.sizeBytes, e.firstAppendMs, e.lastAppendMs, e.maxTimestampMs]) writer.f64(n);
  writer.blob(e.producers);
  return writer.take();
}

let prefixes = new Uint8Array(BATCH_PREFIX * 64);
const prefixCursor = new BatchCursor();
/** The 21 bytes before the checked part of each batch, one after the other. undefined when the bytes are no whole batches, or a batch fails its CRC. */
function batchPrefixes(payload: Uint8Array, crc32c: Crc32c | undefined): Uint8Array | undefined {
  let used = 0;
  prefixCursor.reset(payload);
  while (prefixCursor.next()) {
    const at = prefixCursor.position;
    const { totalBytes, crc } = prefixCursor.header;
    if (crc32c !== undefined && batchCrc(payload, at, totalBytes, crc32c) !== crc) return undefined;
    if (used + BATCH_PREFIX > prefixes.length) {
      const grown = new Uint8Array(prefixes.length * 2);
      grown.set(prefixes);
      prefixes = grown;
    }
    for (let i = 0; i < BATCH_PREFIX; i++) prefixes[used + i] = payload[at + i] as number;
    used += BATCH_PREFIX;
  }
  return prefixCursor.stop === undefined ? prefixes.subarray(0, used) : undefined;
}

const fields: Fields = { flags: 0, segmentNumber: 0, epoch: 0, first: 0, last: 0, lac: 0, timeMs: 0 };

/**
 * Everything of an entry but an append's payload, which follows it on disk: header, tagged fields and the body of the other kinds.
 * The batches of an append have been checked before (each against its CRC).
 */
export function encodeEntryHead(e: JournalEntry, crc32c: Crc32c): Uint8Array {
  const body = fieldsOf(e, fields);
  const tagged = e.kind === "append" ? (e.annotations ?? EMPTY) : EMPTY;
  const payload = e.kind === "append" ? e.payload : EMPTY;
  if (tagged.length > limits.annotationBytesMax) throw new SluiceError("INVALID_ARGUMENT", "journal entry: too many tagged fields");
  const bytes = new Uint8Array(ENTRY_HEADER_BYTES + tagged.length + body.length);
  const view = viewOf(bytes);
  view.setUint16(0, ENTRY_MAGIC, true);
  view.setUint8(2, entryTypes[e.kind]);
  view.setUint8(3, fields.flags);
  view.setUint32(4, bytes.length + payload.length, true);
  view.setUint32(8, fields.segmentNumber, true);
  view.setUint32(12, fields.epoch, true);
  view.setFloat64(16, fields.first, true);
  view.setFloat64(24, fields.last, true);
  view.setFloat64(32, fields.lac, true);
  view.setFloat64(40, fields.timeMs, true);
  view.setUint16(48, tagged.length, true);
  bytes.set(tagged, ENTRY_HEADER_BYTES);
  bytes.set(body, ENTRY_HEADER_BYTES + tagged.length);
  view.setUint32(CRC_AT, entryCrc(bytes, bytes.subarray(ENTRY_HEADER_BYTES), payload, crc32c), true);
  return bytes;
}

function entryCrc(bytes: Uint8Array, rest: Uint8Array, payload: Uint8Array, crc32c: Crc32c): number {
  let crc = crc32c(bytes.subarray(0, CRC_AT));
  if (rest.length > 0) crc = crc32c(rest, crc);
  if (payload.length > 0) {
    const covered = batchPrefixes(payload, undefined);
    if (covered === undefined) throw new SluiceError("CORRUPT_BATCH", "journal entry: the payload is no run of batches");
    crc = crc32c(covered, crc);
  }
  return crc;
}

/** Length of the entry at `at` as its header says, and where its payload starts, without a check; 0 when there is none. */
export interface EntrySpan {
  readonly type: number;
  readonly length: number;
  readonly bodyAt: number;
  readonly segmentNumber: number;
  readonly firstOffset: number;
  readonly lastOffset: number;
  readonly isCopy: boolean;
}
export function entrySpan(bytes: Uint8Array, at: number, end: number): EntrySpan | undefined {
  if (at + ENTRY_HEADER_BYTES > Math.min(end, bytes.length)) return undefined;
  const view = viewOf(bytes);
  if (view.getUint16(at, true) !== ENTRY_MAGIC) return undefined;
  const length = view.getUint32(at + 4, true);
  const tagged = view.getUint16(at + 48, true);
  if (length < ENTRY_HEADER_BYTES + tagged || at + length > end || tagged > limits.annotationBytesMax) return undefined;
  return {
    type: view.getUint8(at + 2),
    length,
    bodyAt: at + ENTRY_HEADER_BYTES + tagged,
    segmentNumber: view.getUint32(at + 8, true),
    firstOffset: view.getFloat64(at + 16, true),
    lastOffset: view.getFloat64(at + 24, true),
    isCopy: (view.getUint8(at + 3) & entryFlags.copy) !== 0,
  };
}

/**
 * The entry at `at`, checked whole; its payload is a view. undefined when it is damaged.
 * Throws VERSION_MISMATCH for a sound entry of a kind that this program does not know.
 */
export function decodeEntry(bytes: Uint8Array, at: number, end: number, crc32c: Crc32c): JournalEntry | undefined {
  const span = entrySpan(bytes, at, end);
  if (span === undefined) return undefined;
  const entry = bytes.subarray(at, at + span.length);
  const view = viewOf(entry);
  const bodyAt = span.bodyAt - at;
  const body = entry.subarray(bodyAt);
  let crc = crc32c(entry.subarray(0, CRC_AT));
  if (span.type === entryTypes.append) {
    if (bodyAt > ENTRY_HEADER_BYTES) crc = crc32c(entry.subarray(ENTRY_HEADER_BYTES, bodyAt), crc);
    const covered = batchPrefixes(body, crc32c);
    if (covered === undefined) return undefined;
    if (covered.length > 0) crc = crc32c(covered, crc);
  } else if (entry.length > ENTRY_HEADER_BYTES) crc = crc32c(entry.subarray(ENTRY_HEADER_BYTES), crc);
  if (crc !== view.getUint32(CRC_AT, true)) return undefined;
  const kind = kindOf.get(span.type);
  if (kind === undefined) throw new SluiceError("VERSION_MISMATCH", `journal entry of type ${span.type}, which this program does not know`);
  return build(kind, view, span, entry.subarray(ENTRY_HEADER_BYTES, bodyAt), body);
}

function build(kind: JournalEntry["kind"], view: DataView, span: EntrySpan, tagged: Uint8Array, body: Uint8Array): JournalEntry {
  const flags = view.getUint8(3);
  const e = view.getUint32(12, true);
  const { segmentNumber, firstOffset: first, lastOffset: last } = span;
  const r = new BodyReader(body);
  switch (kind) {
    case "append":
      return {
        kind,
        segmentNumber,
        epoch: e,
        firstOffset: first,
        lastOffset: last,
        lac: view.getFloat64(32, true),
        appendMs: view.getFloat64(40, true),
        recovery: (flags & entryFlags.recovery) !== 0,
        ...(span.isCopy && { copy: true }),
        ...(tagged.length > 0 && { annotations: tagged }),
        payload: body,
      };
    case "create":
      return {
        kind,
        segmentNumber,
        partition: r.partition(),
        segment: r.segment(),
        base: orUndefined(first),
        nonce: r.text(),
        producers: r.blob(),
      };
    case "fence":
      return { kind, segmentNumber, partition: r.partition(), segment: r.segment(), epoch: e };
    case "rebuild":
      return {
        kind,
        segmentNumber,
        partition: r.partition(),
        segment: r.segment(),
        base: first,
        end: last,
        epoch: (flags & entryFlags.hasEpoch) === 0 ? undefined : e,
        keyRevision: orUndefined(r.f64()),
        producers: r.blob(),
      };
    case "seal":
      return { kind, segmentNumber, end: last, epoch: e };
    case "delete":
      return { kind, segmentNumber };
    case "node-state":
      return { kind, nextSegmentNumber: first, damaged: (flags & entryFlags.damaged) !== 0 };
    case "partition-state":
      return { kind, partition: r.partition(), maxEpoch: first };
    case "segment-state":
      return buildSegmentState(view, span, r, (flags & entryFlags.producersKnown) !== 0);
    default:
      return {
        kind,
        segmentNumber,
        offsets: r.floats(),
        positions: r.floats(),
        timestampsBefore: r.floats(),
        fileBytes: r.floats(),
      };
  }
}

function buildSegmentState(view: DataView, span: EntrySpan, r: BodyReader, producersKnown: boolean): SegmentStateEntry {
  const partition = r.partition();
  const segment = r.segment();
  const status = statuses[r.u8()] ?? "FAILED";
  const nonce = r.text();
  const chainHash = r.text();
  const end = r.f64();
  return {
    kind: "segment-state",
    segmentNumber: span.segmentNumber,
    partition,
    segment,
    status,
    base: orUndefined(span.firstOffset),
    last: span.lastOffset,
    lac: view.getFloat64(32, true),
    end: end === -2 ? undefined : end,
    nonce,
    chainHash,
    fencedBy: r.f64(),
    madeBy: r.f64(),
    keyRevision: orUndefined(r.f64()),
    rebuildEpoch: orUndefined(r.f64()),
    sizeBytes: r.f64(),
    firstAppendMs: r.f64(),
    lastAppendMs: r.f64(),
    maxTimestampMs: r.f64(),
    producers: r.blob(),
    producersKnown,
  };
}
