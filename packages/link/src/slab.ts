import { limits } from "@sluice/core/model";
import { noteBufferAllocated } from "@sluice/runtime/buffer-gc";

/** Free slabs that are kept, in bytes, for the whole process. */
const POOL_BYTES_MAX = 64 * limits.slabBytes;
const FREED = 0xdb;

/**
 * Memory that frames are read into. Payloads are views of it. It is written again only when nobody can see it any more:
 *
 *   reader fills it ─► retired (full) ─► all its payloads claimed, and every claim released ─► pool ─► reader fills it again
 *                                   └──► a payload was given out without a claim: left to the garbage collector
 *
 * So a receiver that knows nothing of claims may keep its payloads for ever, and one that claims (the hot paths) costs the collector nothing:
 * fresh slabs at hundreds of MB/s made V8 mark the whole heap again and again (see runtime/buffer-gc).
 */
export class Slab {
  readonly buffer: Buffer;
  readonly view: DataView;
  readonly #pool: SlabPool;
  #claims = 0;
  #retired = false;
  #unclaimed = false;

  constructor(bytes: number, pool: SlabPool) {
    this.buffer = Buffer.allocUnsafeSlow(bytes);
    this.view = new DataView(this.buffer.buffer, this.buffer.byteOffset, this.buffer.byteLength);
    this.#pool = pool;
  }
  /** A payload went to somebody who did not claim it: this memory is never written again. */
  leave(): void {
    this.#unclaimed = true;
  }
  claim(): PayloadHold {
    this.#claims++;
    return new PayloadHold(this);
  }
  unclaim(): void {
    this.#claims--;
    this.#giveBack();
  }
  /** The reader has gone on to another slab. */
  retire(): void {
    this.#retired = true;
    this.#giveBack();
  }
  #giveBack(): void {
    if (!this.#retired || this.#claims > 0 || this.#unclaimed) return;
    this.#retired = false;
    this.#pool.put(this);
  }
}

/** Keeps memory from being written again: each `retain` needs a `release`. */
export interface Hold {
  retain(): void;
  release(): void;
}

/**
 * A claim on one payload, counted: each `retain` needs a `release`, and after the last one the bytes must not be read or written. A hold that is
 * dropped instead leaves its slab to the garbage collector, which is always safe.
 */
export class PayloadHold implements Hold {
  readonly #slab: Slab | undefined;
  #count = 1;
  constructor(slab: Slab | undefined) {
    this.#slab = slab;
  }
  retain(): void {
    if (this.#count <= 0) throw new Error("a payload was retained after its last release");
    this.#count++;
  }
  release(): void {
    if (this.#count <= 0) throw new Error("a payload was released more often than retained");
    if (--this.#count === 0) this.#slab?.unclaim();
  }
}

/** Free slabs by size. */
export class SlabPool {
  readonly #free = new Map<number, Slab[]>();
  #freeBytes = 0;
  #poison = false;

  get freeBytes(): number {
    return this.#freeBytes;
  }
  /** For tests: freed memory is overwritten, so that whoever still uses it fails its checksums. */
  poisonFreed(): void {
    this.#poison = true;
  }
  take(bytes: number): Slab {
    const slab = this.#free.get(bytes)?.pop();
    if (slab !== undefined) {
      this.#freeBytes -= bytes;
      return slab;
    }
    noteBufferAllocated(bytes);
    return new Slab(bytes, this);
  }
  put(slab: Slab): void {
    const bytes = slab.buffer.length;
    if (this.#poison) slab.buffer.fill(FREED);
    if (bytes < limits.slabBytes || this.#freeBytes + bytes > POOL_BYTES_MAX) return;
    this.#freeBytes += bytes;
    const free = this.#free.get(bytes);
    if (free === undefined) this.#free.set(bytes, [slab]);
    else free.push(slab);
  }
}

/** Of the process: its links give slabs to each other. */
export const slabPool = new SlabPool();
