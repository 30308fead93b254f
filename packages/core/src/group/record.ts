import { readInt16, readInt32, readInt64, readUint32, writeInt16, writeInt32, writeInt64 } from "../log/bytes.ts";
import { SluiceError } from "../model/index.ts";

/**
 * Records of a group shard's log. Key and value of one log record each; numbers are big-endian, texts are ASCII behind one byte of length.
 * Kinds and versions are persisted: never reuse a number. A kind or version that is not known here was written by a newer version and
 * must not be skipped: state would be lost.
 *
 *   kind 1, version 1: a committed offset                      kind 2, version 1: a coordinator took the shard
 *     key    1 kind                                              key    1 kind
 *            1 version                                                  1 version
 *            text tenant                                         value  1 version
 *            text group                                                 4 epoch
 *            text topic id (uuid)                                       text member
 *            4 partition                                                text instance
 *     value  1 version
 *            8 offset (next record to read)
 *            4 leader epoch of the record before it, -1 = not told
 *            8 committed at, ms since 1970
 *            2 length of the metadata, metadata (UTF-8)
 *            no value at all: the offset is removed
 *
 * Whoever takes a shard writes its kind 2 record first. What follows belongs to that epoch until the next such record, so whoever reads
 * one with a higher epoch than its own knows that the shard is no longer its own, whatever the broker remembers of fence tokens.
 */
export interface OffsetKey {
  readonly tenant: string;
  readonly group: string;
  readonly topicId: string;
  readonly partition: number;
}
export interface OffsetValue {
  /** Next record to read. */
  readonly offset: number;
  /** -1 = not told. */
  readonly leaderEpoch: number;
  readonly committedAtMs: number;
  /** UTF-8, at most `limits.groupMetadataBytesMax`. */
  readonly metadata: Uint8Array;
}
export type GroupRecord =
  | { readonly kind: "offset"; readonly key: OffsetKey; readonly value: OffsetValue | undefined }
  | { readonly kind: "owner"; readonly epoch: number; readonly member: string; readonly instance: string };

/** A record as the log holds it. */
export interface EncodedRecord {
  readonly key: Uint8Array;
  readonly value: Uint8Array | null;
}

const KIND_OFFSET = 1;
const KIND_OWNER = 2;
const VERSION = 1;
const TEXT_CHARS_MAX = 255;
const OFFSET_VALUE_BYTES = 23;

const textBytes = (s: string): number => 1 + s.length;
function writeText(b: Uint8Array, at: number, s: string): number {
  if (s.length > TEXT_CHARS_MAX)
    throw new SluiceError("INVALID_ARGUMENT", `a text of ${s.length} characters, the limit is ${TEXT_CHARS_MAX}`);
  b[at] = s.length;
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c > 0x7e || c < 0x20)
      throw new SluiceError("INVALID_ARGUMENT", `only ASCII can be written here: ${JSON.stringify(s.slice(0, 80))}`);
    b[at + 1 + i] = c;
  }
  return at + 1 + s.length;
}

export function encodeGroupRecord(record: GroupRecord): EncodedRecord {
  if (record.kind === "owner") {
    const value = new Uint8Array(5 + textBytes(record.member) + textBytes(record.instance));
    value[0] = VERSION;
    writeInt32(value, 1, record.epoch);
    writeText(value, writeText(value, 5, record.member), record.instance);
    return { key: Uint8Array.of(KIND_OWNER, VERSION), value };
  }
  const { tenant, group, topicId, partition } = record.key;
  const key = new Uint8Array(2 + textBytes(tenant) + textBytes(group) + textBytes(topicId) + 4);
  key[0] = KIND_OFFSET;
  key[1] = VERSION;
  writeInt32(key, writeText(key, writeText(key, writeText(key, 2, tenant), group), topicId), partition);
  if (record.value === undefined) return { key, value: null };
  const { offset, leaderEpoch, committedAtMs, metadata } = record.value;
  const value = new Uint8Array(OFFSET_VALUE_BYTES + metadata.length);
  value[0] = VERSION;
  writeInt64(value, 1, offset);
  writeInt32(value, 9, leaderEpoch);
  writeInt64(value, 13, committedAtMs);
  writeInt16(value, 21, metadata.length);
  value.set(metadata, OFFSET_VALUE_BYTES);
  return { key, value };
}

