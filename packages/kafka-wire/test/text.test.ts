import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { readUtf8, utf8Bytes, writeUtf8 } from "../src/utf8.ts";
import { readUuid, writeUuid } from "../src/uuid.ts";

describe("UTF-8 does what the platform does", () => {
  test("for every text, lone surrogates among them", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 40 }), fc.boolean(), (text, cut) => {
        const given = cut ? text.slice(1) : text;
        const expected = new TextEncoder().encode(given);
        const bytes = new Uint8Array(utf8Bytes(given));
        expect(writeUtf8(bytes, 0, given)).toBe(bytes.length);
        expect([...bytes]).toEqual([...expected]);
      }),
    );
  });
  test("for every sequence of bytes", () => {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    const byte = fc.oneof(fc.integer({ min: 0, max: 255 }), fc.constantFrom(0xe0, 0xed, 0xf0, 0xf4, 0x80, 0x9f, 0xa0, 0xbf, 0xc2, 0xef));
    fc.assert(
      fc.property(fc.array(byte, { maxLength: 24 }), (all) => {
        const bytes = Uint8Array.from(all);
        expect(readUtf8(bytes, 0, bytes.length)).toBe(decoder.decode(bytes));
      }),
      { numRuns: 3_000 },
    );
  });
  test("for long texts", () => {
    const text = "aé€😀".repeat(3_000);
    const bytes = new TextEncoder().encode(text);
    expect(readUtf8(bytes, 0, bytes.length)).toBe(text);
  });
});

describe("uuids", () => {
  test("come back as they were, in lower case", () => {
    fc.assert(
      fc.property(fc.uuid(), (text) => {
        const bytes = new Uint8Array(18);
        expect(writeUuid(bytes, 1, text.toUpperCase())).toBe(true);
        expect(readUuid(bytes, 1)).toBe(text);
      }),
    );
  });
  test("other texts are refused", () => {
    for (const text of ["", "x", "0f8fad5b-d9cb-469f-a165-70867728950", "0f8fad5bd9cb469fa16570867728950e0000"])
      expect(writeUuid(new Uint8Array(16), 0, text)).toBe(false);
  });
});
