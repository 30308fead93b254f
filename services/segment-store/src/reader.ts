import { decodeEntry, decodeGroupHeader, entrySpan, entryTypes, GROUP_HEADER_BYTES } from "@sluice/core/journal";
import { BatchCursor } from "@sluice/core/log";
import type { Crc32c } from "@sluice/core/log";
import { limits, SluiceError } from "@sluice/core/model";
import type { Segment } from "@sluice/core/replica";
import { type Slab, slabPool } from "@sluice/link";
import { allocateBuffer } from "@sluice/runtime/buffer-gc";
import type { JournalFiles } from "./journal/files.ts";
import type { LocationTable, SegmentLocations } from "./journal/locations.ts";

export interface ReaderOptions {
  readonly files: JournalFiles;
  readonly locations: LocationTable;
  readonly crc32c: Crc32c;
  readonly salt: number;
  /** Reads that may be at the disk at one time: fewer than the thread pool has threads, so that a sync never waits behind them. */
  readonly concurrency: number;
  /** Reads that may wait. */
  readonly pendingMax: number;
}
const FIRST_WINDOW_BYTES = 128 * 1024;
const EMPTY = new Uint8Array(0);

/** Reads batches of one segment out of the shared journal, every one checked against its CRC. */
export class JournalReader {
  readonly #options: ReaderOptions;
  readonly #waiting: (() => void)[] = [];
  #active = 0;

  constructor(options: ReaderOptions) {
    this.#options = options;
  }
  get pending(): number {
    return this.#active + this.#waiting.length;
  }

  /**
   * Whole batches from the one that holds `from` up to `limit`, at most `maxBytes` of them (one larger batch may come alone). Empty when there are none.
   * Throws OVERLOADED, and READ_UNAVAILABLE when the bytes are not what they must be (another copy has them).
   */
  async read(segment: Segment, from: number, limit: number, maxBytes: number): Promise<Uint8Array> {
    const locations = this.#options.locations.bySegment.get(segment.number);
    if (from > limit || locations === undefined) return EMPTY;
    await this.#enter();
    try {
      return await this.#read(locations, from, limit, maxBytes);
    } finally {
      this.#leave();
    }
  }

  async #read(locations: SegmentLocations, from: number, limit: number, maxBytes: number): Promise<Uint8Array> {
    const window = new Window();
    try {
      return await this.#collect(locations, from, limit, maxBytes, window);
    } finally {
      window.release();
    }
  }
  async #collect(locations: SegmentLocations, from: number, limit: number, maxBytes: number, room: Window): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    let next = from;
    while (next <= limit) {
      const point = locations.floor(next);
      if (point < 0) throw unavailable(`offset ${next} lies before the first entry`);
      const stopAt = locations.offsets[point + 1] ?? Number.POSITIVE_INFINITY;
      const walk = await this.#walk(locations, point, next, Math.min(limit, stopAt - 1), maxBytes - bytes, pieces.length === 0, room);
      for (const p of walk.pieces) {
        pieces.push(p);
        bytes += p.length;
      }
      next = walk.next;
      if (walk.full || bytes >= maxBytes) break;
    }
    return joined(pieces, bytes);
  }

  /** Walks from one point towards the next. `next`: the first offset that was not taken; `full`: the next batch does not fit any more. */
  async #walk(
    locations: SegmentLocations,
    point: number,
    from: number,
    upTo: number,
    maxBytes: number,
    first: boolean,
    room: Window,
  ): Promise<{ pieces: Uint8Array[]; next: number; full: boolean }> {
    const { files, crc32c, salt } = this.#options;
    const { fileNumber, at: startAt } = locations.place(point);
    const pieces: Uint8Array[] = [];
    let next = from;
    let taken = 0;
    let at = startAt;
    let windowBytes = FIRST_WINDOW_BYTES;
    while (next <= upTo) {
      const file = files.get(fileNumber);
      if (file === undefined) throw unavailable(`journal file ${fileNumber} is gone`);
      const window = room.take(windowBytes);
      const n = await file.file.read(window, at);
      // A file that was given a new number meanwhile holds other bytes.
      if (files.get(fileNumber) !== file) throw unavailable(`journal file ${fileNumber} is gone`);
      let pos = 0;
      let needs = 0;
      while (next <= upTo) {
        const span = entrySpan(window, pos, n);
        if (span === undefined) {
          const length = entryLengthAt(window, pos, n);
          if (length > 0) {
            // Another segment's entry is stepped over, however long; ours is needed whole.
            if (isOthers(window, pos, n, locations.segmentNumber)) pos += length;
            else needs = length;
            break;
          }
          // Padding: the next group begins at a multiple of 4 KiB.
          const aligned = Math.ceil((at + pos) / limits.journalPadBytes) * limits.journalPadBytes - at;
          if (aligned + GROUP_HEADER_BYTES > n) {
            pos = Math.min(aligned, n);
            break;
          }
          if (decodeGroupHeader(window, aligned, crc32c, salt)?.fileNumber !== fileNumber)
            throw unavailable(`offset ${next} of segment ${locations.segmentNumber} is not where it must be`);
          pos = aligned + GROUP_HEADER_BYTES;
          continue;
        }
        if (span.type === entryTypes.append && span.segmentNumber === locations.segmentNumber && span.lastOffset >= next) {
          const entry = decodeEntry(window, pos, n, crc32c);
          if (entry?.kind !== "append" || entry.firstOffset > next)
            throw unavailable(`the entry at offset ${next} of segment ${locations.segmentNumber} is damaged`);
          const cut = cutBatches(entry.payload, next, upTo, maxBytes - taken, first && pieces.length === 0);
          if (cut.run.length > 0) pieces.push(copyOf(cut.run));
          taken += cut.run.length;
          next = cut.next;
          if (cut.full) return { pieces, next, full: true };
        }
        pos += span.length;
      }
      if (next > upTo) break;
      if (pos === 0 && needs === 0) throw unavailable(`offset ${next} of segment ${locations.segmentNumber} is not in file ${fileNumber}`);
      at += pos;
      windowBytes = Math.max(needs, Math.min(limits.readRunBytesMax, windowBytes * 2));
    }
    return { pieces, next, full: false };
  }

  async #enter(): Promise<void> {
    const { concurrency, pendingMax } = this.#options;
    if (this.#active < concurrency) {
      this.#active++;
      return;
    }
    if (this.#waiting.length >= pendingMax) throw new SluiceError("OVERLOADED", `${this.#waiting.length} reads wait`);
    // The one that leaves hands its place over.
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
  #leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#active--;
    else next();
  }
}

