import { SluiceError } from "../model/index.ts";
import { readInt16, readInt64, readUint32, writeInt16, writeInt32, writeInt64 } from "./bytes.ts";
import { ChainHash } from "./chain-hash.ts";
import type { Crc32c } from "./checksum.ts";

/**
 * A sealed segment as one object (or one piece `{at, length}` of an object that several segments share):
 *
 *   [batches][offset index][timestamp index][producer snapshot][aborted transactions][footer]
 *   0        ^batchBytes                                                             ^length - 160
 *
 * The footer is at the end because it is known last: a reader fetches the last 160 bytes, then the index parts (which lie together), then blocks of batches.
 * Positions in the index count from the start of the segment. Big-endian. Persisted numbers: never change one.
 *
 *   at  bytes                                      at  bytes
 *    0   2  version (1)                            84   4  offset index bytes
 *    2   2  lowest reader version                  88   4  timestamp index bytes
 *    4   4  features: unknown bits are skipped     92   4  producer snapshot bytes
 *    8   4  required: unknown bits are refused     96   4  aborted transactions bytes
 *   12   4  batch count                           100   4  CRC32C of the batches
 *   16   8  record count                          104   4  of the offset index
 *   24   4  offset index entries                  108   4  of the timestamp index
 *   28   4  timestamp index entries               112   4  of the producer snapshot
 *   32   4  aborted transactions                  116   4  of the aborted transactions
 *   36   4  (zero)                                120   8  chain hash
 *   40   8  base offset                           128  16  (zero)
 *   48   8  end: last offset, base - 1 = empty    144   4  footer bytes (160)
 *   56   8  largest record timestamp, -1 = none   148   4  CRC32C of the footer's first 148 bytes
 *   64   8  (zero)                                152   8  magic "SLUICSEG"
 *   72   8  batch bytes
 *   80   4  (zero)
 */
export const SEGMENT_FORMAT = 1;
export const SEGMENT_FOOTER_BYTES = 160;
const MAGIC_HIGH = 0x534c_5549;
const MAGIC_LOW = 0x4353_4547;
const AT_FOOTER_BYTES = 144;
const AT_FOOTER_CRC = 148;
const AT_MAGIC = 152;
/** Required features that this version understands: none yet. */
const KNOWN_REQUIRED = 0;
export const OFFSET_ENTRY_BYTES = 12;
export const TIMESTAMP_ENTRY_BYTES = 12;

export interface SegmentFooter {
  readonly version: number;
  readonly features: number;
  readonly batchCount: number;
  readonly recordCount: number;
  readonly offsetEntries: number;
  readonly timestampEntries: number;
  readonly abortedCount: number;
  readonly base: number;
  /** Last offset; base - 1 when the segment is empty. */
  readonly end: number;
  readonly maxTimestampMs: number;
  readonly batchBytes: number;
  readonly offsetIndexBytes: number;
  readonly timestampIndexBytes: number;
  readonly producerBytes: number;
  readonly abortedBytes: number;
  readonly batchCrc: number;
  readonly offsetIndexCrc: number;
  readonly timestampIndexCrc: number;
  readonly producerCrc: number;
  readonly abortedCrc: number;
  /** 16 hex digits. */
  readonly chainHash: string;
}

/** Where the parts lie, counted from the start of the segment. `index` is both indexes, one read. */
export interface SegmentParts {
  readonly batches: { readonly from: number; readonly to: number };
  readonly index: { readonly from: number; readonly to: number };
  readonly producers: { readonly from: number; readonly to: number };
  readonly aborted: { readonly from: number; readonly to: number };
  readonly length: number;
}
export function segmentParts(f: SegmentFooter): SegmentParts {
  const indexTo = f.batchBytes + f.offsetIndexBytes + f.timestampIndexBytes;
  const producersTo = indexTo + f.producerBytes;
  const abortedTo = producersTo + f.abortedBytes;
  return {
    batches: { from: 0, to: f.batchBytes },
    index: { from: f.batchBytes, to: indexTo },
    producers: { from: indexTo, to: producersTo },
    aborted: { from: producersTo, to: abortedTo },
    length: abortedTo + SEGMENT_FOOTER_BYTES,
  };
}

/** Writes the footer into `out` at `at`; `out` is zero there. */
export function writeSegmentFooter(out: Uint8Array, at: number, f: Omit<SegmentFooter, "version">, crc32c: Crc32c): void {
  writeInt16(out, at, SEGMENT_FORMAT);
  writeInt16(out, at + 2, SEGMENT_FORMAT);
  writeInt32(out, at + 4, f.features);
  writeInt32(out, at + 8, KNOWN_REQUIRED);
  writeInt32(out, at + 12, f.batchCount);
  writeInt64(out, at + 16, f.recordCount);
  writeInt32(out, at + 24, f.offsetEntries);
  writeInt32(out, at + 28, f.timestampEntries);
  writeInt32(out, at + 32, f.abortedCount);
  writeInt64(out, at + 40, f.base);
  writeInt64(out, at + 48, f.end);
  writeInt64(out, at + 56, f.maxTimestampMs);
  writeInt64(out, at + 72, f.batchBytes);
  writeInt32(out, at + 84, f.offsetIndexBytes);
  writeInt32(out, at + 88, f.timestampIndexBytes);
  writeInt32(out, at + 92, f.producerBytes);
  writeInt32(out, at + 96, f.abortedBytes);
  writeInt32(out, at + 100, f.batchCrc);
  writeInt32(out, at + 104, f.offsetIndexCrc);
  writeInt32(out, at + 108, f.timestampIndexCrc);
  writeInt32(out, at + 112, f.producerCrc);
  writeInt32(out, at + 116, f.abortedCrc);
  const hash = ChainHash.fromHex(f.chainHash);
  writeInt32(out, at + 120, hash.high);
  writeInt32(out, at + 124, hash.low);
  writeInt32(out, at + AT_FOOTER_BYTES, SEGMENT_FOOTER_BYTES);
  writeInt32(out, at + AT_FOOTER_CRC, crc32c(out.subarray(at, at + AT_FOOTER_CRC)));
  writeInt32(out, at + AT_MAGIC, MAGIC_HIGH);
  writeInt32(out, at + AT_MAGIC + 4, MAGIC_LOW);
}

