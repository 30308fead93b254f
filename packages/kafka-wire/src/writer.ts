import { WireError } from "./error.ts";
import { utf8Bytes, writeUtf8 } from "./utf8.ts";
import { UUID_BYTES, writeUuid } from "./uuid.ts";

const FIRST_BYTES = 512;
/** Byte fields from this size on are handed on as they are, smaller ones are copied: a chunk costs more than that. */
const CHUNK_BYTES_MIN = 1_024;
const STRING_BYTES_MAX = 0x7fff;

/**
 * Primitives of the protocol into a list of chunks: what is small goes into buffers of this writer, large byte fields stay where they are.
 *
 *   [frame length, header, fields ...] [records of partition 0] [fields ...] [records of partition 1] [fields ...]
 *     own buffer                         the caller's bytes       own buffer
 */
export class Writer {
  readonly #chunks: Uint8Array[] = [];
  #buffer: Uint8Array;
  #view: DataView;
  /** Start of what is not in a chunk yet. */
  #from = 0;
  #at = 0;
  #chunkBytes = 0;

  constructor(sizeHint = FIRST_BYTES) {
    this.#buffer = new Uint8Array(sizeHint);
    this.#view = new DataView(this.#buffer.buffer);
  }
  /** Bytes written. */
  get length(): number {
    return this.#chunkBytes + this.#at - this.#from;
  }
  /** All that was written, in order. The writer is not used any more after this. */
  finish(): Uint8Array[] {
    this.#cut();
    return this.#chunks;
  }
  /** The same as one buffer: for tests, and for parts whose length has to be written first. */
  toBytes(): Uint8Array {
    const chunks = this.finish();
    if (chunks.length === 1) return chunks[0] as Uint8Array;
    const out = new Uint8Array(this.length);
    let at = 0;
    for (const chunk of chunks) {
      out.set(chunk, at);
      at += chunk.length;
    }
    return out;
  }
  /** Puts the number of bytes behind the first four into them: the length of a frame. Call it last, before `finish`. */
  setFrameLength(): void {
    const first = this.#chunks[0] ?? this.#buffer;
    new DataView(first.buffer, first.byteOffset).setInt32(0, this.length - 4);
  }

  int8(value: number): void {
    const at = this.#take(1);
    this.#view.setInt8(at, value);
  }
  int16(value: number): void {
    const at = this.#take(2);
    this.#view.setInt16(at, value);
  }
  int32(value: number): void {
    const at = this.#take(4);
    this.#view.setInt32(at, value);
  }
  int64(value: number): void {
    if (!Number.isInteger(value)) throw new RangeError(`${value} is no int64`);
    const at = this.#take(8);
    this.#view.setInt32(at, Math.floor(value / 0x1_0000_0000));
    this.#view.setUint32(at + 4, value >>> 0);
  }
  float64(value: number): void {
    const at = this.#take(8);
    this.#view.setFloat64(at, value);
  }
  uuid(text: string): void {
    const at = this.#take(UUID_BYTES);
    if (!writeUuid(this.#buffer, at, text)) throw new RangeError("not a uuid");
  }
  uvarint(value: number): void {
    let left = value;
    let at = this.#take(1);
    while (left >= 0x80) {
      this.#buffer[at] = (left % 0x80) | 0x80;
      left = Math.floor(left / 0x80);
      at = this.#take(1);
    }
    this.#buffer[at] = left;
  }
  /** Null = -1, respectively 0 when compact. */
  string(text: string | null, compact: boolean): void {
    if (text === null) return compact ? this.uvarint(0) : this.int16(-1);
    const bytes = utf8Bytes(text);
    if (bytes > STRING_BYTES_MAX) throw new WireError("TOO_LARGE", `a string of ${bytes} bytes`);
    if (compact) this.uvarint(bytes + 1);
    else this.int16(bytes);
    const at = this.#take(bytes);
    writeUtf8(this.#buffer, at, text);
  }
  /** One piece, or several that follow one another. */
  byteField(data: Uint8Array | readonly Uint8Array[] | null, compact: boolean): void {
    if (data === null) return compact ? this.uvarint(0) : this.int32(-1);
    const pieces = Array.isArray(data) ? (data as readonly Uint8Array[]) : [data as Uint8Array];
    let bytes = 0;
    for (const piece of pieces) bytes += piece.length;
    if (compact) this.uvarint(bytes + 1);
    else this.int32(bytes);
    for (const piece of pieces) this.raw(piece);
  }
  arrayLength(count: number, compact: boolean): void {
    if (compact) this.uvarint(count + 1);
    else this.int32(count);
  }
  raw(data: Uint8Array): void {
    if (data.length < CHUNK_BYTES_MIN) {
      const at = this.#take(data.length);
      this.#buffer.set(data, at);
      return;
    }
    this.#cut();
    this.#chunks.push(data);
    this.#chunkBytes += data.length;
  }

  #cut(): void {
    if (this.#at === this.#from) return;
    this.#chunks.push(this.#buffer.subarray(this.#from, this.#at));
    this.#chunkBytes += this.#at - this.#from;
    this.#from = this.#at;
  }
  /** Position of `bytes` free bytes. Ask for it before naming the buffer: this may make a new one. */
  #take(bytes: number): number {
    if (this.#at + bytes > this.#buffer.length) this.#grow(bytes);
    const at = this.#at;
    this.#at += bytes;
    return at;
  }
  /** What is in chunks stays in the old buffer; only the rest moves. */
  #grow(bytes: number): void {
    const rest = this.#at - this.#from;
    const buffer = new Uint8Array(Math.max(2 * this.#buffer.length, rest + bytes));
    buffer.set(this.#buffer.subarray(this.#from, this.#at));
    this.#buffer = buffer;
    this.#view = new DataView(buffer.buffer);
    this.#from = 0;
    this.#at = rest;
  }
}
