import { writeInt16, writeInt32, writeInt64 } from "../log/bytes.ts";
import { limits, SluiceError, utf8Bytes, writeUtf8 } from "../model/index.ts";
import { FieldReader, malformed } from "./fields.ts";
import {
  decodeClassic,
  decodeConsumer,
  decodeMember,
  encodeClassic,
  encodeConsumer,
  encodeMember,
  type ClassicGroup,
  type ConsumerGroupValue,
  type ConsumerMember,
} from "./membership.ts";

/**
 * Records of a group shard's log. Key and value of one log record each; numbers are big-endian, texts are UTF-8 behind one byte of length.
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
 *            8 offset (next record to read)                     kind 3: a classic group with its members
 *            4 leader epoch of the record before it,            kind 4: a group that the server assigns
 *              -1 = not told                                    kind 5: a member of such a group
 *            8 committed at, ms since 1970                      kind 6: a group is deleted, whatever it is, with its offsets
 *            2 length of the metadata, metadata (UTF-8)           key    1 kind, 1 version, text tenant, text group,
 *            no value at all: the offset is removed                      kind 5: text member id
 *                                                                 value  membership.ts; kind 5: none at all = it is removed; kind 6: always none
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
export interface GroupName {
  readonly tenant: string;
  readonly group: string;
}
export type GroupRecord =
  | { readonly kind: "offset"; readonly key: OffsetKey; readonly value: OffsetValue | undefined }
  | { readonly kind: "owner"; readonly epoch: number; readonly member: string; readonly instance: string }
  | { readonly kind: "classic"; readonly key: GroupName; readonly value: ClassicGroup }
  | { readonly kind: "consumer"; readonly key: GroupName; readonly value: ConsumerGroupValue }
  | { readonly kind: "member"; readonly key: GroupName & { readonly memberId: string }; readonly value: ConsumerMember | undefined }
  | { readonly kind: "gone"; readonly key: GroupName };

/** A record as the log holds it. */
export interface EncodedRecord {
  readonly key: Uint8Array;
  readonly value: Uint8Array | null;
}

const KIND_OFFSET = 1;
const KIND_OWNER = 2;
const KIND_CLASSIC = 3;
const KIND_CONSUMER = 4;
const KIND_MEMBER = 5;
const KIND_GONE = 6;
const VERSION = 1;
const OFFSET_VALUE_BYTES = 23;

const textBytes = (s: string): number => 1 + utf8Bytes(s);
function writeText(b: Uint8Array, at: number, s: string): number {
  const length = utf8Bytes(s);
  if (length > limits.groupTextBytesMax)
    throw new SluiceError("INVALID_ARGUMENT", `a text of ${length} bytes, the limit is ${limits.groupTextBytesMax}`);
  b[at] = length;
  return writeUtf8(b, at + 1, s);
}
function groupKeyBytes(kind: number, { tenant, group }: GroupName, memberId?: string): Uint8Array {
  const key = new Uint8Array(2 + textBytes(tenant) + textBytes(group) + (memberId === undefined ? 0 : textBytes(memberId)));
  key[0] = kind;
  key[1] = VERSION;
  const end = writeText(key, writeText(key, 2, tenant), group);
  if (memberId !== undefined) writeText(key, end, memberId);
  return key;
}

export function encodeGroupRecord(record: GroupRecord): EncodedRecord {
  switch (record.kind) {
    case "owner":
    case "offset":
      return encodeOwnerOrOffset(record);
    case "classic":
      return { key: groupKeyBytes(KIND_CLASSIC, record.key), value: encodeClassic(VERSION, record.value) };
    case "consumer":
      return { key: groupKeyBytes(KIND_CONSUMER, record.key), value: encodeConsumer(VERSION, record.value) };
    case "member":
      return {
        key: groupKeyBytes(KIND_MEMBER, record.key, record.key.memberId),
        value: record.value === undefined ? null : encodeMember(VERSION, record.value),
      };
    case "gone":
      return { key: groupKeyBytes(KIND_GONE, record.key), value: null };
  }
}
function encodeOwnerOrOffset(record: GroupRecord & { readonly kind: "owner" | "offset" }): EncodedRecord {
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

/** Copies what it keeps. Throws UNSUPPORTED_FORMAT for kinds and versions that are not known, CORRUPT_BATCH for what no version wrote. */
export function decodeGroupRecord(key: Uint8Array | null, value: Uint8Array | null): GroupRecord {
  if (key === null || key.length === 0) throw malformed("a record without a key");
  const k = new FieldReader(key.subarray(1), "a key");
  switch (key[0]) {
    case KIND_OWNER:
      return decodeOwner(k, value);
    case KIND_OFFSET:
      return decodeOffset(k, value);
    case KIND_CLASSIC:
    case KIND_CONSUMER:
    case KIND_MEMBER:
    case KIND_GONE:
      return decodeMembership(key[0], k, value);
    default:
      throw new SluiceError("UNSUPPORTED_FORMAT", `group record kind ${key[0]} was written by a newer version`);
  }
}
function decodeOwner(k: FieldReader, value: Uint8Array | null): GroupRecord {
  k.version(VERSION);
  k.end();
  if (value === null) throw malformed("an owner record without a value");
  const v = new FieldReader(value, "an owner record");
  v.version(VERSION);
  const record = { kind: "owner", epoch: v.uint32(), member: v.text(), instance: v.text() } as const;
  v.end();
  return record;
}
function decodeOffset(k: FieldReader, value: Uint8Array | null): GroupRecord {
  k.version(VERSION);
  const offsetKey: OffsetKey = { tenant: k.text(), group: k.text(), topicId: k.text(), partition: k.uint32() };
  k.end();
  if (value === null) return { kind: "offset", key: offsetKey, value: undefined };
  const v = new FieldReader(value, "a committed offset");
  v.version(VERSION);
  const offsetValue: OffsetValue = { offset: v.int64(0), leaderEpoch: v.int32(), committedAtMs: v.int64(0), metadata: v.bytes16() };
  v.end();
  return { kind: "offset", key: offsetKey, value: offsetValue };
}
function decodeMembership(kind: number, k: FieldReader, value: Uint8Array | null): GroupRecord {
  k.version(VERSION);
  const key = { tenant: k.text(), group: k.text() };
  const memberId = kind === KIND_MEMBER ? k.text() : "";
  k.end();
  if (kind === KIND_GONE) {
    if (value !== null) throw malformed("a removal with a value");
    return { kind: "gone", key };
  }
  const read = <T>(what: string, decode: (v: FieldReader) => T): T => {
    if (value === null) throw malformed(`${what} without a value`);
    const v = new FieldReader(value, what);
    v.version(VERSION);
    const decoded = decode(v);
    v.end();
    return decoded;
  };
  if (kind === KIND_CLASSIC) return { kind: "classic", key, value: read("a classic group", decodeClassic) };
  if (kind === KIND_CONSUMER) return { kind: "consumer", key, value: read("a group", decodeConsumer) };
  return { kind: "member", key: { ...key, memberId }, value: value === null ? undefined : read("a member", decodeMember) };
}

export const encodedBytes = (r: EncodedRecord): number => r.key.length + (r.value?.length ?? 0);
export const sameRecord = (a: EncodedRecord, b: { readonly key: Uint8Array | null; readonly value: Uint8Array | null }): boolean =>
  sameBytes(a.key, b.key) && sameBytes(a.value, b.value);
export function sameBytes(a: Uint8Array | null, b: Uint8Array | null): boolean {
  if (a === null || b === null) return a === b;
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
