import { SluiceError } from "../model/index.ts";
import { readInt16, readInt32, readInt64, readInt8, readUint32, writeInt16, writeInt32, writeInt64 } from "./bytes.ts";
import type { Crc32c } from "./checksum.ts";

/**
 * The record batch, version 2: Kafka's format, byte for byte, on the wire and on disk. Big-endian.
 *
 *   at  bytes  field
 *    0    8    baseOffset            \
 *    8    4    batchLength            | before the CRC: stamped in place by the owner of the partition
 *   12    4    partitionLeaderEpoch   |
 *   16    1    magic (2)             /
 *   17    4    crc                     CRC32C of everything from byte 21 to the end of the batch
 *   21    2    attributes              bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
 *   23    4    lastOffsetDelta
 *   27    8    baseTimestamp           of the first record; with bit 6 the delete horizon
 *   35    8    maxTimestamp            with bit 3 the append time of every record
 *   43    8    producerId              -1 = none
 *   51    2    producerEpoch           -1 = none
 *   53    4    baseSequence            -1 = none
 *   57    4    recordsCount
 *   61         records                 compressed as one stream when the codec is not 0
 *
 * batchLength counts what follows it, so a batch occupies batchLength + 12 bytes.
 */
export const BATCH_HEADER_BYTES = 61;
/** baseOffset and batchLength: needed to know how long a batch is. */
export const BATCH_PREFIX_BYTES = 12;
export const BATCH_MAGIC = 2;
export const BATCH_CRC_FROM = 21;

const AT_LENGTH = 8;
const AT_EPOCH = 12;
const AT_MAGIC = 16;
const AT_CRC = 17;
const AT_ATTRIBUTES = 21;
const AT_LAST_OFFSET_DELTA = 23;
const AT_BASE_TIMESTAMP = 27;
const AT_MAX_TIMESTAMP = 35;
const AT_PRODUCER_ID = 43;
const AT_PRODUCER_EPOCH = 51;
const AT_BASE_SEQUENCE = 53;
const AT_RECORDS_COUNT = 57;

export const attributeBits = { codecMask: 0x07, logAppendTime: 0x08, transactional: 0x10, control: 0x20, deleteHorizon: 0x40 } as const;

/** A parsed header. Mutable and meant to be reused: one object serves a whole run of batches. Offsets, times and ids are doubles. */
export interface BatchHeader {
  baseOffset: number;
  /** baseOffset + lastOffsetDelta. */
  lastOffset: number;
  lastOffsetDelta: number;
  batchLength: number;
  /** batchLength + 12: what the batch occupies. */
  totalBytes: number;
  partitionLeaderEpoch: number;
  magic: number;
  crc: number;
  attributes: number;
  /** 0 to 7; `isCodec` tells whether it is known. */
  codec: number;
  /** False = the producer's times, true = maxTimestamp is the append time of all records. */
  logAppendTime: boolean;
  isTransactional: boolean;
  isControl: boolean;
  hasDeleteHorizon: boolean;
  baseTimestamp: number;
  maxTimestamp: number;
  producerId: number;
  producerEpoch: number;
  baseSequence: number;
  recordsCount: number;
}

export const newBatchHeader = (): BatchHeader => ({
  baseOffset: 0,
  lastOffset: 0,
  lastOffsetDelta: 0,
  batchLength: 0,
  totalBytes: 0,
  partitionLeaderEpoch: 0,
  magic: 0,
  crc: 0,
  attributes: 0,
  codec: 0,
  logAppendTime: false,
  isTransactional: false,
  isControl: false,
  hasDeleteHorizon: false,
  baseTimestamp: 0,
  maxTimestamp: 0,
  producerId: 0,
  producerEpoch: 0,
  baseSequence: 0,
  recordsCount: 0,
});

/**
 * Why a batch could not be read. `incomplete`: the bytes end before the batch does, more of them may help.
 * `malformed`: a length or a count that no batch has. `unsupported`: another magic.
 */
export type BatchStop = "incomplete" | "malformed" | "unsupported";

