import { limits, SluiceError } from "../model/index.ts";
import type { AbortedTransaction } from "./aborted-transactions.ts";
import { encodeAbortedTransactions } from "./aborted-transactions.ts";
import { BatchCursor } from "./batch-run.ts";
import { batchCrc } from "./batch.ts";
import { readInt64, readUint32, writeInt32, writeInt64 } from "./bytes.ts";
import { ChainHash } from "./chain-hash.ts";
import type { Crc32c } from "./checksum.ts";
import { OFFSET_ENTRY_BYTES, SEGMENT_FOOTER_BYTES, TIMESTAMP_ENTRY_BYTES, writeSegmentFooter } from "./segment-footer.ts";
import type { SegmentFooter } from "./segment-footer.ts";
import { lastAtMost, lastBelow, SparseIndex } from "./sparse-index.ts";

/**
 * Writes and reads segment objects (the layout stands in segment-footer.ts).
 *
 * Offset index entry:     base offset of a batch - base of the segment (int64) | position of the batch (uint32)
 * Timestamp index entry:  timestamp (int64) | position (uint32): no batch before `position` has a time above `timestamp`; both grow from entry to entry
 */
export interface SegmentWriterOptions {
  readonly base: number;
  readonly crc32c: Crc32c;
  /** Epoch that every batch must carry; left out where several epochs were merged. */
  readonly epoch?: number;
  /** Compacted segments have gaps. Default false. */
  readonly gaps?: boolean;
  readonly indexIntervalBytes?: number;
}
export interface SegmentClose {
  /** Last offset of the segment. Must be the last one written, unless the segment has gaps. base - 1 = empty. */
  readonly end: number;
  /** Producer snapshot at `end`. */
  readonly producers: Uint8Array;
  readonly aborted: readonly AbortedTransaction[];
}

/**
 * Fed with the segment's runs in order, yields what follows them. The runs themselves go to the object unchanged, so nothing is copied:
 *   for (run of runs) writer.add(run), send(run);   send(writer.finish(...).tail)
 * A caller that must name the length before it sends feeds the writer in a first pass over the data. Every batch is checked: place, epoch, CRC.
 */
export class SegmentObjectWriter {
  readonly #options: SegmentWriterOptions;
  readonly #cursor = new BatchCursor();
  readonly #index: SparseIndex;
  readonly #hash = new ChainHash();
  #crc = 0;
  #batchBytes = 0;
  #batchCount = 0;
  #recordCount = 0;
  #nextOffset: number;

  constructor(options: SegmentWriterOptions) {
    this.#options = options;
    this.#index = new SparseIndex(options.indexIntervalBytes ?? limits.indexIntervalBytes);
    this.#nextOffset = options.base;
  }
  /** One past the last offset so far. */
  get nextOffset(): number {
    return this.#nextOffset;
  }
  get batchBytes(): number {
    return this.#batchBytes;
  }
  get chainHash(): string {
    return this.#hash.hex();
  }

