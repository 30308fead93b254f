import { readInt16, readInt32, readInt64, readUint32, writeInt16, writeInt32, writeInt64 } from "../log/bytes.ts";
import { limits, readUtf8, SluiceError, utf8Bytes, writeUtf8 } from "../model/index.ts";

/**
 * Fields of the records of a group shard, one after the other, big-endian:
 *
 *   text    1 length, UTF-8                      bytes   4 length, bytes
 *   longer  2 length, UTF-8                      list    4 count, entries
 */
const FIRST_BYTES = 256;
export class FieldWriter {
  #bytes = new Uint8Array(FIRST_BYTES);
  #at = 0;

  uint8(n: number): this {
    this.#room(1)[this.#at] = n;
    this.#at += 1;
    return this;
  }
  int32(n: number): this {
    writeInt32(this.#room(4), this.#at, n);
    this.#at += 4;
    return this;
  }
  int64(n: number): this {
    writeInt64(this.#room(8), this.#at, n);
    this.#at += 8;
    return this;
  }
  text(s: string): this {
    const length = utf8Bytes(s);
    if (length > limits.groupTextBytesMax)
      throw new SluiceError("INVALID_ARGUMENT", `a text of ${length} bytes, the limit is ${limits.groupTextBytesMax}`);
    this.uint8(length);
    this.#at = writeUtf8(this.#room(length), this.#at, s);
    return this;
  }
  longer(s: string): this {
    const length = utf8Bytes(s);
    if (length > 0xffff) throw new SluiceError("INVALID_ARGUMENT", `a text of ${length} bytes, the limit is 65535`);
    writeInt16(this.#room(2), this.#at, length);
    this.#at += 2;
    this.#at = writeUtf8(this.#room(length), this.#at, s);
    return this;
  }
  bytes(b: Uint8Array): this {
    this.int32(b.length);
    this.#room(b.length).set(b, this.#at);
    this.#at += b.length;
    return this;
  }
  list<T>(entries: readonly T[], write: (entry: T) => void): this {
    this.int32(entries.length);
    for (const entry of entries) write(entry);
    return this;
  }
  done(): Uint8Array {
    return this.#bytes.slice(0, this.#at);
  }
  #room(length: number): Uint8Array {
    if (this.#at + length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.#at + length));
      larger.set(this.#bytes.subarray(0, this.#at));
      this.#bytes = larger;
    }
    return this.#bytes;
  }
}

/** Reads one field after the other; every read is checked against the end. Throws CORRUPT_BATCH, UNSUPPORTED_FORMAT. */
export class FieldReader {
  readonly #bytes: Uint8Array;
  readonly #what: string;
  #at = 0;
  constructor(bytes: Uint8Array, what: string) {
    this.#bytes = bytes;
    this.#what = what;
  }
  version(known: number): void {
    const version = this.uint8();
    if (version !== known) throw new SluiceError("UNSUPPORTED_FORMAT", `${this.#what} has version ${version}, this one knows ${known}`);
  }
  uint8(): number {
    return this.#bytes[this.#take(1)] as number;
  }
  uint32(): number {
    return readUint32(this.#bytes, this.#take(4));
  }
  int32(): number {
    return readInt32(this.#bytes, this.#take(4));
  }
  /** At least `min`, and exact as a double. */
  int64(min: number): number {
    const n = readInt64(this.#bytes, this.#take(8));
    if (!Number.isSafeInteger(n) || n < min) throw malformed(this.#what);
    return n;
  }
  /** Copied: what is kept must not hold on to a block of the log. */
  bytes(): Uint8Array {
    return this.#slice(this.uint32());
  }
  bytes16(): Uint8Array {
    return this.#slice(readInt16(this.#bytes, this.#take(2)) & 0xffff);
  }
  text(): string {
    return this.#text(this.uint8());
  }
  longer(): string {
    return this.#text(readInt16(this.#bytes, this.#take(2)) & 0xffff);
  }
  /** `bytesMin`: the least that one entry takes, so that a false count is found before anything is made for it. */
  list<T>(bytesMin: number, read: () => T): T[] {
    const count = this.uint32();
    if (count * bytesMin > this.#bytes.length - this.#at) throw malformed(this.#what);
    const out: T[] = [];
    for (let i = 0; i < count; i++) out.push(read());
    return out;
  }
  end(): void {
    if (this.#at !== this.#bytes.length) throw malformed(this.#what);
  }
  #take(length: number): number {
    const at = this.#at;
    if (at + length > this.#bytes.length) throw malformed(this.#what);
    this.#at += length;
    return at;
  }
  #slice(length: number): Uint8Array {
    const at = this.#take(length);
    return this.#bytes.slice(at, at + length);
  }
  #text(length: number): string {
    const s = readUtf8(this.#bytes, this.#take(length), length);
    if (s === undefined) throw malformed(this.#what);
    return s;
  }
}
export const malformed = (what: string): SluiceError => new SluiceError("CORRUPT_BATCH", `${what} of a group shard is malformed`);