/**
 * Fills `into` from the batch at `at`, whose bytes must lie wholly before `end`. Allocates nothing, throws nothing, and trusts nothing:
 * when it returns undefined the batch lies within [at, end), its offsets are safe integers and its lastOffsetDelta and recordsCount are not negative.
 */
export function readBatchHeader(bytes: Uint8Array, at: number, end: number, into: BatchHeader): BatchStop | undefined {
  const have = Math.min(end, bytes.length) - at;
  if (at < 0 || have < BATCH_PREFIX_BYTES) return "incomplete";
  const batchLength = readInt32(bytes, at + AT_LENGTH);
  if (have > AT_MAGIC && bytes[at + AT_MAGIC] !== BATCH_MAGIC) return "unsupported";
  if (batchLength < BATCH_HEADER_BYTES - BATCH_PREFIX_BYTES) return "malformed";
  if (batchLength + BATCH_PREFIX_BYTES > have) return "incomplete";
  const lastOffsetDelta = readInt32(bytes, at + AT_LAST_OFFSET_DELTA);
  const recordsCount = readInt32(bytes, at + AT_RECORDS_COUNT);
  const baseOffset = readInt64(bytes, at);
  const lastOffset = baseOffset + lastOffsetDelta;
  if (lastOffsetDelta < 0 || recordsCount < 0 || !Number.isSafeInteger(baseOffset) || baseOffset < 0) return "malformed";
  if (!Number.isSafeInteger(lastOffset)) return "malformed";
  const attributes = readInt16(bytes, at + AT_ATTRIBUTES);
  into.baseOffset = baseOffset;
  into.lastOffset = lastOffset;
  into.lastOffsetDelta = lastOffsetDelta;
  into.batchLength = batchLength;
  into.totalBytes = batchLength + BATCH_PREFIX_BYTES;
  into.partitionLeaderEpoch = readInt32(bytes, at + AT_EPOCH);
  into.magic = readInt8(bytes, at + AT_MAGIC);
  into.crc = readUint32(bytes, at + AT_CRC);
  into.attributes = attributes;
  into.codec = attributes & attributeBits.codecMask;
  into.logAppendTime = (attributes & attributeBits.logAppendTime) !== 0;
  into.isTransactional = (attributes & attributeBits.transactional) !== 0;
  into.isControl = (attributes & attributeBits.control) !== 0;
  into.hasDeleteHorizon = (attributes & attributeBits.deleteHorizon) !== 0;
  into.baseTimestamp = readInt64(bytes, at + AT_BASE_TIMESTAMP);
  into.maxTimestamp = readInt64(bytes, at + AT_MAX_TIMESTAMP);
  into.producerId = readInt64(bytes, at + AT_PRODUCER_ID);
  into.producerEpoch = readInt16(bytes, at + AT_PRODUCER_EPOCH);
  into.baseSequence = readInt32(bytes, at + AT_BASE_SEQUENCE);
  into.recordsCount = recordsCount;
  return undefined;
}

export function batchStopError(stop: BatchStop, at: number): SluiceError {
  if (stop === "unsupported") return new SluiceError("UNSUPPORTED_FORMAT", `the batch at byte ${at} is not of version 2`);
  const what = stop === "incomplete" ? "is cut off, or its length field is wrong" : "has a malformed header";
  return new SluiceError("CORRUPT_BATCH", `the batch at byte ${at} ${what}`);
}

/** `readBatchHeader` for callers that hold whole batches: throws CORRUPT_BATCH or UNSUPPORTED_FORMAT. Returns `into`. */
export function parseBatchHeader(bytes: Uint8Array, at = 0, into: BatchHeader = newBatchHeader(), end = bytes.length): BatchHeader {
  const stop = readBatchHeader(bytes, at, end, into);
  if (stop !== undefined) throw batchStopError(stop, at);
  return into;
}

/** Length of the batch at `at` as its length field says (unchecked against what is there); -1 when the field is not there or impossible. */
export function batchBytesAt(bytes: Uint8Array, at: number, end = bytes.length): number {
  if (at < 0 || Math.min(end, bytes.length) - at < BATCH_PREFIX_BYTES) return -1;
  const batchLength = readInt32(bytes, at + AT_LENGTH);
  return batchLength < BATCH_HEADER_BYTES - BATCH_PREFIX_BYTES ? -1 : batchLength + BATCH_PREFIX_BYTES;
}

