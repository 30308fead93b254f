import { describe, expect, test } from "@jest/globals";
import { BatchBuilder, BatchCursor, batchCrc } from "@sluice/core/log";
import * as fc from "fast-check";
import { crc32c, nativeCodecs } from "../src/index.ts";
import { xxhash32 } from "../src/xxhash32.ts";

const ascii = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text));

describe("CRC32C", () => {
  test("known sums (RFC 3720, appendix B.4)", () => {
    expect(crc32c(ascii("123456789"))).toBe(0xe306_9283);
    expect(crc32c(new Uint8Array(32))).toBe(0x8a91_36aa);
    expect(crc32c(new Uint8Array(32).fill(255))).toBe(0x62a8_ab43);
    expect(crc32c(Uint8Array.from({ length: 32 }, (_, i) => i))).toBe(0x46dd_794e);
    expect(crc32c(Uint8Array.from({ length: 32 }, (_, i) => 31 - i))).toBe(0x113f_db5c);
  });
  test("a seed continues: parts sum to the whole, for any cut and any state", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 500 }), fc.nat(), (bytes, where) => {
        const at = bytes.length === 0 ? 0 : where % bytes.length;
        const whole = crc32c(bytes);
        expect(crc32c(bytes.subarray(at), crc32c(bytes.subarray(0, at)))).toBe(whole);
        expect(crc32c(bytes, 0)).toBe(whole);
        expect(crc32c(new Uint8Array(0), whole)).toBe(whole);
        expect(Number.isInteger(whole) && whole >= 0 && whole <= 0xffff_ffff).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
  test("views at odd addresses are summed in place", () => {
    const slab = Uint8Array.from({ length: 300 }, (_, i) => (i * 31) & 255);
    for (let from = 0; from < 9; from++) expect(crc32c(slab.subarray(from, 290))).toBe(crc32c(slab.slice(from, 290)));
  });
  test("a built batch carries the sum that a walk over it finds", () => {
    const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs, codec: 4 });
    for (let i = 0; i < 100; i++) builder.tryAppend(i, ascii(`k${i}`), ascii("value ".repeat(9)));
    const bytes = builder.close();
    const cursor = new BatchCursor(bytes);
    expect(cursor.next()).toBe(true);
    expect(cursor.header.codec).toBe(4);
    expect(batchCrc(bytes, 0, bytes.length, crc32c)).toBe(cursor.header.crc);
  });
});

describe("xxHash32", () => {
  test("known sums", () => {
    expect(xxhash32(ascii(""))).toBe(0x02cc_5d05);
    expect(xxhash32(ascii("a"))).toBe(0x550d_7456);
    expect(xxhash32(ascii("abc"))).toBe(0x32d1_53ff);
    expect(xxhash32(ascii("Nobody inspects the spammish repetition"))).toBe(0xe229_3b2f);
  });
});
