import { SluiceError } from "../model/index.ts";
import { batchCrc, batchStopError, newBatchHeader, readBatchHeader, stampBatch } from "./batch.ts";
import type { BatchHeader, BatchStop } from "./batch.ts";
import type { Crc32c } from "./checksum.ts";

/**
 * A run: whole batches, one after the other, in one piece of memory. Links, journals, objects and answers to readers carry runs.
 *
 *   | batch | batch | batch | (perhaps the first part of a batch) |
 *   from    ^position                                             to
 */

/**
 * Walks a run without allocating:
 *   cursor.reset(bytes); while (cursor.next()) use(cursor.header, cursor.position);
 * After the last `next`, `stop` says why it ended: undefined = exactly at the end of the run.
 */
export class BatchCursor {
  /** Of the current batch; overwritten by each `next`. */
  readonly header: BatchHeader = newBatchHeader();
  bytes: Uint8Array;
  /** Where the current batch starts. */
  position = 0;
  /** Where the next batch starts: after the walk, the end of the last whole batch. */
  nextPosition = 0;
  end = 0;
  stop: BatchStop | undefined = undefined;

  constructor(bytes: Uint8Array = new Uint8Array(0), from = 0, to: number = bytes.length) {
    this.bytes = bytes;
    this.reset(bytes, from, to);
  }
  reset(bytes: Uint8Array, from = 0, to: number = bytes.length): this {
    this.bytes = bytes;
    this.position = from;
    this.nextPosition = from;
    this.end = Math.min(to, bytes.length);
    this.stop = undefined;
    return this;
  }
  next(): boolean {
    if (this.nextPosition >= this.end || this.stop !== undefined) return false;
    this.stop = readBatchHeader(this.bytes, this.nextPosition, this.end, this.header);
    if (this.stop !== undefined) return false;
    this.position = this.nextPosition;
    this.nextPosition += this.header.totalBytes;
    return true;
  }
  /** Throws CORRUPT_BATCH or UNSUPPORTED_FORMAT unless the walk ended exactly at the end of the run. */
  expectEnd(): void {
    if (this.stop !== undefined) throw batchStopError(this.stop, this.nextPosition);
  }
}

/**
 * Calls `visit` for each whole batch of [from, to) with a reused header; `visit` returns false to stop. Returns the position after the last visited batch:
 * less than `to` when a batch is cut off or malformed (or `visit` stopped), which is for the caller to judge.
 */
export function scanBatches(
  bytes: Uint8Array,
  visit: (header: BatchHeader, at: number) => boolean | void,
  from = 0,
  to: number = bytes.length,
): number {
  const cursor = new BatchCursor(bytes, from, to);
  while (cursor.next()) if (visit(cursor.header, cursor.position) === false) break;
  return cursor.nextPosition;
}

/** Writes offsets from `baseOffset` on and the epoch into all batches of a checked run, in place. Returns the offset after the last. */
export function stampRun(run: Uint8Array, baseOffset: number, epoch: number): number {
  const cursor = stampCursor.reset(run);
  let next = baseOffset;
  while (cursor.next()) {
    stampBatch(run, cursor.position, next, epoch);
    next += cursor.header.lastOffsetDelta + 1;
  }
  return next;
}
const stampCursor = new BatchCursor();

/** End position of the longest prefix of whole batches of [from, to) whose last offset is at most `limit`; `from` when there is none. */
export function cutRun(bytes: Uint8Array, limit: number, from = 0, to: number = bytes.length): number {
  const cursor = new BatchCursor(bytes, from, to);
  let end = from;
  while (cursor.next() && cursor.header.lastOffset <= limit) end = cursor.nextPosition;
  return end;
}

