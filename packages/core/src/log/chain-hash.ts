import { SluiceError } from "../model/index.ts";

/**
 * Running hash over (stamped base offset, epoch, CRC) of the batches of a segment, in order. The CRC of a batch covers neither its offset nor its epoch, so
 * two copies with equal CRCs may still differ: they agree when this hash does. 64 bits in two uint32 lanes, because a BigInt per batch is garbage:
 *
 *   for each of the words  offset low, offset high, epoch, crc:
 *     a ^= rotl(word * C1, 15) * C2;  a = (rotl(a, 19) + b) * 5 + K1
 *     b ^= rotl(word * C2, 16) * C3;  b = (rotl(b, 17) + a) * 5 + K2
 *
 * (all modulo 2^32; the mixing step of MurmurHash3 with two lanes that feed each other). For a given word each step is a bijection of the state, so a
 * difference between two states never dies out, and there is no final step: the value *is* the state, so a hash can be stored, loaded and
 * extended. It finds accidents, not forgeries. The algorithm is part of the format: never change it.
 */
const SEED_A = 0x243f_6a88;
const SEED_B = 0x85a3_08d3;
const C1 = 0x239b_961b;
const C2 = 0xab0e_9789;
const C3 = 0x38b3_4ae5;
const K1 = 0x561c_cd1b;
const K2 = 0x0bca_a747;
const TWO_32 = 4294967296;

const rotl = (x: number, n: number): number => (x << n) | (x >>> (32 - n));
const HEX16 = /^[0-9a-f]{16}$/;

export class ChainHash {
  #a = SEED_A;
  #b = SEED_B;

  /** Adds the next batch: in place, returns itself. */
  add(baseOffset: number, epoch: number, crc: number): this {
    const high = Math.floor(baseOffset / TWO_32);
    this.#word((baseOffset - high * TWO_32) | 0);
    this.#word(high | 0);
    this.#word(epoch | 0);
    this.#word(crc | 0);
    return this;
  }
  #word(w: number): void {
    let a = this.#a ^ Math.imul(rotl(Math.imul(w, C1), 15), C2);
    a = (Math.imul(rotl(a, 19) + this.#b, 5) + K1) | 0;
    const b = this.#b ^ Math.imul(rotl(Math.imul(w, C2), 16), C3);
    this.#b = (Math.imul(rotl(b, 17) + a, 5) + K2) | 0;
    this.#a = a;
  }
  /** 16 hex digits. */
  hex(): string {
    return (this.#a >>> 0).toString(16).padStart(8, "0") + (this.#b >>> 0).toString(16).padStart(8, "0");
  }
  /** The two lanes as uint32, for fixed layouts. */
  get high(): number {
    return this.#a >>> 0;
  }
  get low(): number {
    return this.#b >>> 0;
  }
  equals(other: ChainHash): boolean {
    return this.#a === other.#a && this.#b === other.#b;
  }
  clone(): ChainHash {
    return new ChainHash().copy(this);
  }
  copy(from: ChainHash): this {
    this.#a = from.#a;
    this.#b = from.#b;
    return this;
  }
  /** Back to the hash of no batch. */
  reset(): this {
    this.#a = SEED_A;
    this.#b = SEED_B;
    return this;
  }
  static fromLanes(high: number, low: number): ChainHash {
    const hash = new ChainHash();
    hash.#a = high | 0;
    hash.#b = low | 0;
    return hash;
  }
  /** Throws INVALID_ARGUMENT unless `text` is 16 lower-case hex digits. */
  static fromHex(text: string): ChainHash {
    if (!HEX16.test(text)) throw new SluiceError("INVALID_ARGUMENT", `not a chain hash: ${JSON.stringify(text.slice(0, 32))}`);
    return ChainHash.fromLanes(Number.parseInt(text.slice(0, 8), 16), Number.parseInt(text.slice(8), 16));
  }
}
/** Hash of an empty segment. */
export const EMPTY_CHAIN_HASH = new ChainHash().hex();
