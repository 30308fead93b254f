import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { checkGroupName, encodeUtf8, isPlainText, readUtf8, utf8Bytes } from "../../src/model/index.ts";

describe("UTF-8", () => {
  test("is what the platform writes and reads", () =>
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (s) => {
        const bytes = new TextEncoder().encode(s);
        expect([...encodeUtf8(s)]).toEqual([...bytes]);
        expect(utf8Bytes(s)).toBe(bytes.length);
        expect(readUtf8(bytes, 0, bytes.length)).toBe(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
      }),
    ));
  test("halves of surrogate pairs are replaced", () => {
    expect([...encodeUtf8("a\ud800b")]).toEqual([...new TextEncoder().encode("a\ud800b")]);
  });
  test("other bytes are refused as the platform refuses them", () =>
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 12 }), (bytes) => {
        let wanted: string | undefined;
        try {
          wanted = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
        } catch {
          wanted = undefined;
        }
        expect(readUtf8(bytes, 0, bytes.length)).toBe(wanted);
      }),
      { numRuns: 3_000 },
    ));
});

describe("group names", () => {
  test.each(["g", "my group", "gr\u00fcn/1", "a".repeat(249), "\u{1f600}"])("%j is one", (name) => {
    expect(() => checkGroupName(name)).not.toThrow();
    expect(isPlainText(name)).toBe(true);
  });
  test.each(["", "a\nb", "\u007f", "\ud800", "\udc00x", "a".repeat(250), "\u00fc".repeat(125)])("%j is none", (name) => {
    expect(() => checkGroupName(name)).toThrow(expect.objectContaining({ code: "INVALID_GROUP" }));
  });
});
