import { readFileSync } from "node:fs";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, jest, test } from "@jest/globals";
import { codecs, decodeRecords, parseBatchHeader, validateBatch } from "@sluice/core/log";
import type { Codec } from "@sluice/core/log";
import { codeOf, isSluiceError } from "@sluice/core/model";
import * as fc from "fast-check";
import { nativeCodecs } from "../src/index.ts";
import { lz4Compress } from "../src/lz4.ts";
import { snappyCompress } from "../src/snappy.ts";
import { xxhash32 } from "../src/xxhash32.ts";
import { crc32c } from "../src/index.ts";

// Every test takes well under a second of CPU; the machine may be shared.
jest.setTimeout(30_000);

const fixture = (name: string): unknown => JSON.parse(readFileSync(new URL(`fixtures/${name}`, import.meta.url), "utf8"));
const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, "hex"));
const orNull = (hex: string | null): Uint8Array | null => (hex === null ? null : bytesOf(hex));
const plainOf = (bytes: Uint8Array): Uint8Array => Uint8Array.from(bytes);
const named = Object.entries(codecs) as [string, Codec][];
const packed = named.filter(([name]) => name !== "none");

function codeThrown(fn: () => unknown): string | undefined {
  try {
    fn();
  } catch (error) {
    if (!isSluiceError(error)) throw error;
    return codeOf(error);
  }
  return undefined;
}

describe("batches of other implementations", () => {
  interface Batches {
    readonly records: [number, number, string | null, string | null, [string, string | null][]][];
    readonly batches: Record<string, string>;
  }
  const { records, batches } = fixture("batches.json") as Batches;
  const expected = records.map(([offset, timestampMs, key, value, headers]) => ({
    offset,
    timestampMs,
    key: orNull(key),
    value: orNull(value),
    headers: headers.map(([k, v]) => ({ key: plainOf(Buffer.from(k)), value: orNull(v) })),
  }));

  test.each(Object.entries(batches))("%s: valid, and every record comes out as it went in", (name, hex) => {
    const bytes = bytesOf(hex);
    expect(validateBatch(bytes, 0, { crc32c })).toBeUndefined();
    const header = parseBatchHeader(bytes);
    const codec = name.split(" ")[1] as keyof typeof codecs;
    expect(header.codec).toBe(codecs[codec] ?? 0);
    expect(header).toMatchObject({ totalBytes: bytes.length, recordsCount: records.length, baseOffset: 0 });
    expect(header.maxTimestamp).toBe(Math.max(...expected.map((r) => r.timestampMs)));
    const decoded = decodeRecords(bytes, 0, nativeCodecs);
    expect(decoded.map((r) => ({ ...r, ...copied(r) }))).toEqual(expected);
    if (name.includes("producer"))
      expect(header).toMatchObject({ producerId: 4711, producerEpoch: 3, baseSequence: 17, isTransactional: true });
  });
  // Buffers become plain arrays, so that only the bytes are compared.
  function copied(r: ReturnType<typeof decodeRecords>[number]) {
    const plain = (b: Uint8Array | null): Uint8Array | null => (b === null ? null : plainOf(b));
    return { key: plain(r.key), value: plain(r.value), headers: r.headers.map((h) => ({ key: plainOf(h.key), value: plain(h.value) })) };
  }
});

describe("streams of other implementations", () => {
  const { streams } = fixture("streams.json") as { streams: Record<string, string> };
  const text = Array.from({ length: 4000 }, (_, i) => `${i % 97} the quick brown fox jumps over the lazy dog;`).join("");
  test.each(Object.entries(streams))("%s", (name, hex) => {
    const codec = codecs[name.split(" ")[0] as keyof typeof codecs];
    const bytes = bytesOf(hex);
    expect(Buffer.from(nativeCodecs.decompress(codec, bytes, text.length)).toString()).toBe(text);
    expect(codeThrown(() => nativeCodecs.decompress(codec, bytes, text.length - 1))).toBe("MESSAGE_TOO_LARGE");
  });
  test("a block checksum of lz4 finds a letter that changed", () => {
    const bad = bytesOf(streams["lz4 block checksums alone"] as string);
    const letter = Buffer.from(bad).indexOf("quick");
    bad[letter] = 0x51;
    expect(letter).toBeGreaterThan(0);
    expect(codeThrown(() => nativeCodecs.decompress(codecs.lz4, bad, 1 << 20))).toBe("CORRUPT_BATCH");
  });
  test("a checksum of lz4 that does not fit is found", () => {
    const good = bytesOf(streams["lz4 independent, all checksums, content size"] as string);
    for (const at of [4, 6, 10, 14, 40, good.length - 1]) {
      const bad = good.slice();
      bad[at] = (bad[at] as number) ^ 1;
      expect(codeThrown(() => nativeCodecs.decompress(codecs.lz4, bad, 1 << 20))).toBe("CORRUPT_BATCH");
    }
  });
});