/** CRC32C over the part of a whole batch that its CRC field covers. */
export const batchCrc = (bytes: Uint8Array, at: number, totalBytes: number, crc32c: Crc32c): number =>
  crc32c(bytes.subarray(at + BATCH_CRC_FROM, at + totalBytes));

/** Writes base offset and epoch into a whole batch, in place. Neither is covered by the CRC. */
export function stampBatch(bytes: Uint8Array, at: number, baseOffset: number, epoch: number): void {
  writeInt64(bytes, at, baseOffset);
  writeInt32(bytes, at + AT_EPOCH, epoch);
}

/** Makes a whole batch carry the append time (topics with `message.timestamp.type=LogAppendTime`): type bit, maxTimestamp and CRC; records stay compressed. */
export function stampAppendTime(bytes: Uint8Array, at: number, appendTimeMs: number, crc32c: Crc32c): void {
  writeInt16(bytes, at + AT_ATTRIBUTES, readInt16(bytes, at + AT_ATTRIBUTES) | attributeBits.logAppendTime);
  writeInt64(bytes, at + AT_MAX_TIMESTAMP, appendTimeMs);
  const totalBytes = readInt32(bytes, at + AT_LENGTH) + BATCH_PREFIX_BYTES;
  writeInt32(bytes, at + AT_CRC, batchCrc(bytes, at, totalBytes, crc32c));
}

/** Writes producer id, epoch and first sequence, and the CRC that they change: for senders that fix these only when they send. */
export function stampProducer(
  bytes: Uint8Array,
  at: number,
  producerId: number,
  producerEpoch: number,
  baseSequence: number,
  crc32c: Crc32c,
): void {
  writeInt64(bytes, at + AT_PRODUCER_ID, producerId);
  writeInt16(bytes, at + AT_PRODUCER_EPOCH, producerEpoch);
  writeInt32(bytes, at + AT_BASE_SEQUENCE, baseSequence);
  const totalBytes = readInt32(bytes, at + AT_LENGTH) + BATCH_PREFIX_BYTES;
  writeInt32(bytes, at + AT_CRC, batchCrc(bytes, at, totalBytes, crc32c));
}

/** Writes a whole header in front of records that already lie at `at + 61`, CRC last. `fields.totalBytes` counts header and records. */
export function writeBatchHeader(
  bytes: Uint8Array,
  at: number,
  fields: Omit<
    BatchHeader,
    "lastOffset" | "batchLength" | "magic" | "crc" | "codec" | "logAppendTime" | "isTransactional" | "isControl" | "hasDeleteHorizon"
  >,
  crc32c: Crc32c,
): void {
  writeInt64(bytes, at, fields.baseOffset);
  writeInt32(bytes, at + AT_LENGTH, fields.totalBytes - BATCH_PREFIX_BYTES);
  writeInt32(bytes, at + AT_EPOCH, fields.partitionLeaderEpoch);
  bytes[at + AT_MAGIC] = BATCH_MAGIC;
  writeInt16(bytes, at + AT_ATTRIBUTES, fields.attributes);
  writeInt32(bytes, at + AT_LAST_OFFSET_DELTA, fields.lastOffsetDelta);
  writeInt64(bytes, at + AT_BASE_TIMESTAMP, fields.baseTimestamp);
  writeInt64(bytes, at + AT_MAX_TIMESTAMP, fields.maxTimestamp);
  writeInt64(bytes, at + AT_PRODUCER_ID, fields.producerId);
  writeInt16(bytes, at + AT_PRODUCER_EPOCH, fields.producerEpoch);
  writeInt32(bytes, at + AT_BASE_SEQUENCE, fields.baseSequence);
  writeInt32(bytes, at + AT_RECORDS_COUNT, fields.recordsCount);
  writeInt32(bytes, at + AT_CRC, batchCrc(bytes, at, fields.totalBytes, crc32c));
}
