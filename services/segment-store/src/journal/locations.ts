import type { SegmentIndexEntry } from "@sluice/core/journal";
import { fileOf, placeOf, positionOf } from "./positions.ts";

/** A new point at least every so many bytes of the segment, or of journal in between, so that a read skips little. */
const POINT_SEGMENT_BYTES = 64 * 1024;
const POINT_JOURNAL_BYTES = 256 * 1024;

/**
 * Where the entries of one segment lie: points (offset, place), about one for each 64 KiB, the first entry of each file among them. From a point one walks
 * forward through the journal, skipping other segments' entries, until the offset of the next point is reached:
 *
 *   file 7   ..a a.b..a...|a a..    file 8   a..b.a
 *              ^p0         ^p1               ^p2
 */
export class SegmentLocations {
  readonly segmentNumber: number;
  offsets: number[] = [];
  positions: number[] = [];
  /** Largest record timestamp of all entries before the point; -1 = none. */
  timestampsBefore: number[] = [];
  maxTimestampMs = -1;
  /** Journal file to live bytes of the segment in it. */
  readonly fileBytes = new Map<number, number>();
  #sincePoint = 0;
  #lastFile = -1;

  constructor(segmentNumber: number) {
    this.segmentNumber = segmentNumber;
  }

  /** An entry was written, in offset order. */
  add(firstOffset: number, maxTimestampMs: number, fileNumber: number, at: number, bytes: number): void {
    const last = this.positions.length - 1;
    const position = positionOf(fileNumber, at);
    if (
      last < 0 ||
      this.#lastFile !== fileNumber ||
      this.#sincePoint >= POINT_SEGMENT_BYTES ||
      position - (this.positions[last] as number) >= POINT_JOURNAL_BYTES
    ) {
      this.offsets.push(firstOffset);
      this.positions.push(position);
      this.timestampsBefore.push(this.maxTimestampMs);
      this.#sincePoint = 0;
    }
    this.#sincePoint += bytes;
    this.#lastFile = fileNumber;
    if (maxTimestampMs > this.maxTimestampMs) this.maxTimestampMs = maxTimestampMs;
    this.#count(fileNumber, bytes);
  }

  /**
   * The entry with these offsets has been copied to another place. The point before it keeps leading to what lies before; the entry gets a point
   * of its own, and so does what follows it in the old place (a walk from the old point skips what it does not want).
   */
  move(firstOffset: number, lastOffset: number, fileNumber: number, at: number, bytes: number): void {
    const floor = this.floor(firstOffset);
    if (floor < 0) return;
    const after = this.floor(lastOffset + 1);
    const oldPosition = this.positions[after] as number;
    const timestamp = this.timestampsBefore[floor] as number;
    const from = (this.offsets[floor] as number) < firstOffset ? floor + 1 : floor;
    const points: [number, number, number][] = [
      [firstOffset, positionOf(fileNumber, at), timestamp],
      [lastOffset + 1, oldPosition, this.timestampsBefore[after] as number],
    ];
    const removed = after - from + 1;
    this.offsets.splice(from, removed, ...points.map((p) => p[0]));
    this.positions.splice(from, removed, ...points.map((p) => p[1]));
    this.timestampsBefore.splice(from, removed, ...points.map((p) => p[2]));
    this.#lastFile = -1;
    this.#count(fileNumber, bytes);
  }
  /** Its entries in that file are all elsewhere now. */
  leave(fileNumber: number): void {
    this.fileBytes.delete(fileNumber);
  }
  #count(fileNumber: number, bytes: number): void {
    this.fileBytes.set(fileNumber, (this.fileBytes.get(fileNumber) ?? 0) + bytes);
  }

  /** Index of the last point at or below `offset`; -1 when it lies before the first. */
  floor(offset: number): number {
    let low = 0;
    let high = this.offsets.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.offsets[middle] as number) <= offset) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
  /** The last point before which every record is older than `timestampMs`; -1 when no record is that late. */
  floorOfTimestamp(timestampMs: number): number {
    if (this.offsets.length === 0 || timestampMs > this.maxTimestampMs) return -1;
    let found = 0;
    for (let i = 1; i < this.timestampsBefore.length && (this.timestampsBefore[i] as number) < timestampMs; i++) found = i;
    return found;
  }
  place(point: number): { readonly fileNumber: number; readonly at: number } {
    const position = this.positions[point] as number;
    return { fileNumber: fileOf(position), at: placeOf(position) };
  }

  toEntry(): SegmentIndexEntry {
    const pairs: number[] = [];
    for (const [file, bytes] of this.fileBytes) pairs.push(file, bytes);
    return {
      kind: "segment-index",
      segmentNumber: this.segmentNumber,
      offsets: Float64Array.from(this.offsets),
      positions: Float64Array.from(this.positions),
      timestampsBefore: Float64Array.from([...this.timestampsBefore, this.maxTimestampMs]),
      fileBytes: Float64Array.from(pairs),
    };
  }
  static fromEntry(e: SegmentIndexEntry): SegmentLocations {
    const l = new SegmentLocations(e.segmentNumber);
    l.offsets = [...e.offsets];
    l.positions = [...e.positions];
    const times = [...e.timestampsBefore];
    l.maxTimestampMs = times.pop() ?? -1;
    l.timestampsBefore = times;
    for (let i = 0; i + 1 < e.fileBytes.length; i += 2) l.fileBytes.set(e.fileBytes[i] as number, e.fileBytes[i + 1] as number);
    return l;
  }
}

