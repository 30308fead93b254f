import type { Codecs, Crc32c, RecordHeader } from "../../src/log/index.ts";
import { BatchBuilder, codecs as numbers } from "../../src/log/index.ts";
import { isSluiceError, SluiceError } from "../../src/model/index.ts";
import type { ErrorCode } from "../../src/model/index.ts";

/** CRC32C by table, written apart from the native one so that each checks the other. */
const table = new Uint32Array(256).map((_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0x82f6_3b78 : c >>> 1;
  return c >>> 0;
});
export const crc32c: Crc32c = (bytes, seed = 0) => {
  let c = ~seed;
  for (const byte of bytes) c = (table[(c ^ byte) & 0xff] as number) ^ (c >>> 8);
  return ~c >>> 0;
};

/** Run-length coding under the number of gzip: { count uint8, byte }*. Enough to see what passes through the port. */
export const runLengthCodecs: Codecs = {
  compress(codec, bytes) {
    if (codec === numbers.none) return bytes;
    const out: number[] = [];
    for (let i = 0; i < bytes.length;) {
      let n = 1;
      while (n < 255 && i + n < bytes.length && bytes[i + n] === bytes[i]) n++;
      out.push(n, bytes[i] as number);
      i += n;
    }
    return Uint8Array.from(out);
  },
  decompress(codec, bytes, maxBytes) {
    if (codec === numbers.none) return bytes;
    let total = 0;
    for (let i = 0; i < bytes.length; i += 2) total += bytes[i] as number;
    if (bytes.length % 2 !== 0) throw new SluiceError("CORRUPT_BATCH", "odd length");
    if (total > maxBytes) throw new SluiceError("MESSAGE_TOO_LARGE", `${total} > ${maxBytes}`);
    const out = new Uint8Array(total);
    for (let i = 0, at = 0; i < bytes.length; i += 2) {
      out.fill(bytes[i + 1] as number, at, at + (bytes[i] as number));
      at += bytes[i] as number;
    }
    return out;
  },
};

export const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
export interface TestRecord {
  readonly timestampMs: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: readonly RecordHeader[];
}

/** A stamped batch of `count` small records. */
export function batch(baseOffset: number, count = 1, epoch = 1, timestampMs = 1000 + baseOffset, valueBytes = 8): Uint8Array {
  const builder = new BatchBuilder({ crc32c, codecs: runLengthCodecs, bytesMax: 1 << 23 });
  for (let i = 0; i < count; i++) builder.tryAppend(timestampMs + i, null, new Uint8Array(valueBytes).fill(i));
  return builder.close({ baseOffset, partitionLeaderEpoch: epoch });
}
export function join(parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, p) => sum + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

/** The code of the SluiceError that `fn` throws; undefined when it returns. Anything else that is thrown fails the test. */
export function codeThrown(fn: () => unknown): ErrorCode | undefined {
  try {
    fn();
  } catch (error) {
    if (isSluiceError(error)) return error.code;
    throw error;
  }
  return undefined;
}
