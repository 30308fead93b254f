import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { readInt16, readInt32, readInt64, readInt8, readUint32, writeInt16, writeInt32, writeInt64 } from "../../src/log/bytes.ts";
import { isVarlong, varintBytes, VarintReader, varlongBytes, writeVarint, writeVarlong } from "../../src/log/varint.ts";
import { codeThrown } from "./support.ts";

const int32 = fc.oneof(fc.integer(), fc.constantFrom(-1, 0, 63, 64, -64, -65, 0x7fff_ffff, -0x8000_0000));
const int52 = fc.oneof(
  fc.integer({ min: -(2 ** 52), max: 2 ** 52 - 1 }),
  fc.constantFrom(-(2 ** 52), 2 ** 52 - 1, 2 ** 27, 2 ** 28, -(2 ** 31)),
);
function reader(bytes: Uint8Array): VarintReader {
  const r = new VarintReader();
  r.bytes = bytes;
  r.end = bytes.length;
  return r;
}

describe("varints", () => {
  test("round trip in the size that was announced, and as BigInt arithmetic says", () => {
    fc.assert(
      fc.property(int32, int52, (a, b) => {
        const bytes = new Uint8Array(20);
        const middle = writeVarint(bytes, 0, a);
        const end = writeVarlong(bytes, middle, b);
        expect([middle, end - middle]).toEqual([varintBytes(a), varlongBytes(b)]);
        const r = reader(bytes.subarray(0, end));
        expect([r.varint(), r.varlong(), r.at]).toEqual([a, b, end]);
        let zigzag = (BigInt(b) << 1n) ^ (BigInt(b) >> 63n);
        for (let i = middle; i < end; i++, zigzag >>= 7n) expect(BigInt((bytes[i] as number) & 0x7f)).toBe(zigzag & 0x7fn);
        expect(zigzag).toBe(0n);
      }),
    );
  });
  test("cut off, too long, out of range", () => {
    const bad = (...bytes: number[]) => [
      codeThrown(() => reader(Uint8Array.from(bytes)).varint()),
      codeThrown(() => reader(Uint8Array.from(bytes)).varlong()),
    ];
    const corrupt = "CORRUPT_BATCH";
    expect(bad()).toEqual([corrupt, corrupt]);
    expect(bad(0x80)).toEqual([corrupt, corrupt]);
    expect(bad(255, 255, 255, 255, 0x1f)).toEqual([corrupt, undefined]);
    expect(bad(255, 255, 255, 255, 255, 255, 255, 255, 255, 1)).toEqual([corrupt, corrupt]);
    expect(bad(255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255)).toEqual([corrupt, corrupt]);
    expect([isVarlong(2 ** 52), isVarlong(2 ** 52 - 1), isVarlong(0.5), isVarlong(Number.NaN)]).toEqual([false, true, false, false]);
  });
});

describe("integers in bytes", () => {
  test("agree with DataView", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 8, maxLength: 8 }), (b) => {
        const view = new DataView(b.buffer, b.byteOffset);
        expect([readInt8(b, 1), readInt16(b, 1), readInt32(b, 1), readUint32(b, 1)]).toEqual([
          view.getInt8(1),
          view.getInt16(1),
          view.getInt32(1),
          view.getUint32(1),
        ]);
        expect(readInt64(b, 0)).toBe(Number(view.getBigInt64(0)));
      }),
    );
    fc.assert(
      fc.property(fc.maxSafeInteger(), fc.integer(), (n, small) => {
        const b = new Uint8Array(14);
        writeInt64(b, 0, n);
        writeInt32(b, 8, small);
        writeInt16(b, 12, small);
        const view = new DataView(b.buffer);
        expect(Number(view.getBigInt64(0))).toBe(n);
        expect([view.getInt32(8), view.getInt16(12)]).toEqual([small, (small << 16) >> 16]);
        expect(readInt64(b, 0)).toBe(n);
      }),
    );
  });
});
