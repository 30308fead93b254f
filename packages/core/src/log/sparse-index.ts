import { limits } from "../model/index.ts";

/**
 * Where the batches of one segment are, about one entry for each 4 KiB of them:
 *
 *   batches   |#####|##|########|###|####|#######|...
 *   entries   ^0        ^1           ^2
 *
 * An entry holds the base offset and the position of a batch, and the largest timestamp of all batches *before* it (-1 = none): timestamps need not be in
 * order, so "nothing before here is as late as t" is what a search by time can use. Positions are the caller's (bytes in an object, places in a journal): integer doubles.
 * Append only; typed arrays that double.
 */
const FIRST_ENTRIES = 16;

export class SparseIndex {
  readonly #intervalBytes: number;
  #offsets = new Float64Array(FIRST_ENTRIES);
  #positions = new Float64Array(FIRST_ENTRIES);
  #timestampsBefore = new Float64Array(FIRST_ENTRIES);
  #bytesSinceEntry = 0;
  #length = 0;
  /** Largest timestamp of all batches; -1 when there is none. */
  maxTimestamp = -1;

  constructor(intervalBytes: number = limits.indexIntervalBytes) {
    this.#intervalBytes = intervalBytes;
  }
  get length(): number {
    return this.#length;
  }
  /** Memory held, for gauges. */
  get heldBytes(): number {
    return this.#offsets.byteLength * 3;
  }

  /** Every batch passes here in offset order, or every run of batches that lies in one piece: whether it becomes an entry is decided here. */
  add(baseOffset: number, maxTimestamp: number, position: number, bytes: number): void {
    if (this.#length === 0 || this.#bytesSinceEntry >= this.#intervalBytes) this.#push(baseOffset, position);
    this.#bytesSinceEntry += bytes;
    if (maxTimestamp > this.maxTimestamp) this.maxTimestamp = maxTimestamp;
  }
  #push(offset: number, position: number): void {
    if (this.#length === this.#offsets.length) this.#grow();
    this.#offsets[this.#length] = offset;
    this.#positions[this.#length] = position;
    this.#timestampsBefore[this.#length] = this.maxTimestamp;
    this.#length++;
    this.#bytesSinceEntry = 0;
  }
  #grow(): void {
    this.#offsets = doubled(this.#offsets);
    this.#positions = doubled(this.#positions);
    this.#timestampsBefore = doubled(this.#timestampsBefore);
  }

  offsetAt(entry: number): number {
    return this.#offsets[entry] as number;
  }
  positionAt(entry: number): number {
    return this.#positions[entry] as number;
  }
  timestampBeforeAt(entry: number): number {
    return this.#timestampsBefore[entry] as number;
  }
  /** The last entry whose offset is at most `offset`, where a scan for `offset` starts; -1 when there is none. */
  floorEntry(offset: number): number {
    return lastAtMost(this.#offsets, this.#length, offset);
  }
  /** Position of `floorEntry`; -1 when `offset` lies before the first batch. */
  floorPosition(offset: number): number {
    const entry = this.floorEntry(offset);
    return entry < 0 ? -1 : this.positionAt(entry);
  }
  /** The last entry before which every batch is earlier than `timestamp`: a scan from there finds the first that is not. -1 when the index is empty or no batch is that late. */
  timestampEntry(timestamp: number): number {
    if (this.#length === 0 || timestamp > this.maxTimestamp) return -1;
    return Math.max(0, lastBelow(this.#timestampsBefore, this.#length, timestamp));
  }
  timestampPosition(timestamp: number): number {
    const entry = this.timestampEntry(timestamp);
    return entry < 0 ? -1 : this.positionAt(entry);
  }
  /** Forgets the entries from `offset` on (a cut tail). `maxTimestamp` stays: it may be too large, which costs a scan and loses nothing. */
  truncate(offset: number): void {
    this.#length = lastBelow(this.#offsets, this.#length, offset) + 1;
    // The bytes since the last entry are not known any more: the next batch becomes one.
    this.#bytesSinceEntry = this.#intervalBytes;
  }
}

const doubled = (from: Float64Array): Float64Array<ArrayBuffer> => {
  const to = new Float64Array(from.length * 2);
  to.set(from);
  return to;
};
/** Index of the last of the first `length` ascending values that is <= x; -1 when none. */
export function lastAtMost(values: Float64Array, length: number, x: number): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] as number) <= x) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
/** Index of the last that is < x; -1 when none. */
export function lastBelow(values: Float64Array, length: number, x: number): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] as number) < x) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