const unavailable = (message: string): SluiceError => new SluiceError("READ_UNAVAILABLE", message);

/** Length of the entry that begins at `pos` and does not end within the bytes; 0 when none begins there. */
function entryLengthAt(bytes: Uint8Array, pos: number, end: number): number {
  if (pos + 8 > end) return pos < end && bytes[pos] === 0x45 ? 64 : 0;
  if (bytes[pos] !== 0x45 || bytes[pos + 1] !== 0x4a) return 0;
  const length = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(pos + 4, true);
  return pos + length > end && length <= limits.linkFrameBytesMax + limits.journalPadBytes ? Math.max(length, 64) : 0;
}

const isOthers = (bytes: Uint8Array, pos: number, end: number, segmentNumber: number): boolean =>
  pos + 12 <= end && new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(pos + 8, true) !== segmentNumber;

const cursor = new BatchCursor();
/** The batches of a run from the one that holds `from`, up to `upTo`, at most `maxBytes`; the first one in any case when `atLeastOne`. */
function cutBatches(
  payload: Uint8Array,
  from: number,
  upTo: number,
  maxBytes: number,
  atLeastOne: boolean,
): { run: Uint8Array; next: number; full: boolean } {
  let begin = -1;
  let end = 0;
  let next = from;
  let full = false;
  cursor.reset(payload);
  while (cursor.next()) {
    if (cursor.header.lastOffset < from) continue;
    if (cursor.header.lastOffset > upTo) {
      // It ends above what may be served: nothing more of this walk.
      next = upTo + 1;
      break;
    }
    if (begin < 0) begin = cursor.position;
    if (cursor.nextPosition - begin > maxBytes && !(atLeastOne && cursor.position === begin)) {
      full = true;
      break;
    }
    end = cursor.nextPosition;
    next = cursor.header.lastOffset + 1;
  }
  if (begin < 0 || end <= begin) return { run: EMPTY, next: full ? next : Math.max(next, upTo + 1), full };
  return { run: payload.subarray(begin, end), next, full };
}

/**
 * Memory that one read looks at the journal through, given back for the next: of a journal that many partitions share a read looks at many times
 * what it gives out, and making that much new memory cost more than reading it.
 */
class Window {
  #slab: Slab = slabPool.take(limits.readRunBytesMax);

  /** So many bytes, as the last user left them; what was taken before is written over. */
  take(bytes: number): Buffer {
    if (bytes > this.#slab.buffer.length) {
      this.#slab.retire();
      this.#slab = slabPool.take(bytes);
    }
    return this.#slab.buffer.subarray(0, bytes);
  }
  release(): void {
    this.#slab.retire();
  }
}
function copyOf(bytes: Uint8Array): Uint8Array {
  const copy = allocateBuffer(bytes.length);
  copy.set(bytes);
  return copy;
}

function joined(pieces: readonly Uint8Array[], bytes: number): Uint8Array {
  if (pieces.length <= 1) return pieces[0] ?? EMPTY;
  const out = allocateBuffer(bytes);
  let at = 0;
  for (const p of pieces) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}