  /** The next whole batches. Throws CORRUPT_SEGMENT at the first that is not what must follow. */
  add(run: Uint8Array): void {
    const { crc32c, epoch, gaps } = this.#options;
    const cursor = this.#cursor.reset(run);
    const { header } = cursor;
    while (cursor.next()) {
      const followed = gaps === true ? header.baseOffset >= this.#nextOffset : header.baseOffset === this.#nextOffset;
      if (!followed) throw corrupt(`batch ${header.baseOffset} where ${this.#nextOffset} must follow`);
      if (epoch !== undefined && header.partitionLeaderEpoch !== epoch)
        throw corrupt(`batch ${header.baseOffset} has epoch ${header.partitionLeaderEpoch}, expected ${epoch}`);
      if (batchCrc(run, cursor.position, header.totalBytes, crc32c) !== header.crc)
        throw corrupt(`batch ${header.baseOffset} fails its CRC`);
      this.#index.add(header.baseOffset, header.maxTimestamp, this.#batchBytes + cursor.position, header.totalBytes);
      this.#hash.add(header.baseOffset, header.partitionLeaderEpoch, header.crc);
      this.#batchCount++;
      this.#recordCount += header.recordsCount;
      this.#nextOffset = header.lastOffset + 1;
    }
    if (cursor.stop !== undefined) throw corrupt(`the batch after offset ${this.#nextOffset - 1} is ${cursor.stop}`);
    this.#crc = crc32c(run, this.#crc);
    this.#batchBytes += run.length;
    if (this.#batchBytes >= 2 ** 32) throw corrupt("over 4 GiB of batches");
  }

  /** Everything behind the batches, and the footer as a value. Throws CORRUPT_SEGMENT when the batches do not end at `end`. */
  finish(close: SegmentClose): { tail: Uint8Array; footer: SegmentFooter; length: number } {
    const { crc32c, base, gaps } = this.#options;
    if (gaps === true ? close.end < this.#nextOffset - 1 : close.end !== this.#nextOffset - 1)
      throw corrupt(`the batches end at ${this.#nextOffset - 1}, the segment at ${close.end}`);
    const offsets = encodeOffsetIndex(this.#index, base);
    const timestamps = encodeTimestampIndex(this.#index);
    const aborted = encodeAbortedTransactions(close.aborted);
    const fields = {
      features: 0,
      batchCount: this.#batchCount,
      recordCount: this.#recordCount,
      offsetEntries: offsets.length / OFFSET_ENTRY_BYTES,
      timestampEntries: timestamps.length / TIMESTAMP_ENTRY_BYTES,
      abortedCount: close.aborted.length,
      base,
      end: close.end,
      maxTimestampMs: this.#index.maxTimestamp,
      batchBytes: this.#batchBytes,
      offsetIndexBytes: offsets.length,
      timestampIndexBytes: timestamps.length,
      producerBytes: close.producers.length,
      abortedBytes: aborted.length,
      batchCrc: this.#crc,
      offsetIndexCrc: crc32c(offsets),
      timestampIndexCrc: crc32c(timestamps),
      producerCrc: crc32c(close.producers),
      abortedCrc: crc32c(aborted),
      chainHash: this.#hash.hex(),
    };
    const parts = [offsets, timestamps, close.producers, aborted];
    const tail = new Uint8Array(parts.reduce((sum, part) => sum + part.length, SEGMENT_FOOTER_BYTES));
    let at = 0;
    for (const part of parts) {
      tail.set(part, at);
      at += part.length;
    }
    writeSegmentFooter(tail, at, fields, crc32c);
    return { tail, footer: { version: 1, ...fields }, length: this.#batchBytes + tail.length };
  }
}

const corrupt = (what: string): SluiceError => new SluiceError("CORRUPT_SEGMENT", `segment object: ${what}`);

function encodeOffsetIndex(index: SparseIndex, base: number): Uint8Array {
  const out = new Uint8Array(index.length * OFFSET_ENTRY_BYTES);
  for (let i = 0; i < index.length; i++) {
    writeInt64(out, i * OFFSET_ENTRY_BYTES, index.offsetAt(i) - base);
    writeInt32(out, i * OFFSET_ENTRY_BYTES + 8, index.positionAt(i));
  }
  return out;
}
/** Only entries where the time has risen. */
function encodeTimestampIndex(index: SparseIndex): Uint8Array {
  const out = new Uint8Array(index.length * TIMESTAMP_ENTRY_BYTES);
  let entries = 0;
  let last = -1;
  for (let i = 0; i < index.length; i++) {
    const timestamp = index.timestampBeforeAt(i);
    // A later position with the same time replaces the earlier one: it lets a search skip more.
    if (timestamp < 0) continue;
    if (timestamp > last) entries++;
    last = timestamp;
    writeInt64(out, (entries - 1) * TIMESTAMP_ENTRY_BYTES, timestamp);
    writeInt32(out, (entries - 1) * TIMESTAMP_ENTRY_BYTES + 8, index.positionAt(i));
  }
  return out.subarray(0, entries * TIMESTAMP_ENTRY_BYTES);
}

/** The index of a segment object, for look-ups. Positions count from the start of the segment. */
export class SegmentIndex {
  readonly footer: SegmentFooter;
  readonly #offsets: Float64Array;
  readonly #positions: Float64Array;
  readonly #timestamps: Float64Array;
  readonly #timestampPositions: Float64Array;

  /**
   * `bytes` is the part `segmentParts(footer).index`. Throws CORRUPT_SEGMENT when it fails a CRC, is not in order, or points outside the batches.
   */
  constructor(bytes: Uint8Array, footer: SegmentFooter, crc32c: Crc32c) {
    const { offsetIndexBytes, timestampIndexBytes } = footer;
    if (bytes.length !== offsetIndexBytes + timestampIndexBytes) throw corrupt(`an index of ${bytes.length} bytes`);
    const offsets = bytes.subarray(0, offsetIndexBytes);
    const timestamps = bytes.subarray(offsetIndexBytes);
    if (crc32c(offsets) !== footer.offsetIndexCrc) throw corrupt("the offset index fails its CRC");
    if (crc32c(timestamps) !== footer.timestampIndexCrc) throw corrupt("the timestamp index fails its CRC");
    this.footer = footer;
    this.#offsets = new Float64Array(footer.offsetEntries);
    this.#positions = new Float64Array(footer.offsetEntries);
    this.#timestamps = new Float64Array(footer.timestampEntries);
    this.#timestampPositions = new Float64Array(footer.timestampEntries);
    readEntries(offsets, this.#offsets, this.#positions, footer, footer.base);
    readEntries(timestamps, this.#timestamps, this.#timestampPositions, footer, 0);
    if (footer.offsetEntries > 0 && this.#positions[0] !== 0) throw corrupt("the index does not start with the first batch");
  }
  /** Memory held, for caches. */
  get heldBytes(): number {
    return (this.#offsets.length + this.#timestamps.length) * 16;
  }
  /** Where a scan for `offset` starts; undefined when the segment is empty or ends before it. */
  positionOf(offset: number): number | undefined {
    if (offset > this.footer.end || this.#offsets.length === 0) return undefined;
    return this.#positions[Math.max(0, lastAtMost(this.#offsets, this.#offsets.length, offset))];
  }
  /** Where a scan for the first batch with a time of at least `timestampMs` starts; undefined when there is none. */
  positionOfTimestamp(timestampMs: number): number | undefined {
    if (timestampMs > this.footer.maxTimestampMs || this.#offsets.length === 0) return undefined;
    const entry = lastBelow(this.#timestamps, this.#timestamps.length, timestampMs);
    return entry < 0 ? 0 : this.#timestampPositions[entry];
  }
  /** Base offset of the batch at `position`, for a position that a look-up gave: no read is needed to name it. */
  offsetAt(position: number): number {
    return this.#offsets[Math.max(0, lastAtMost(this.#positions, this.#positions.length, position))] ?? this.footer.base;
  }
  /** First index position after `position`: a scan that starts there and stays below this end sees every batch between two entries. */
  nextPosition(position: number): number {
    return this.#positions[lastAtMost(this.#positions, this.#positions.length, position) + 1] ?? this.footer.batchBytes;
  }
}

function readEntries(bytes: Uint8Array, values: Float64Array, positions: Float64Array, footer: SegmentFooter, base: number): void {
  let previous = -1;
  let previousPosition = -1;
  for (let i = 0; i < values.length; i++) {
    const value = readInt64(bytes, i * OFFSET_ENTRY_BYTES) + base;
    const position = readUint32(bytes, i * OFFSET_ENTRY_BYTES + 8);
    if (!Number.isSafeInteger(value) || value <= previous || position <= previousPosition || position >= footer.batchBytes)
      throw corrupt(`index entry ${i} is out of order or points outside`);
    values[i] = value;
    positions[i] = position;
    previous = value;
    previousPosition = position;
  }
}
