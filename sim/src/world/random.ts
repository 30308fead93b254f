/** The one source of chance in a run: sfc32, seeded. */
export class Rng {
  #a: number;
  #b: number;
  #c: number;
  #d = 1;
  constructor(seed: number) {
    this.#a = seed >>> 0;
    this.#b = Math.imul(seed, 0x9e37_79b9) >>> 0;
    this.#c = (seed ^ 0x5bd1_e995) >>> 0;
    for (let i = 0; i < 12; i++) this.uint32();
  }
  uint32(): number {
    const t = (((this.#a + this.#b) | 0) + this.#d) | 0;
    this.#d = (this.#d + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (this.#c << 21) | (this.#c >>> 11);
    this.#c = (this.#c + t) | 0;
    return t >>> 0;
  }
  /** In [0, 1). */
  float(): number {
    return this.uint32() / 4_294_967_296;
  }
  /** Integer in [low, high]. */
  int(low: number, high: number): number {
    return low + Math.floor(this.float() * (high - low + 1));
  }
  /** Real number in [low, high). */
  between(low: number, high: number): number {
    return low + this.float() * (high - low);
  }
  chance(p: number): boolean {
    return this.float() < p;
  }
  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.float() * items.length)] as T;
  }
}
