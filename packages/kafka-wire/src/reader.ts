import { WireError } from "./error.ts";
import { readUtf8 } from "./utf8.ts";
import { readUuid, UUID_BYTES } from "./uuid.ts";

/**
 * Primitives of the protocol, big-endian, out of one buffer. Every length is checked against the bytes that are there before anything is
 * allocated; bytes come out as views.
 */
export class Reader {
  readonly bytes: Uint8Array;
  at: number;
  readonly end: number;
  /** Elements of arrays that may still be read: what a small frame can cost in objects. */
  elementsLeft: number;
  readonly #view: DataView;

  constructor(bytes: Uint8Array, at: number, end: number, elementsMax: number) {
    if (at < 0 || end > bytes.length || at > end) throw new RangeError(`[${at}, ${end}) of ${bytes.length} bytes`);
    this.bytes = bytes;
    this.at = at;
    this.end = end;
    this.elementsLeft = elementsMax;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
  get left(): number {
    return this.end - this.at;
  }

  int8(): number {
    return this.#view.getInt8(this.#take(1));
  }
  int16(): number {
    return this.#view.getInt16(this.#take(2));
  }
  uint16(): number {
    return this.#view.getUint16(this.#take(2));
  }
  int32(): number {
    return this.#view.getInt32(this.#take(4));
  }
  uint32(): number {
    return this.#view.getUint32(this.#take(4));
  }
  /** As a double: exact to 2^53, rounded beyond. */
  int64(): number {
    const at = this.#take(8);
    return this.#view.getInt32(at) * 0x1_0000_0000 + this.#view.getUint32(at + 4);
  }
  float64(): number {
    return this.#view.getFloat64(this.#take(8));
  }
  uuid(): string {
    return readUuid(this.bytes, this.#take(UUID_BYTES));
  }
  uvarint(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.bytes[this.#take(1)] as number;
      // The fifth byte holds four bits.
      if (shift === 28 && byte > 0x0f) break;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    throw new WireError("MALFORMED", `a variable-length integer of more than 32 bits at byte ${this.at}`);
  }

  /** Length of a string: -1 = null. */
  stringLength(compact: boolean): number {
    return this.#length(compact ? this.uvarint() - 1 : this.int16());
  }
  /** Length of bytes: -1 = null. */
  bytesLength(compact: boolean): number {
    return this.#length(compact ? this.uvarint() - 1 : this.int32());
  }
  /** Number of elements, of at least `elementBytesMin` bytes each: -1 = null. */
  arrayLength(compact: boolean, elementBytesMin: number): number {
    const count = compact ? this.uvarint() - 1 : this.int32();
    if (count < -1 || count * elementBytesMin > this.left)
      throw new WireError("MALFORMED", `an array of ${count} elements with ${this.left} bytes left`);
    if (count > this.elementsLeft) throw new WireError("TOO_LARGE", "the message has too many array elements");
    if (count > 0) this.elementsLeft -= count;
    return count;
  }
  text(length: number): string {
    const at = this.#take(length);
    return readUtf8(this.bytes, at, at + length);
  }
  /** A view, not a copy. */
  slice(length: number): Uint8Array {
    const at = this.#take(length);
    return this.bytes.subarray(at, at + length);
  }
  skip(length: number): void {
    this.#take(length);
  }

  #length(length: number): number {
    if (length < -1 || length > this.left) throw new WireError("MALFORMED", `a length of ${length} with ${this.left} bytes left`);
    return length;
  }
  #take(length: number): number {
    const at = this.at;
    if (length > this.end - at) throw new WireError("MALFORMED", `${length} bytes wanted, ${this.end - at} left`);
    this.at = at + length;
    return at;
  }
}
