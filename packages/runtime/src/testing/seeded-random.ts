import type { Random } from "../random.ts";

const rotl = (x: number, k: number): number => (x << k) | (x >>> (32 - k));

/**
 * Randomness that a seed repeats: xoshiro128** (Blackman and Vigna, 2018), its four words filled by splitmix32 of the seed.
 * The sequence of a seed is part of the contract: recorded seeds of found faults must stay replayable.
 */
export class SeededRandom implements Random {
  readonly seed: number;
  readonly #s = new Int32Array(4);

  constructor(seed: number) {
    this.seed = seed >>> 0;
    let state = this.seed;
    for (let i = 0; i < 4; i++) {
      state = (state + 0x9e3779b9) | 0;
      let z = state ^ (state >>> 16);
      z = Math.imul(z, 0x21f0aaad);
      z ^= z >>> 15;
      z = Math.imul(z, 0x735a2d97);
      this.#s[i] = z ^ (z >>> 15);
    }
  }
  /** The next 32 bits, unsigned. */
  next(): number {
    const s = this.#s as unknown as [number, number, number, number];
    const result = Math.imul(rotl(Math.imul(s[1], 5), 7), 9);
    const t = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 11);
    return result >>> 0;
  }
  /** 53 bits of it. */
  float(): number {
    return ((this.next() >>> 5) * 67_108_864 + (this.next() >>> 6)) / 9_007_199_254_740_992;
  }
  int(below: number): number {
    if (!(below > 0)) throw new RangeError(`int(${below}): the bound must be above 0`);
    return Math.floor(this.float() * below);
  }
  bytes(length: number): Uint8Array {
    const out = new Uint8Array(length);
    // Four bytes of each draw, lowest first.
    for (let i = 0, word = 0; i < length; i++) {
      word = i % 4 === 0 ? this.next() : word >>> 8;
      out[i] = word & 0xff;
    }
    return out;
  }
  /** Version 4 in form. */
  uuid(): string {
    const b = this.bytes(16);
    b[6] = (b[6]! & 0x0f) | 0x40;
    b[8] = (b[8]! & 0x3f) | 0x80;
    const hex = Array.from(b, (x) => x.toString(16).padStart(2, "0")).join("");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }
  /** An independent stream, so that one consumer's draws do not shift another's. */
  fork(): SeededRandom {
    return new SeededRandom(this.next());
  }
}
