import { limits } from "@sluice/core/model";
import type { Metrics } from "@sluice/runtime";
import { allocateBuffer } from "@sluice/runtime/buffer-gc";

/** Free slabs that are kept, in bytes, for the whole process. */
const POOL_BYTES_MAX = 64 * limits.slabBytes;
/** Slabs between these two sizes, and of a power of two: others would hardly be asked for again and only fill the pool. */
const POOLED_BYTES_MAX = 4 * limits.slabBytes;
const isPooled = (bytes: number): boolean => bytes >= limits.slabBytes && bytes <= POOLED_BYTES_MAX && (bytes & (bytes - 1)) === 0;
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
    this.buffer = allocateBuffer(bytes);
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

/** Totals of a pool since the process began. Slabs that were made and neither reused nor lie free are in use, or were left to the collector. */
export interface SlabCounts {
  made: number;
  reused: number;
  /** Given back, and no room in the pool, or of a size that is not kept. */
  dropped: number;
}

/** Free slabs by size. */
export class SlabPool {
  readonly counts: SlabCounts = { made: 0, reused: 0, dropped: 0 };
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
      this.counts.reused++;
      return slab;
    }
    this.counts.made++;
    return new Slab(bytes, this);
  }
  put(slab: Slab): void {
    const bytes = slab.buffer.length;
    if (this.#poison) slab.buffer.fill(FREED);
    if (!isPooled(bytes) || this.#freeBytes + bytes > POOL_BYTES_MAX) {
      this.counts.dropped++;
      return;
    }
    this.#freeBytes += bytes;
    const free = this.#free.get(bytes);
    if (free === undefined) this.#free.set(bytes, [slab]);
    else free.push(slab);
  }
}

/** Of the process: its links, and what else reads so, give slabs to each other. */
export const slabPool = new SlabPool();

/** Figures of the process's pool as `sluice_<service>_link_slab_...`. */
export function meterSlabs(metrics: Metrics, service: string): void {
  const name = `sluice_${service}_link_slab`;
  metrics.gauge(`${name}_free_bytes`, "Memory of links and journal reads that waits to be read into again.", {
    collect: () => slabPool.freeBytes,
  });
  metrics.gauge(`${name}_made_count`, "Slabs made since the start; rising under steady load = payloads are not released.", {
    collect: () => slabPool.counts.made,
  });
  metrics.gauge(`${name}_reused_count`, "Times that a slab was used again.", { collect: () => slabPool.counts.reused });
  metrics.gauge(`${name}_dropped_count`, "Slabs given back that the pool had no room for.", { collect: () => slabPool.counts.dropped });
}
