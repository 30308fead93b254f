import { SluiceError } from "@sluice/core/model";

/** Wire types of protobuf: a field is `tag = number << 3 | type`, then its value. */
export const wireTypes = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

const malformed = (what: string): SluiceError => new SluiceError("INVALID_ARGUMENT", `not a valid message: ${what}`);

/** Reads the fields of one message one after the other; every step checks bounds. Payloads are views. */
export class ProtobufReader {
  readonly bytes: Uint8Array;
  at: number;
  readonly end: number;
  /** Of the current field. */
  field = 0;
  type = 0;

  constructor(bytes: Uint8Array, at = 0, end: number = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }
  /** Moves to the next field; false at the end. */
  next(): boolean {
    if (this.at >= this.end) return false;
    const tag = this.uint32();
    this.field = tag >>> 3;
    this.type = tag & 7;
    if (this.field === 0) throw malformed("field number 0");
    return true;
  }
  /** A varint of up to 64 bits, its lower 32 bits. */
  uint32(): number {
    const { bytes, end } = this;
    let value = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.at >= end) throw malformed("a number is cut off");
      const byte = bytes[this.at++] as number;
      if (shift < 32) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
    throw malformed("a number of more than ten bytes");
  }
  int32(): number {
    return this.uint32() | 0;
  }
  /** A double; throws when it is not a safe integer. */
  int64(): number {
    const { bytes, end } = this;
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.at >= end) throw malformed("a number is cut off");
      const byte = bytes[this.at++] as number;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high |= bits >>> 4;
      } else high |= bits << (shift - 32);
      if (byte < 0x80) {
        const value = (high | 0) * 4_294_967_296 + (low >>> 0);
        if (!Number.isSafeInteger(value)) throw malformed("a number of more than 53 bits");
        return value;
      }
    }
    throw malformed("a number of more than ten bytes");
  }
  view(): Uint8Array {
    const length = this.uint32();
    if (length > this.end - this.at) throw malformed("a field is cut off");
    const from = this.at;
    this.at += length;
    return this.bytes.subarray(from, this.at);
  }
  /** Expects the type, so that a field of another one is told from garbage. */
  expect(type: number): void {
    if (this.type !== type) throw malformed(`field ${this.field} has wire type ${this.type}`);
  }
  /** Passes over a field that this version does not know. */
  skip(): void {
    switch (this.type) {
      case wireTypes.varint:
        this.uint32();
        return;
      case wireTypes.fixed64:
        this.#pass(8);
        return;
      case wireTypes.bytes:
        this.view();
        return;
      case wireTypes.fixed32:
        this.#pass(4);
        return;
      default:
        throw malformed(`wire type ${this.type}`);
    }
  }
  #pass(bytes: number): void {
    if (bytes > this.end - this.at) throw malformed("a field is cut off");
    this.at += bytes;
  }
}

const utf8 = new TextEncoder();
const FIRST_BYTES = 128;
/** Places kept for the length of a nested message; a message shorter than 2^28 bytes is moved up when it needs fewer. */
const LENGTH_BYTES = 4;

/** Writes the fields of one message. Zero and empty values are left out, as proto3 does, unless the method says otherwise. */
export class ProtobufWriter {
  #bytes = new Uint8Array(FIRST_BYTES);
  #at = 0;

  get length(): number {
    return this.#at;
  }
  finish(): Uint8Array {
    return this.#bytes.subarray(0, this.#at);
  }
  tag(field: number, type: number): void {
    this.varint((field << 3) | type);
  }
  uint32(field: number, value: number): void {
    if (value === 0) return;
    this.tag(field, wireTypes.varint);
    this.varint(value);
  }
  bool(field: number, value: boolean): void {
    this.uint32(field, value ? 1 : 0);
  }
  /** Also int32: negative numbers take ten bytes. */
  int64(field: number, value: number): void {
    if (value === 0) return;
    this.tag(field, wireTypes.varint);
    this.varint(value);
  }
  string(field: number, value: string): void {
    if (value !== "") this.bytes(field, utf8.encode(value));
  }
  /** Also when it is empty. */
  bytes(field: number, value: Uint8Array): void {
    this.tag(field, wireTypes.bytes);
    this.varint(value.length);
    this.#reserve(value.length);
    this.#bytes.set(value, this.#at);
    this.#at += value.length;
  }
  /** A nested message: everything written until `end(begin(...))`. */
  begin(field: number): number {
    this.tag(field, wireTypes.bytes);
    this.#reserve(LENGTH_BYTES);
    this.#at += LENGTH_BYTES;
    return this.#at;
  }
  end(from: number): void {
    const length = this.#at - from;
    const to = from - LENGTH_BYTES;
    this.#at = to;
    this.varint(length);
    if (this.#at < from) this.#bytes.copyWithin(this.#at, from, from + length);
    this.#at += length;
  }
  varint(value: number): void {
    this.#reserve(10);
    const b = this.#bytes;
    if (value >= 0 && value < 0x8000_0000) {
      let v = value;
      while (v >= 0x80) {
        b[this.#at++] = (v & 0x7f) | 0x80;
        v >>>= 7;
      }
      b[this.#at++] = v;
      return;
    }
    let low = value >>> 0;
    let high = Math.floor(value / 4_294_967_296) >>> 0;
    while (high !== 0 || low >= 0x80) {
      b[this.#at++] = (low & 0x7f) | 0x80;
      low = ((low >>> 7) | (high << 25)) >>> 0;
      high >>>= 7;
    }
    b[this.#at++] = low;
  }
  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#bytes.length * 2, this.#at + bytes));
    // All of it: a nested message that is being closed lies behind the position.
    grown.set(this.#bytes);
    this.#bytes = grown;
  }
}