describe.each(packed)("%s", (_name, codec) => {
  const noisy = fc.uint8Array({ maxLength: 3000 });
  const even = fc.tuple(fc.nat(255), fc.nat(150_000)).map(([value, n]) => new Uint8Array(n).fill(value));
  test("round trip, exactly at the limit; one byte less is refused", () => {
    fc.assert(
      fc.property(fc.oneof(noisy, even), (bytes) => {
        const stream = nativeCodecs.compress(codec, bytes);
        expect(Buffer.compare(nativeCodecs.decompress(codec, stream, Math.max(1, bytes.length)), bytes)).toBe(0);
        if (bytes.length > 1) expect(codeThrown(() => nativeCodecs.decompress(codec, stream, bytes.length - 1))).toBe("MESSAGE_TOO_LARGE");
      }),
      { numRuns: 40 },
    );
  });
  test("random bytes and damaged or cut streams throw nothing but the two codes", () => {
    const base = Buffer.from("all work and no play makes a dull broker. ".repeat(60));
    const stream = nativeCodecs.compress(codec, base);
    const allowed = [undefined, "CORRUPT_BATCH", "MESSAGE_TOO_LARGE"];
    fc.assert(
      fc.property(noisy, fc.nat(), fc.nat(255), (junk, where, value) => {
        expect(allowed).toContain(codeThrown(() => nativeCodecs.decompress(codec, junk, 1 << 16)));
        const damaged = stream.slice();
        damaged[where % damaged.length] = value;
        expect(allowed).toContain(codeThrown(() => nativeCodecs.decompress(codec, damaged, 1 << 16)));
        const cut = codeThrown(() => nativeCodecs.decompress(codec, stream.subarray(0, where % stream.length), 1 << 16));
        expect(allowed).toContain(cut);
      }),
      { numRuns: 150 },
    );
  });
  test("a bomb costs about its limit", () => {
    const stream = nativeCodecs.compress(codec, new Uint8Array(48 << 20));
    const before = process.memoryUsage().rss;
    expect(codeThrown(() => nativeCodecs.decompress(codec, stream, 1 << 20))).toBe("MESSAGE_TOO_LARGE");
    expect(process.memoryUsage().rss - before).toBeLessThan(24 << 20);
  });
});

describe("hostile streams", () => {
  test("snappy: a claimed length is checked before it is allocated", () => {
    const raw = (claim: number[]) => Uint8Array.from([...claim, ...new Uint8Array(40)]);
    expect(codeThrown(() => nativeCodecs.decompress(codecs.snappy, raw([255, 255, 255, 255, 0x0f]), 2 ** 33))).toBe("CORRUPT_BATCH");
    expect(codeThrown(() => nativeCodecs.decompress(codecs.snappy, raw([255, 255, 255, 255, 255, 1]), 2 ** 33))).toBe("CORRUPT_BATCH");
    const xerial = snappyCompress(new Uint8Array(100));
    const negative = xerial.slice();
    negative.set([255, 255, 255, 255], 16);
    expect(codeThrown(() => nativeCodecs.decompress(codecs.snappy, negative, 1000))).toBe("CORRUPT_BATCH");
    expect(codeThrown(() => nativeCodecs.decompress(codecs.snappy, xerial.subarray(0, 18), 1000))).toBe("CORRUPT_BATCH");
  });
  test("snappy: what is written is what the Java producer writes", () => {
    expect(
      Buffer.from(snappyCompress(new Uint8Array(40_000)))
        .subarray(0, 16)
        .toString("hex"),
    ).toBe("82534e41505059000000000100000001");
  });
  test("lz4: one frame of independent blocks, which is what the Java client accepts", () => {
    for (const size of [0, 10, 70_000, 5_000_000]) {
      const frame = Buffer.from(lz4Compress(Buffer.alloc(size, "sluice ")));
      expect(frame.readUInt32LE()).toBe(0x184d2204);
      const flags = frame[4] as number;
      expect([flags >> 6, flags & 0x20, flags & 0x0b]).toEqual([1, 0x20, 0]);
    }
  });
  test("lz4: a block larger than the header allows", () => {
    const noise = Uint8Array.from({ length: 200_000 }, (_, i) => xxhash32(Uint8Array.of(i, i >> 8, i >> 16)) & 255);
    const frame = Buffer.from(lz4Compress(noise));
    expect(codeThrown(() => nativeCodecs.decompress(codecs.lz4, frame, 1 << 20))).toBeUndefined();
    expect(frame.readUInt32LE(7) % 2 ** 31).toBeGreaterThan(65_536);
    frame[5] = 0x40;
    frame[6] = (xxhash32(frame.subarray(4, 6)) >>> 8) & 255;
    expect(codeThrown(() => nativeCodecs.decompress(codecs.lz4, frame, 1 << 20))).toBe("CORRUPT_BATCH");
  });
  test("lz4: sizes that the frame cannot have", () => {
    const good = Buffer.from(lz4Compress(new Uint8Array(1000)));
    for (const size of [0x7fff_ffff, 70_000, 0xffff_ffff]) {
      const bad = Buffer.from(good);
      bad.writeUInt32LE(size, 7);
      expect(codeThrown(() => nativeCodecs.decompress(codecs.lz4, bad, 1 << 20))).toBe("CORRUPT_BATCH");
    }
    expect(codeThrown(() => nativeCodecs.decompress(codecs.lz4, good.subarray(0, -4), 1 << 20))).toBe("CORRUPT_BATCH");
  });
  test("gzip and zstd: cut off streams are corrupt or short, never more", () => {
    for (const [codec, stream] of [
      [codecs.gzip, gzipSync("abc".repeat(500))],
      [codecs.zstd, zstdCompressSync("abc".repeat(500))],
    ] as const) {
      const cut = stream.subarray(0, stream.length - 3);
      const code = codeThrown(() => expect(nativeCodecs.decompress(codec, cut, 1 << 20).length).toBeLessThanOrEqual(1500));
      expect([undefined, "CORRUPT_BATCH"]).toContain(code);
    }
  });
  test("an unknown codec, and plain bytes over the limit", () => {
    expect(codeThrown(() => nativeCodecs.compress(5 as Codec, new Uint8Array(1)))).toBe("UNSUPPORTED_CODEC");
    expect(codeThrown(() => nativeCodecs.decompress(7 as Codec, new Uint8Array(1), 10))).toBe("UNSUPPORTED_CODEC");
    expect(codeThrown(() => nativeCodecs.decompress(codecs.none, new Uint8Array(11), 10))).toBe("MESSAGE_TOO_LARGE");
  });
});