/** Reads one field after the other; every read is checked against the end. */
class Reader {
  readonly #bytes: Uint8Array;
  readonly #what: string;
  #at = 0;
  constructor(bytes: Uint8Array, what: string) {
    this.#bytes = bytes;
    this.#what = what;
  }
  take(length: number): number {
    const at = this.#at;
    if (at + length > this.#bytes.length) throw malformed(this.#what);
    this.#at += length;
    return at;
  }
  version(): void {
    const version = this.#bytes[this.take(1)] as number;
    if (version !== VERSION) throw new SluiceError("UNSUPPORTED_FORMAT", `${this.#what} has version ${version}, this one knows ${VERSION}`);
  }
  uint32(): number {
    return readUint32(this.#bytes, this.take(4));
  }
  int32(): number {
    return readInt32(this.#bytes, this.take(4));
  }
  /** A number that is never negative. */
  count64(): number {
    const n = readInt64(this.#bytes, this.take(8));
    if (!Number.isSafeInteger(n) || n < 0) throw malformed(this.#what);
    return n;
  }
  bytes16(): Uint8Array {
    const length = readInt16(this.#bytes, this.take(2)) & 0xffff;
    const at = this.take(length);
    return this.#bytes.slice(at, at + length);
  }
  text(): string {
    const length = this.#bytes[this.take(1)] as number;
    const at = this.take(length);
    let s = "";
    for (let i = at; i < at + length; i++) s += String.fromCharCode(this.#bytes[i] as number);
    return s;
  }
  end(): void {
    if (this.#at !== this.#bytes.length) throw malformed(this.#what);
  }
}
const malformed = (what: string): SluiceError => new SluiceError("CORRUPT_BATCH", `${what} of a group shard is malformed`);

/** Copies what it keeps. Throws UNSUPPORTED_FORMAT for kinds and versions that are not known, CORRUPT_BATCH for what no version wrote. */
export function decodeGroupRecord(key: Uint8Array | null, value: Uint8Array | null): GroupRecord {
  if (key === null || key.length === 0) throw malformed("a record without a key");
  const k = new Reader(key.subarray(1), "a key");
  if (key[0] === KIND_OWNER) {
    k.version();
    k.end();
    if (value === null) throw malformed("an owner record without a value");
    const v = new Reader(value, "an owner record");
    v.version();
    const record = { kind: "owner", epoch: v.uint32(), member: v.text(), instance: v.text() } as const;
    v.end();
    return record;
  }
  if (key[0] !== KIND_OFFSET) throw new SluiceError("UNSUPPORTED_FORMAT", `group record kind ${key[0]} was written by a newer version`);
  k.version();
  const offsetKey: OffsetKey = { tenant: k.text(), group: k.text(), topicId: k.text(), partition: k.uint32() };
  k.end();
  if (value === null) return { kind: "offset", key: offsetKey, value: undefined };
  const v = new Reader(value, "a committed offset");
  v.version();
  const offsetValue: OffsetValue = { offset: v.count64(), leaderEpoch: v.int32(), committedAtMs: v.count64(), metadata: v.bytes16() };
  v.end();
  return { kind: "offset", key: offsetKey, value: offsetValue };
}

export const encodedBytes = (r: EncodedRecord): number => r.key.length + (r.value?.length ?? 0);
export const sameRecord = (a: EncodedRecord, b: { readonly key: Uint8Array | null; readonly value: Uint8Array | null }): boolean =>
  sameBytes(a.key, b.key) && sameBytes(a.value, b.value);
function sameBytes(a: Uint8Array | null, b: Uint8Array | null): boolean {
  if (a === null || b === null) return a === b;
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
