import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { apis, readRequestHeaderRest, readRequestPrefix, WIRE_ELEMENTS_MAX, Writer, type WireErrorCode } from "../src/index.ts";
import { decodeStruct } from "../src/decode.ts";
import { Reader } from "../src/reader.ts";
import { fixtures } from "./support/fixtures.ts";
import { allCases } from "./support/schemas.ts";

const codeOf = (fn: () => unknown): WireErrorCode | undefined => {
  try {
    fn();
    return undefined;
  } catch (error) {
    const { code } = error as { code?: WireErrorCode };
    if (code === undefined) throw error;
    return code;
  }
};
const planOf = new Map(allCases.map(({ name, version, plan }) => [`${name} ${version}`, plan]));
const decode = (name: string, version: number, bytes: Uint8Array): unknown =>
  decodeStruct(new Reader(bytes, 0, bytes.length, 1_000), planOf.get(`${name} ${version}`)!);

describe("bytes that are no message", () => {
  test("a frame cut anywhere is malformed", () => {
    for (const { name, version, bytes } of fixtures) {
      for (let end = 0; end < bytes.length; end += 1) {
        expect([name, version, end, codeOf(() => decode(name, version, bytes.subarray(0, end)))]).toEqual([
          name,
          version,
          end,
          "MALFORMED",
        ]);
      }
    }
  });

  test("frames with changed bytes give a message or an error of the codec", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...fixtures),
        fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { minLength: 1, maxLength: 4 }),
        ({ name, version, bytes }, changes) => {
          const changed = bytes.slice();
          if (changed.length === 0) return;
          for (const [at, byte] of changes) changed[at % changed.length] = byte;
          codeOf(() => decode(name, version, changed));
        },
      ),
      { numRuns: 5_000 },
    );
  });

  test("random bytes give a message or an error of the codec", () => {
    fc.assert(
      fc.property(fc.constantFrom(...allCases), fc.uint8Array({ maxLength: 200 }), ({ name, version }, bytes) => {
        codeOf(() => decode(name, version, bytes));
      }),
      { numRuns: 5_000 },
    );
  });

  test("an array that claims more elements than bytes remain is refused before anything is allocated", () => {
    const { request } = apis.Metadata;
    const flat = new Writer();
    flat.int32(0x7fff_ffff);
    expect(codeOf(() => request.decode(1, flat.toBytes()))).toBe("MALFORMED");
    const compact = new Writer();
    compact.uvarint(0xffff_ffff);
    expect(codeOf(() => request.decode(12, compact.toBytes()))).toBe("MALFORMED");
  });

  test("a frame of many tiny elements is refused by their number", () => {
    const count = WIRE_ELEMENTS_MAX + 1;
    const writer = new Writer();
    writer.int32(count);
    for (let i = 0; i < count; i += 1) writer.int16(0);
    const bytes = writer.toBytes();
    expect(codeOf(() => apis.Metadata.request.decode(1, bytes))).toBe("TOO_LARGE");
    new DataView(bytes.buffer, bytes.byteOffset).setInt32(0, count - 1);
    expect(apis.Metadata.request.decode(1, bytes).topics).toHaveLength(WIRE_ELEMENTS_MAX);
  });

  test("null where a field may not be null is malformed", () => {
    const writer = new Writer();
    writer.int32(-1);
    expect(codeOf(() => apis.Metadata.request.decode(0, writer.toBytes()))).toBe("MALFORMED");
    expect(apis.Metadata.request.decode(1, writer.toBytes()).topics).toBeNull();
  });

  test("tags of a newer client are skipped, tags out of order refused", () => {
    const heartbeat = (tags: readonly number[]): Uint8Array => {
      const writer = new Writer();
      writer.string("g", true);
      writer.int32(1);
      writer.string("m", true);
      writer.string(null, true);
      writer.uvarint(tags.length);
      for (const tag of tags) {
        writer.uvarint(tag);
        writer.uvarint(2);
        writer.int16(7);
      }
      return writer.toBytes();
    };
    expect(apis.Heartbeat.request.decode(4, heartbeat([3, 90])).memberId).toBe("m");
    expect(codeOf(() => apis.Heartbeat.request.decode(4, heartbeat([90, 3])))).toBe("MALFORMED");
  });

  test("a variable-length integer of more than 32 bits is malformed", () => {
    const bytes = Uint8Array.from([0xff, 0xff, 0xff, 0xff, 0x1f]);
    expect(codeOf(() => new Reader(bytes, 0, 5, 0).uvarint())).toBe("MALFORMED");
    expect(new Reader(Uint8Array.from([0xff, 0xff, 0xff, 0xff, 0x0f]), 0, 5, 0).uvarint()).toBe(0xffff_ffff);
  });

  test("headers that end early are malformed", () => {
    for (let end = 0; end < 8; end += 1) expect(codeOf(() => readRequestPrefix(new Uint8Array(8), 0, end))).toBe("MALFORMED");
    const rest = Uint8Array.from([0, 3, 0x61, 0x62]);
    expect(codeOf(() => readRequestHeaderRest(rest, 0, 4, false))).toBe("MALFORMED");
  });

  test("versions that a message does not have are told apart from bad bytes", () => {
    for (const version of [-1, 2, 13, 1.5])
      expect(codeOf(() => apis.Produce.request.decode(version, new Uint8Array(8)))).toBe("UNSUPPORTED_VERSION");
  });
});
