import {
  checkRun,
  cutRun,
  findBatch,
  readSegmentFooter,
  SEGMENT_FOOTER_BYTES,
  SegmentIndex,
  segmentParts,
  type Crc32c,
} from "@sluice/core/log";
import { limits, SluiceError, type ObjectRef } from "@sluice/core/model";
import type { ObjectStore } from "@sluice/object-store";

/** Memory of the indexes of uploaded segments, bytes. */
const INDEX_CACHE_BYTES_MAX = 16 * 1024 * 1024;

/** Where aligned blocks of immutable objects come from: the store itself, or a cache before it. */
export interface BlockSource {
  /** Bytes [index * blockBytes, ...) of the segment's part of the object, at most blockBytes, fewer at the end. */
  block(object: ObjectRef, index: number): Promise<Uint8Array>;
}
export function directBlocks(store: ObjectStore): BlockSource {
  return {
    block(object, index) {
      const from = index * limits.blockBytes;
      return store.getRange(object.key, object.at + from, Math.min(limits.blockBytes, object.length - from));
    },
  };
}

/** Reads of uploaded segments: the footer and the index once, then blocks. Every batch that is served has its CRC checked. */
export class ObjectReader {
  readonly #store: ObjectStore;
  readonly #blocks: BlockSource;
  readonly #crc32c: Crc32c;
  /** In order of last use; a promise while it is being read, so that concurrent misses share one read. */
  readonly #indexes = new Map<string, { readonly index: Promise<SegmentIndex>; bytes: number }>();
  #indexBytes = 0;

  constructor(store: ObjectStore, crc32c: Crc32c, blocks: BlockSource = directBlocks(store)) {
    this.#store = store;
    this.#crc32c = crc32c;
    this.#blocks = blocks;
  }

  /** Whole batches from the one that holds `from`, about `maxBytes` of them, at least one; empty when the segment ends before `from`. */
  async read(object: ObjectRef, from: number, maxBytes: number): Promise<Uint8Array> {
    const index = await this.#index(object);
    const start = index.positionOf(from);
    if (start === undefined) return new Uint8Array(0);
    const { batchBytes } = index.footer;
    // The sparse index points at most one interval before the batch; a batch may be larger than what was asked for.
    let want = Math.min(batchBytes - start, Math.max(maxBytes, limits.indexIntervalBytes * 2));
    for (;;) {
      const bytes = await this.#range(object, start, want);
      const at = findBatch(bytes, from);
      const end = at < 0 ? 0 : cutRun(bytes, index.footer.end, at);
      if (at >= 0 && end > at) {
        const run = bytes.subarray(at, end);
        checkRun(run, { crc32c: this.#crc32c, contiguous: false });
        return run;
      }
      if (start + want >= batchBytes) throw new SluiceError("CORRUPT_SEGMENT", `object ${object.key} has no batch for offset ${from}`);
      want = Math.min(batchBytes - start, want * 2 + limits.blockBytes);
    }
  }

  /** Offset where a scan for the first record at or after `timestampMs` should start; -1 = none in this segment. */
  async lookupTimestamp(object: ObjectRef, timestampMs: number): Promise<number> {
    const index = await this.#index(object);
    const position = index.positionOfTimestamp(timestampMs);
    if (position === undefined) return -1;
    return index.offsetAt(position);
  }

  async #range(object: ObjectRef, from: number, length: number): Promise<Uint8Array> {
    const first = Math.floor(from / limits.blockBytes);
    const last = Math.floor((from + length - 1) / limits.blockBytes);
    if (first === last) {
      const block = await this.#blocks.block(object, first);
      return block.subarray(from - first * limits.blockBytes, from - first * limits.blockBytes + length);
    }
    const out = new Uint8Array(length);
    const all = await Promise.all(Array.from({ length: last - first + 1 }, (_, i) => this.#blocks.block(object, first + i)));
    all.forEach((block, i) => {
      const blockFrom = (first + i) * limits.blockBytes;
      const lo = Math.max(from, blockFrom);
      const hi = Math.min(from + length, blockFrom + block.length);
      if (hi > lo) out.set(block.subarray(lo - blockFrom, hi - blockFrom), lo - from);
    });
    return out;
  }

  #index(object: ObjectRef): Promise<SegmentIndex> {
    const key = `${object.key}@${object.at}`;
    const known = this.#indexes.get(key);
    if (known !== undefined) {
      this.#indexes.delete(key);
      this.#indexes.set(key, known);
      return known.index;
    }
    const index = this.#readIndex(object);
    const entry = { index, bytes: 0 };
    this.#indexes.set(key, entry);
    void index.then(
      (read) => {
        entry.bytes = read.heldBytes;
        this.#indexBytes += entry.bytes;
        this.#evict();
      },
      () => void this.#indexes.delete(key),
    );
    return index;
  }
  async #readIndex(object: ObjectRef): Promise<SegmentIndex> {
    if (object.format !== 1) throw new SluiceError("UNSUPPORTED_FORMAT", `object ${object.key} has format ${object.format}`);
    const footerAt = object.at + object.length - SEGMENT_FOOTER_BYTES;
    const footer = readSegmentFooter(await this.#store.getRange(object.key, footerAt, SEGMENT_FOOTER_BYTES), object.length, this.#crc32c);
    const { from, to } = segmentParts(footer).index;
    const bytes = from === to ? new Uint8Array(0) : await this.#store.getRange(object.key, object.at + from, to - from);
    return new SegmentIndex(bytes, footer, this.#crc32c);
  }
  #evict(): void {
    for (const [key, entry] of this.#indexes) {
      if (this.#indexBytes <= INDEX_CACHE_BYTES_MAX) return;
      this.#indexBytes -= entry.bytes;
      this.#indexes.delete(key);
    }
  }
}