/** Locations of all segments, and how much of each journal file is still wanted. */
export class LocationTable {
  readonly bySegment = new Map<number, SegmentLocations>();
  readonly #live = new Map<number, number>();

  add(segmentNumber: number, firstOffset: number, maxTimestampMs: number, fileNumber: number, at: number, bytes: number): void {
    let l = this.bySegment.get(segmentNumber);
    if (l === undefined) this.bySegment.set(segmentNumber, (l = new SegmentLocations(segmentNumber)));
    l.add(firstOffset, maxTimestampMs, fileNumber, at, bytes);
    this.#count(fileNumber, bytes);
  }
  move(segmentNumber: number, firstOffset: number, lastOffset: number, fileNumber: number, at: number, bytes: number): void {
    const l = this.bySegment.get(segmentNumber);
    if (l === undefined || l.floor(firstOffset) < 0) return;
    l.move(firstOffset, lastOffset, fileNumber, at, bytes);
    this.#count(fileNumber, bytes);
  }
  leave(segmentNumber: number, fileNumber: number): void {
    const l = this.bySegment.get(segmentNumber);
    const bytes = l?.fileBytes.get(fileNumber) ?? 0;
    l?.leave(fileNumber);
    this.#count(fileNumber, -bytes);
  }
  restore(entry: SegmentIndexEntry): void {
    const l = SegmentLocations.fromEntry(entry);
    this.bySegment.set(entry.segmentNumber, l);
    for (const [file, bytes] of l.fileBytes) this.#count(file, bytes);
  }
  drop(segmentNumber: number): void {
    const l = this.bySegment.get(segmentNumber);
    if (l === undefined) return;
    for (const [file, bytes] of l.fileBytes) this.#count(file, -bytes);
    this.bySegment.delete(segmentNumber);
  }
  #count(fileNumber: number, bytes: number): void {
    const live = (this.#live.get(fileNumber) ?? 0) + bytes;
    if (live <= 0) this.#live.delete(fileNumber);
    else this.#live.set(fileNumber, live);
  }
  liveBytes(fileNumber: number): number {
    return this.#live.get(fileNumber) ?? 0;
  }
  get totalLiveBytes(): number {
    let total = 0;
    for (const bytes of this.#live.values()) total += bytes;
    return total;
  }
  /** Segments with live bytes in a file. */
  *segmentsIn(fileNumber: number): Generator<SegmentLocations> {
    for (const l of this.bySegment.values()) if (l.fileBytes.has(fileNumber)) yield l;
  }
}
