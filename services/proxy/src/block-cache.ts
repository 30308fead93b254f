import { limits, type ObjectRef } from "@sluice/core/model";
import type { BlockSource } from "@sluice/partition-client";

/**
 * Blocks of uploaded segments, which never change. Two queues, so that one scan of the history does not push out what is read again:
 *
 *   miss ─► recent (first in, first out, a quarter of the budget) ─► forgotten, but its name is kept for a while (ghost)
 *                       miss of a ghost's name ─► frequent (least recently used first, the rest of the budget)
 *
 * Concurrent misses of a block share one read; a read of a block begins the read of the next one, once.
 */
interface Block {
  readonly bytes: Promise<Uint8Array>;
  /** What it holds of the budget; that of a whole block until the read is over. */
  size: number;
  queue: "recent" | "frequent";
}
const RECENT_SHARE = 0.25;
/** Names remembered for each block that fits the cache. */
const GHOSTS_PER_BLOCK = 2;

export interface BlockCacheOptions {
  readonly source: BlockSource;
  readonly bytesMax: number;
  /** For the metrics: where a block came from. */
  readonly onRead?: (from: "cache" | "object", bytes: number) => void;
}

export class BlockCache implements BlockSource {
  readonly #options: BlockCacheOptions;
  readonly #blocks = new Map<string, Block>();
  readonly #recent = new Map<string, Block>();
  readonly #frequent = new Map<string, Block>();
  readonly #ghosts = new Set<string>();
  readonly #ghostsMax: number;
  #recentBytes = 0;
  #frequentBytes = 0;

  constructor(options: BlockCacheOptions) {
    this.#options = options;
    this.#ghostsMax = Math.max(16, GHOSTS_PER_BLOCK * Math.ceil(options.bytesMax / limits.blockBytes));
  }
  get bytes(): number {
    return this.#recentBytes + this.#frequentBytes;
  }

  block(object: ObjectRef, index: number): Promise<Uint8Array> {
    const known = this.#blocks.get(nameOf(object, index));
    const block = known ?? this.#read(object, index);
    if (known !== undefined) this.#touch(nameOf(object, index), known);
    this.#ahead(object, index + 1);
    if (this.#options.onRead === undefined) return block.bytes;
    const { onRead } = this.#options;
    return block.bytes.then((bytes) => {
      onRead(known === undefined ? "object" : "cache", bytes.length);
      return bytes;
    });
  }

  /** One block further, when it is not there. A failure shows at the read that wants it. */
  #ahead(object: ObjectRef, index: number): void {
    if (index * limits.blockBytes >= object.length || this.#blocks.has(nameOf(object, index))) return;
    if (this.#options.bytesMax < 2 * limits.blockBytes) return;
    this.#read(object, index).bytes.catch(() => undefined);
  }

  #read(object: ObjectRef, index: number): Block {
    const name = nameOf(object, index);
    const size = Math.min(limits.blockBytes, object.length - index * limits.blockBytes);
    const block: Block = {
      bytes: this.#options.source.block(object, index),
      size,
      queue: this.#ghosts.delete(name) ? "frequent" : "recent",
    };
    this.#blocks.set(name, block);
    if (block.queue === "frequent") {
      this.#frequent.set(name, block);
      this.#frequentBytes += size;
    } else {
      this.#recent.set(name, block);
      this.#recentBytes += size;
    }
    block.bytes.catch(() => this.#remove(name, block));
    this.#evict();
    return block;
  }
  #touch(name: string, block: Block): void {
    if (block.queue !== "frequent") return;
    this.#frequent.delete(name);
    this.#frequent.set(name, block);
  }
  #evict(): void {
    const { bytesMax } = this.#options;
    while (this.bytes > bytesMax) {
      const fromRecent = this.#recentBytes > bytesMax * RECENT_SHARE || this.#frequent.size === 0;
      const first = (fromRecent ? this.#recent : this.#frequent).entries().next();
      if (first.done === true) return;
      const [name, block] = first.value;
      this.#remove(name, block);
      if (fromRecent) this.#remember(name);
    }
  }
  #remember(name: string): void {
    this.#ghosts.add(name);
    if (this.#ghosts.size <= this.#ghostsMax) return;
    const oldest = this.#ghosts.values().next();
    if (oldest.done !== true) this.#ghosts.delete(oldest.value);
  }
  #remove(name: string, block: Block): void {
    if (this.#blocks.get(name) !== block) return;
    this.#blocks.delete(name);
    if (block.queue === "recent") {
      this.#recent.delete(name);
      this.#recentBytes -= block.size;
    } else {
      this.#frequent.delete(name);
      this.#frequentBytes -= block.size;
    }
  }
}
const nameOf = (object: ObjectRef, index: number): string => `${object.key}@${object.at}/${index}`;
