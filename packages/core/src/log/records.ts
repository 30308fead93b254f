import { limits, SluiceError } from "../model/index.ts";
import { BATCH_HEADER_BYTES, newBatchHeader, parseBatchHeader } from "./batch.ts";
import type { BatchHeader } from "./batch.ts";
import { codecs as codecNumbers, isCodec } from "./compression.ts";
import type { Codecs } from "./compression.ts";
import { VarintReader } from "./varint.ts";

/**
 * A record within a batch (after decompression). All numbers are zigzag varints; a length of -1 is an absent field.
 *
 *   length            of the rest
 *   attributes        one byte, 0
 *   timestampDelta    to the batch's baseTimestamp
 *   offsetDelta       to its baseOffset
 *   keyLength, key    valueLength, value
 *   headersCount, then for each: keyLength, key (UTF-8, never absent), valueLength, value
 */
export const RECORD_BYTES_MIN = 7;

export interface RecordHeader {
  /** UTF-8. */
  readonly key: Uint8Array;
  readonly value: Uint8Array | null;
}
/** A record as a value: for callers that are not on a hot path. Its bytes are views of the batch, or of its decompressed records. */
export interface RecordView {
  readonly offset: number;
  readonly timestampMs: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: readonly RecordHeader[];
}

/** How many bytes a batch may decompress to: an absolute bound, and for large streams a ratio, so that a small lie stays a small cost. */
export function decompressedBytesMax(compressedBytes: number): number {
  return Math.min(limits.decompressedBytesCap, Math.max(limits.decompressedBytesFree, compressedBytes * limits.decompressionRatioMax));
}

/**
 * The plain records of the whole batch at `at`, whose header is `header`: a view when it is not compressed.
 * Throws UNSUPPORTED_CODEC, CORRUPT_BATCH (no valid stream) or MESSAGE_TOO_LARGE (more than `decompressedBytesMax`).
 */
export function plainRecords(bytes: Uint8Array, at: number, header: BatchHeader, codecs: Codecs): Uint8Array {
  const stored = bytes.subarray(at + BATCH_HEADER_BYTES, at + header.totalBytes);
  if (header.codec === codecNumbers.none) return stored;
  if (!isCodec(header.codec)) throw new SluiceError("UNSUPPORTED_CODEC", `the batch names codec ${header.codec}`);
  return codecs.decompress(header.codec, stored, decompressedBytesMax(stored.length));
}

/**
 * Walks the records of a batch without allocating per record:
 *   cursor.open(bytes, at, header, codecs); while (cursor.next()) use(cursor.offset, cursor.key, ...);
 * Every step checks bounds and order; throws CORRUPT_BATCH at the first record that breaks them. Never trusts a count or a length.
 */
export class RecordCursor {
  readonly #reader = new VarintReader();
  #end = 0;
  #left = 0;
  #baseOffset = 0;
  #baseTimestamp = 0;
  #appendTime = -1;
  #lastDelta = 0;
  #previousDelta = -1;
  offset = -1;
  timestampMs = -1;
  #keyFrom = 0;
  #keyLength = -1;
  #valueFrom = 0;
  #valueLength = -1;
  #headersFrom = 0;
  headerCount = 0;
  /** Bytes of the record's headers, with their lengths. */
  headerBytes = 0;

  /** Starts at the whole batch at `at`, whose header was parsed into `header`. Decompresses when need be (see `plainRecords`). */
  open(bytes: Uint8Array, at: number, header: BatchHeader, codecs: Codecs): this {
    return this.openPlain(plainRecords(bytes, at, header, codecs), header);
  }
  /** Starts with the plain records of a batch. */
  openPlain(plain: Uint8Array, header: BatchHeader): this {
    if (header.recordsCount > plain.length / RECORD_BYTES_MIN || header.recordsCount > header.lastOffsetDelta + 1)
      throw new SluiceError("CORRUPT_BATCH", `the batch claims ${header.recordsCount} records in ${plain.length} bytes`);
    this.#reader.bytes = plain;
    this.#reader.at = 0;
    this.#end = plain.length;
    this.#left = header.recordsCount;
    this.#baseOffset = header.baseOffset;
    this.#baseTimestamp = header.baseTimestamp;
    this.#appendTime = header.logAppendTime ? header.maxTimestamp : -1;
    this.#lastDelta = header.lastOffsetDelta;
    this.#previousDelta = -1;
    return this;
  }

