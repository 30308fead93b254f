import type { BatchHeader } from "../log/index.ts";

/** What the window keeps of one batch. */
export interface WindowBatch {
  readonly firstOffset: number;
  readonly lastOffset: number;
  readonly crc: number;
  /** Chain hash up to and with this batch (its two lanes). */
  readonly chainHigh: number;
  readonly chainLow: number;
  readonly bytes: number;
  readonly appendMs: number;
  readonly maxTimestampMs: number;
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
  readonly isControl: boolean;
  readonly isTransactional: boolean;
}

export function windowBatch(h: BatchHeader, chainHigh: number, chainLow: number, appendMs: number): WindowBatch {
  return {
    firstOffset: h.baseOffset,
    lastOffset: h.lastOffset,
    crc: h.crc,
    chainHigh,
    chainLow,
    bytes: h.totalBytes,
    appendMs,
    maxTimestampMs: h.maxTimestamp,
    producerId: h.producerId,
    producerEpoch: h.producerEpoch,
    baseSequence: h.baseSequence,
    isControl: h.isControl,
    isTransactional: h.isTransactional,
  };
}

/**
 * The latest batches of a segment that still accepts appends, oldest first:
 *
 *   folded into the segment's producer table │ still only here
 *   ... b1 b2 b3 (kept to judge retries)     │ b4 b5 b6
 *                                            ^ folded
 *
 * A seal can cut what was never committed, so the producer table follows the committed mark and the rest waits here; and a retry is
 * compared with what is here. Bounded: the oldest committed batches go first; above `hardMax` uncommitted ones are folded too, which makes
 * a later cut below them inexact (and it is then reported as unknown, never guessed).
 */
export class BatchWindow {
  readonly #keep: number;
  readonly #hardMax: number;
  #batches: WindowBatch[] = [];
  /** Index of the oldest batch that is kept: those before it are dropped at the next compaction. */
  #head = 0;
  /** Index of the first batch that is not folded. */
  #folded = 0;
  /** Last offset that is folded: base - 1 when none is. A cut below it is not exact. */
  foldedTo = -1;
  /** Chain hash at `foldedTo`. */
  foldedChainHigh = 0;
  foldedChainLow = 0;

  constructor(keep: number, hardMax: number) {
    this.#keep = keep;
    this.#hardMax = hardMax;
  }
  /** Starts anew: everything up to `foldedTo` is folded and nothing is kept. */
  reset(foldedTo: number, chainHigh: number, chainLow: number): void {
    this.#batches = [];
    this.#head = 0;
    this.#folded = 0;
    this.foldedTo = foldedTo;
    this.foldedChainHigh = chainHigh;
    this.foldedChainLow = chainLow;
  }
  get size(): number {
    return this.#batches.length - this.#head;
  }
  get oldest(): WindowBatch | undefined {
    return this.#batches[this.#head];
  }
  get newest(): WindowBatch | undefined {
    return this.#batches.length > this.#head ? this.#batches[this.#batches.length - 1] : undefined;
  }
  push(batch: WindowBatch): void {
    this.#batches.push(batch);
  }

  /** Folds what is committed (last offset at most `committed`), and what is too much to keep. */
  fold(committed: number, fold: (batch: WindowBatch) => void): void {
    while (this.#folded < this.#batches.length) {
      const batch = this.#batches[this.#folded] as WindowBatch;
      if (batch.lastOffset > committed && this.#batches.length - this.#folded <= this.#hardMax) break;
      fold(batch);
      this.#folded++;
      this.foldedTo = batch.lastOffset;
      this.foldedChainHigh = batch.chainHigh;
      this.foldedChainLow = batch.chainLow;
    }
    while (this.#head < this.#folded && this.size > this.#keep) this.#head++;
    if (this.#head > 64 && this.#head * 2 > this.#batches.length) {
      this.#batches = this.#batches.slice(this.#head);
      this.#folded -= this.#head;
      this.#head = 0;
    }
  }

  /** The batches that are not folded, oldest first. */
  unfolded(): readonly WindowBatch[] {
    return this.#batches.slice(this.#folded);
  }

  /** The batch that starts at `firstOffset`; undefined when there is none (or no longer). */
  find(firstOffset: number): WindowBatch | undefined {
    let low = this.#head;
    let high = this.#batches.length - 1;
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const batch = this.#batches[middle] as WindowBatch;
      if (batch.firstOffset === firstOffset) return batch;
      if (batch.firstOffset < firstOffset) low = middle + 1;
      else high = middle - 1;
    }
    return undefined;
  }

  /**
   * Takes off the batches above `end`, newest first. "split": `end` lies within a batch. "unknown": a folded batch lies above `end`, nothing
   * is taken off.
   */
  cut(end: number, removed: (batch: WindowBatch) => void): "exact" | "split" | "unknown" {
    if (end < this.foldedTo) return "unknown";
    while (this.#batches.length > this.#folded) {
      const batch = this.#batches[this.#batches.length - 1] as WindowBatch;
      if (batch.lastOffset <= end) return "exact";
      if (batch.firstOffset <= end) return "split";
      removed(batch);
      this.#batches.pop();
    }
    return "exact";
  }
  /** True when a batch of the window ends at `offset`, or everything up to it is folded: only there can a cut be. */
  endsBatch(offset: number): boolean {
    if (offset === this.foldedTo) return true;
    for (let i = this.#batches.length - 1; i >= this.#folded; i--) {
      const batch = this.#batches[i] as WindowBatch;
      if (batch.lastOffset <= offset) return batch.lastOffset === offset;
    }
    return false;
  }
}
