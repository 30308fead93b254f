import { describe, expect, test } from "@jest/globals";
import { asSluiceError, codeOf, errorCatalogue, errorCodeOf, errorNumber, SluiceError, type ErrorCode } from "@sluice/core/model";

describe("the error catalogue", () => {
  const codes = Object.keys(errorCatalogue) as ErrorCode[];
  test("numbers are on the wire: each has one code, and comes back as it", () => {
    for (const code of codes) expect(errorCodeOf(errorNumber(code))).toBe(code);
    expect(new Set(codes.map(errorNumber)).size).toBe(codes.length);
  });
  test("0 is success and belongs to none; numbers fit a u16", () => {
    for (const code of codes) {
      expect(errorNumber(code)).toBeGreaterThan(0);
      expect(errorNumber(code)).toBeLessThan(65536);
    }
  });
  test("a number of a newer version is a fault of ours, not a crash", () => expect(errorCodeOf(60_000)).toBe("INTERNAL"));
  test("every code tells what to do", () => {
    for (const code of codes) expect(errorCatalogue[code].hint).toMatch(/\.$/);
  });
  test("anything thrown becomes one of ours, once", () => {
    const cause = new Error("boom");
    const wrapped = asSluiceError(cause, "IO_FAILED");
    expect(wrapped).toMatchObject({ code: "IO_FAILED", message: "boom", cause });
    expect(asSluiceError(wrapped)).toBe(wrapped);
    expect(codeOf("text")).toBe("INTERNAL");
    expect(new SluiceError("OVERLOADED", "x", { throttleMs: 5 })).toMatchObject({ retriable: true, throttleMs: 5 });
  });
});