/** End position of the longest prefix of whole batches of at most `maxBytes`; at least one batch when there is a whole one (a reader must get on). */
export function cutRunBytes(bytes: Uint8Array, maxBytes: number, from = 0, to: number = bytes.length): number {
  const cursor = new BatchCursor(bytes, from, to);
  let end = from;
  while (cursor.next() && (end === from || cursor.nextPosition - from <= maxBytes)) end = cursor.nextPosition;
  return end;
}

/**
 * Position of the first batch whose last offset is at least `offset`: the batch that holds it, or the next one where compaction left a gap.
 * -1 when every whole batch of [from, to) ends before it.
 */
export function findBatch(bytes: Uint8Array, offset: number, from = 0, to: number = bytes.length): number {
  const cursor = new BatchCursor(bytes, from, to);
  while (cursor.next()) if (cursor.header.lastOffset >= offset) return cursor.position;
  return -1;
}

/** Position of the first batch of [from, to) that has a record as late as `timestampMs` (its maxTimestamp is at least that); -1 when there is none. */
export function findBatchByTime(bytes: Uint8Array, timestampMs: number, from = 0, to: number = bytes.length): number {
  const cursor = new BatchCursor(bytes, from, to);
  while (cursor.next()) if (cursor.header.maxTimestamp >= timestampMs) return cursor.position;
  return -1;
}

/** What a run holds. */
export interface RunSummary {
  batches: number;
  records: number;
  bytes: number;
  /** First base offset and last offset; -1 and -1 when the run is empty. */
  firstOffset: number;
  lastOffset: number;
  /** Largest maxTimestamp; -1 when the run is empty. */
  maxTimestamp: number;
}
export interface RunChecks {
  /** First base offset that the run must have. */
  readonly firstOffset?: number;
  /** Epoch that every batch must carry. */
  readonly epoch?: number;
  /** Offsets must follow each other without a gap (every segment but a compacted one). Default true. */
  readonly contiguous?: boolean;
  /** When given, the CRC of each batch is checked. */
  readonly crc32c?: Crc32c;
}

/**
 * Checks a run of stamped batches whole (a storage node before its journal, a reader of an object, recovery) and sums it up.
 * Throws UNSUPPORTED_FORMAT or CORRUPT_BATCH, the message naming the first offence; bytes after the last whole batch are one.
 */
export function checkRun(bytes: Uint8Array, checks: RunChecks = {}, from = 0, to: number = bytes.length): RunSummary {
  const summary: RunSummary = { batches: 0, records: 0, bytes: 0, firstOffset: -1, lastOffset: -1, maxTimestamp: -1 };
  const cursor = new BatchCursor(bytes, from, to);
  const { header } = cursor;
  let expected = checks.firstOffset ?? -1;
  while (cursor.next()) {
    if (
      expected >= 0 &&
      (summary.batches === 0 || checks.contiguous !== false ? header.baseOffset !== expected : header.baseOffset < expected)
    )
      throw new SluiceError("CORRUPT_BATCH", `batch at byte ${cursor.position} has base offset ${header.baseOffset}, expected ${expected}`);
    if (checks.epoch !== undefined && header.partitionLeaderEpoch !== checks.epoch)
      throw new SluiceError(
        "CORRUPT_BATCH",
        `batch ${header.baseOffset} has epoch ${header.partitionLeaderEpoch}, expected ${checks.epoch}`,
      );
    if (checks.crc32c !== undefined && batchCrc(bytes, cursor.position, header.totalBytes, checks.crc32c) !== header.crc)
      throw new SluiceError("CORRUPT_BATCH", `batch ${header.baseOffset} fails its CRC`);
    if (summary.batches === 0) summary.firstOffset = header.baseOffset;
    summary.batches++;
    summary.records += header.recordsCount;
    summary.lastOffset = header.lastOffset;
    if (header.maxTimestamp > summary.maxTimestamp) summary.maxTimestamp = header.maxTimestamp;
    expected = header.lastOffset + 1;
  }
  cursor.expectEnd();
  summary.bytes = cursor.nextPosition - from;
  return summary;
}