  next(): boolean {
    const r = this.#reader;
    if (this.#left === 0) {
      if (r.at !== this.#end) throw new SluiceError("CORRUPT_BATCH", `${this.#end - r.at} bytes follow the last record`);
      return false;
    }
    r.end = this.#end;
    const bodyBytes = r.length();
    const bodyEnd = r.at + bodyBytes;
    if (bodyBytes < RECORD_BYTES_MIN - 1) throw new SluiceError("CORRUPT_BATCH", `a record of ${bodyBytes} bytes`);
    r.end = bodyEnd;
    r.at++;
    const timestampDelta = r.varlong();
    const offsetDelta = r.varint();
    // Compaction leaves gaps, nothing turns the order.
    if (offsetDelta <= this.#previousDelta || offsetDelta > this.#lastDelta)
      throw new SluiceError("CORRUPT_BATCH", `offset delta ${offsetDelta} follows ${this.#previousDelta}, the last is ${this.#lastDelta}`);
    this.#previousDelta = offsetDelta;
    this.offset = this.#baseOffset + offsetDelta;
    this.timestampMs = this.#appendTime >= 0 ? this.#appendTime : this.#baseTimestamp + timestampDelta;
    this.#keyLength = r.length();
    this.#keyFrom = r.at;
    if (this.#keyLength > 0) r.at += this.#keyLength;
    this.#valueLength = r.length();
    this.#valueFrom = r.at;
    if (this.#valueLength > 0) r.at += this.#valueLength;
    this.#skipHeaders(bodyEnd);
    this.#left--;
    return true;
  }

  #skipHeaders(bodyEnd: number): void {
    const r = this.#reader;
    const count = r.varint();
    // A header takes two bytes at least.
    if (count < 0 || count > (bodyEnd - r.at) / 2) throw new SluiceError("CORRUPT_BATCH", `a record claims ${count} headers`);
    this.#headersFrom = r.at;
    for (let i = 0; i < count; i++) {
      const keyLength = r.length();
      if (keyLength < 0) throw new SluiceError("CORRUPT_BATCH", "a header without a key");
      r.at += keyLength;
      const valueLength = r.length();
      if (valueLength > 0) r.at += valueLength;
    }
    if (r.at !== bodyEnd) throw new SluiceError("CORRUPT_BATCH", `${bodyEnd - r.at} bytes follow the fields of a record`);
    this.headerCount = count;
    this.headerBytes = bodyEnd - this.#headersFrom;
  }

  /** View; null = absent. */
  get key(): Uint8Array | null {
    return this.#view(this.#keyFrom, this.#keyLength);
  }
  get value(): Uint8Array | null {
    return this.#view(this.#valueFrom, this.#valueLength);
  }
  get keyLength(): number {
    return this.#keyLength;
  }
  get valueLength(): number {
    return this.#valueLength;
  }
  /** The record's headers, decoded on demand: `next` has checked them. */
  headers(): RecordHeader[] {
    const out: RecordHeader[] = [];
    const r = new VarintReader();
    r.bytes = this.#reader.bytes;
    r.at = this.#headersFrom;
    r.end = this.#headersFrom + this.headerBytes;
    for (let i = 0; i < this.headerCount; i++) {
      const keyLength = r.length();
      const key = this.#view(r.at, keyLength) as Uint8Array;
      r.at += keyLength;
      const valueLength = r.length();
      out.push({ key, value: this.#view(r.at, valueLength) });
      if (valueLength > 0) r.at += valueLength;
    }
    return out;
  }
  #view(from: number, length: number): Uint8Array | null {
    return length < 0 ? null : this.#reader.bytes.subarray(from, from + length);
  }
}

const NO_HEADERS: readonly RecordHeader[] = [];

/** All records of the whole batch at `at`, those below `fromOffset` left out. Throws as `parseBatchHeader`, `plainRecords` and `RecordCursor` do. */
export function decodeRecords(
  bytes: Uint8Array,
  at: number,
  codecs: Codecs,
  fromOffset = 0,
  header: BatchHeader = newBatchHeader(),
): RecordView[] {
  parseBatchHeader(bytes, at, header);
  const cursor = new RecordCursor().open(bytes, at, header, codecs);
  const out: RecordView[] = [];
  while (cursor.next()) {
    if (cursor.offset < fromOffset) continue;
    const headers = cursor.headerCount === 0 ? NO_HEADERS : cursor.headers();
    out.push({ offset: cursor.offset, timestampMs: cursor.timestampMs, key: cursor.key, value: cursor.value, headers });
  }
  return out;
}

/**
 * Checks the records of a batch one by one: order, lengths, and the limits on headers (which a batch from a foreign producer may exceed, because nobody on the way
 * decodes it; reading such a record back works). Throws CORRUPT_BATCH or INVALID_RECORD.
 */
export function checkRecords(bytes: Uint8Array, at: number, header: BatchHeader, codecs: Codecs): void {
  const cursor = new RecordCursor().open(bytes, at, header, codecs);
  while (cursor.next()) {
    if (cursor.headerCount > limits.headersPerRecordMax || cursor.headerBytes > limits.headerBytesPerRecordMax)
      throw new SluiceError("INVALID_RECORD", `record ${cursor.offset} has ${cursor.headerCount} headers of ${cursor.headerBytes} bytes`);
  }
}