const corrupt = (what: string): SluiceError => new SluiceError("CORRUPT_SEGMENT", `segment object: ${what}`);

/**
 * The footer in the last 160 bytes of `tail` (the end of a segment, as much of it as the caller read). `length` is that of the whole segment, from its reference.
 * Throws CORRUPT_SEGMENT (no footer, bad CRC, sizes that do not add up) or UNSUPPORTED_FORMAT (a newer format, both versions named).
 */
export function readSegmentFooter(tail: Uint8Array, length: number, crc32c: Crc32c): SegmentFooter {
  const at = tail.length - SEGMENT_FOOTER_BYTES;
  if (at < 0 || length < SEGMENT_FOOTER_BYTES) throw corrupt(`${tail.length} bytes are less than a footer`);
  if (readUint32(tail, at + AT_MAGIC) !== MAGIC_HIGH || readUint32(tail, at + AT_MAGIC + 4) !== MAGIC_LOW)
    throw corrupt("no magic at the end");
  if (readUint32(tail, at + AT_FOOTER_BYTES) !== SEGMENT_FOOTER_BYTES) throw unsupported(tail, at);
  if (crc32c(tail.subarray(at, at + AT_FOOTER_CRC)) !== readUint32(tail, at + AT_FOOTER_CRC)) throw corrupt("the footer fails its CRC");
  const required = readUint32(tail, at + 8);
  if (readInt16(tail, at + 2) > SEGMENT_FORMAT || (required & ~KNOWN_REQUIRED) !== 0) throw unsupported(tail, at);
  const footer: SegmentFooter = {
    version: readInt16(tail, at),
    features: readUint32(tail, at + 4),
    batchCount: readUint32(tail, at + 12),
    recordCount: readInt64(tail, at + 16),
    offsetEntries: readUint32(tail, at + 24),
    timestampEntries: readUint32(tail, at + 28),
    abortedCount: readUint32(tail, at + 32),
    base: readInt64(tail, at + 40),
    end: readInt64(tail, at + 48),
    maxTimestampMs: readInt64(tail, at + 56),
    batchBytes: readInt64(tail, at + 72),
    offsetIndexBytes: readUint32(tail, at + 84),
    timestampIndexBytes: readUint32(tail, at + 88),
    producerBytes: readUint32(tail, at + 92),
    abortedBytes: readUint32(tail, at + 96),
    batchCrc: readUint32(tail, at + 100),
    offsetIndexCrc: readUint32(tail, at + 104),
    timestampIndexCrc: readUint32(tail, at + 108),
    producerCrc: readUint32(tail, at + 112),
    abortedCrc: readUint32(tail, at + 116),
    chainHash: ChainHash.fromLanes(readUint32(tail, at + 120), readUint32(tail, at + 124)).hex(),
  };
  checkFooter(footer, length);
  return footer;
}

function unsupported(tail: Uint8Array, at: number): SluiceError {
  const version = readInt16(tail, at);
  const lowest = readInt16(tail, at + 2);
  return new SluiceError(
    "UNSUPPORTED_FORMAT",
    `segment object of format ${version} needs a reader of format ${lowest}, this is ${SEGMENT_FORMAT}`,
  );
}

/** Numbers that the CRC cannot judge: a footer written by a faulty program must not lead a reader astray either. */
function checkFooter(f: SegmentFooter, length: number): void {
  for (const n of [f.recordCount, f.base, f.end, f.maxTimestampMs, f.batchBytes])
    if (!Number.isSafeInteger(n)) throw corrupt("a number is out of range");
  if (f.base < 0 || f.end < f.base - 1 || f.batchBytes < 0 || f.recordCount < 0) throw corrupt(`base ${f.base}, end ${f.end}`);
  if (f.offsetIndexBytes !== f.offsetEntries * OFFSET_ENTRY_BYTES || f.timestampIndexBytes !== f.timestampEntries * TIMESTAMP_ENTRY_BYTES)
    throw corrupt("the index sizes do not fit their counts");
  if (segmentParts(f).length !== length) throw corrupt(`the parts add up to ${segmentParts(f).length} bytes, the segment has ${length}`);
  if ((f.batchCount === 0) !== (f.batchBytes === 0)) throw corrupt(`${f.batchCount} batches in ${f.batchBytes} bytes`);
  if (f.batchCount > 0 && f.offsetEntries === 0) throw corrupt("no offset index");
}
