import { epoch, SluiceError, topicId } from "../model/index.ts";
import type { PartitionId, SegmentId } from "../model/index.ts";
import { readAscii, viewOf, writeAscii } from "./format.ts";

/** Bodies of journal entries: fields one after the other, little-endian; text is u8 length and ASCII, bytes and lists begin with a u32 count. */
/** Writes bodies; grows as needed. One per encoder: the result of `take` is a copy. */
export class BodyWriter {
  #bytes = new Uint8Array(1024);
  #view = viewOf(this.#bytes);
  #at = 0;
  #room(n: number): void {
    if (this.#at + n <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#bytes.length * 2, this.#at + n));
    grown.set(this.#bytes.subarray(0, this.#at));
    this.#bytes = grown;
    this.#view = viewOf(grown);
  }
  u8(n: number): void {
    this.#room(1);
    this.#bytes[this.#at++] = n;
  }
  u32(n: number): void {
    this.#room(4);
    this.#view.setUint32(this.#at, n, true);
    this.#at += 4;
  }
  f64(n: number): void {
    this.#room(8);
    this.#view.setFloat64(this.#at, n, true);
    this.#at += 8;
  }
  text(s: string): void {
    this.#room(s.length + 1);
    this.#at = writeAscii(this.#bytes, this.#at, s);
  }
  blob(b: Uint8Array): void {
    this.u32(b.length);
    this.#room(b.length);
    this.#bytes.set(b, this.#at);
    this.#at += b.length;
  }
  floats(values: Float64Array): void {
    this.u32(values.length);
    for (const v of values) this.f64(v);
  }
  address(p: PartitionId, s: SegmentId): void {
    this.text(p.topicId);
    this.u32(p.partition);
    this.u32(s.epoch);
    this.u32(s.k);
  }
  take(): Uint8Array {
    const out = this.#bytes.slice(0, this.#at);
    this.#at = 0;
    return out;
  }
}

/** Reads bodies. Their CRC was right, so what does not fit is a fault of the writer: MALFORMED_FRAME. */
export class BodyReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = viewOf(bytes);
  }
  #take(n: number): number {
    const at = this.#at;
    if (at + n > this.#bytes.length) throw new SluiceError("MALFORMED_FRAME", "journal entry: the body is too short");
    this.#at = at + n;
    return at;
  }
  u8(): number {
    return this.#view.getUint8(this.#take(1));
  }
  u32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }
  f64(): number {
    return this.#view.getFloat64(this.#take(8), true);
  }
  text(): string {
    const at = this.#take(1);
    const { text, end } = readAscii(this.#bytes, at);
    this.#take(end - at - 1);
    return text;
  }
  blob(): Uint8Array {
    const n = this.u32();
    const at = this.#take(n);
    return this.#bytes.slice(at, at + n);
  }
  floats(): Float64Array {
    const n = this.u32();
    const at = this.#take(n * 8);
    const out = new Float64Array(n);
    for (let i = 0; i < n; i++) out[i] = this.#view.getFloat64(at + i * 8, true);
    return out;
  }
  partition(): PartitionId {
    return { topicId: topicId(this.text()), partition: this.u32() };
  }
  segment(): SegmentId {
    return { epoch: epoch(this.u32()), k: this.u32() };
  }
}
