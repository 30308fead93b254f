import { SluiceError } from "../model/index.ts";

/**
 * Zigzag varints as protobuf and Kafka write them: seven bits a byte, lowest first, the high bit says that more follow.
 * Zigzag folds the sign into the lowest bit, so that -1 is one byte.
 */
const TWO_28 = 0x1000_0000;
const TWO_56 = TWO_28 * TWO_28;
const TWO_52 = 2 ** 52;

const malformed = (what: string): SluiceError => new SluiceError("CORRUPT_BATCH", `${what} in a record`);

/** Bytes of a zigzag varint of an int32. */
export function varintBytes(v: number): number {
  const z = ((v << 1) ^ (v >> 31)) >>> 0;
  return z < 0x80 ? 1 : z < 0x4000 ? 2 : z < 0x20_0000 ? 3 : z < TWO_28 ? 4 : 5;
}
/** Bytes of a zigzag varint of an integer double within ±2^52. */
export function varlongBytes(v: number): number {
  let z = v >= 0 ? v * 2 : -v * 2 - 1;
  let n = 1;
  for (; z >= 0x80; z /= 0x80) n++;
  return n;
}
/** Writes an int32, returns the position after it. */
export function writeVarint(b: Uint8Array, at: number, v: number): number {
  let z = ((v << 1) ^ (v >> 31)) >>> 0;
  for (; z >= 0x80; z >>>= 7) b[at++] = (z & 0x7f) | 0x80;
  b[at++] = z;
  return at;
}
/** Writes an integer double within ±2^52, returns the position after it. */
export function writeVarlong(b: Uint8Array, at: number, v: number): number {
  let z = v >= 0 ? v * 2 : -v * 2 - 1;
  for (; z >= 0x80; z = Math.floor(z / 0x80)) b[at++] = (z % 0x80) | 0x80;
  b[at++] = z;
  return at;
}
export const isVarlong = (v: number): boolean => Number.isInteger(v) && v >= -TWO_52 && v < TWO_52;

/** Reads on from a position and keeps it. Every read throws CORRUPT_BATCH rather than pass the end. */
export class VarintReader {
  bytes: Uint8Array = new Uint8Array(0);
  at = 0;
  end = 0;

  /** int32; at most 5 bytes. */
  varint(): number {
    let z = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      if (this.at >= this.end) throw malformed("a cut off varint");
      const byte = this.bytes[this.at++] as number;
      if (shift === 28 && byte > 0x0f) throw malformed("a varint over 32 bits");
      z |= (byte & 0x7f) << shift;
      if (byte < 0x80) return (z >>> 1) ^ -(z & 1);
    }
    throw malformed("a varint over 32 bits");
  }

  /** int64 within ±2^52 as a double; at most 10 bytes. Others are refused: no time of this world needs them. */
  varlong(): number {
    let low = 0;
    let middle = 0;
    let high = 0;
    for (let i = 0; i < 10; i++) {
      if (this.at >= this.end) throw malformed("a cut off varint");
      const byte = this.bytes[this.at++] as number;
      if (i < 4) low |= (byte & 0x7f) << (7 * i);
      else if (i < 8) middle |= (byte & 0x7f) << (7 * (i - 4));
      else high |= (byte & 0x7f) << (7 * (i - 8));
      if (byte >= 0x80) continue;
      const z = low + middle * TWO_28 + high * TWO_56;
      if (!Number.isSafeInteger(z)) break;
      return (low & 1) === 0 ? z / 2 : -(z + 1) / 2;
    }
    throw malformed("a number out of range");
  }

  /** A length of what follows: -1 (absent) to the bytes that are left. */
  length(): number {
    const n = this.varint();
    if (n < -1 || n > this.end - this.at) throw malformed(`the length ${n} with ${this.end - this.at} bytes left`);
    return n;
  }
}
