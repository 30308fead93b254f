import { SluiceError } from "@sluice/core/model";

/**
 * The little of protobuf that the hot messages need, read and written by hand: int64 become doubles instead of BigInt, bytes become views.
 *
 *   message = field*      field = tag varint (number << 3 | type), then type 0: varint, 1: 8 bytes, 2: length varint and bytes, 5: 4 bytes
 */
const VARINT = 0;
const BYTES = 2;
const FIXED64 = 1;
const FIXED32 = 5;
const TWO_32 = 4294967296;
const utf8 = new TextDecoder();

export class FieldReader {
  readonly #bytes: Uint8Array;
  #at = 0;
  /** Of the field that `next` found. */
  field = 0;
  type = 0;
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }
  /** Moves to the next field, whose content must then be read or skipped. False = end of the message. */
  next(): boolean {
    if (this.#at >= this.#bytes.length) return false;
    const tag = this.number();
    this.field = Math.floor(tag / 8);
    this.type = tag % 8;
    return true;
  }
  /** int32, int64, uint32, bool: exact within ±2^53. */
  number(): number {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) throw malformed();
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >>> 4;
      } else if (shift < 63) high |= bits << (shift - 32);
      else high |= (bits & 1) << 31;
      if (byte < 0x80) return high * TWO_32 + (low >>> 0);
    }
    throw malformed();
  }
  /** A view. */
  bytes(): Uint8Array {
    const length = this.number();
    const from = this.#at;
    if (length < 0 || length > this.#bytes.length - from) throw malformed();
    this.#at = from + length;
    return this.#bytes.subarray(from, this.#at);
  }
  text(): string {
    return utf8.decode(this.bytes());
  }
  skip(): void {
    if (this.type === VARINT) this.number();
    else if (this.type === BYTES) this.bytes();
    else if (this.type === FIXED64) this.#at += 8;
    else if (this.type === FIXED32) this.#at += 4;
    else throw malformed();
    if (this.#at > this.#bytes.length) throw malformed();
  }
}
const malformed = (): SluiceError => new SluiceError("MALFORMED_FRAME", "the message does not follow protobuf's format");

/** A varint field: non-negative integers up to 2^53 - 1. Returns the position after it. */
export function writeNumber(b: Uint8Array, at: number, field: number, value: number): number {
  return writeVarint(b, writeVarint(b, at, field * 8 + VARINT), value);
}
/** Tag and length of a bytes field; the bytes follow. */
export function writeBytesHead(b: Uint8Array, at: number, field: number, length: number): number {
  return writeVarint(b, writeVarint(b, at, field * 8 + BYTES), length);
}
function writeVarint(b: Uint8Array, at: number, value: number): number {
  let v = value;
  while (v >= 0x80) {
    b[at++] = (v % 0x80) | 0x80;
    v = Math.floor(v / 0x80);
  }
  b[at++] = v;
  return at;
}
