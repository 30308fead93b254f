import { describe, expect, test } from "@jest/globals";
import { errorCatalogue, errorCodeOf, type ErrorCode } from "../src/model/index.ts";

describe("error catalogue", () => {
  test("no number is used twice: each code survives the wire", () => {
    for (const [code, { number }] of Object.entries(errorCatalogue)) {
      expect([code, number > 0 && number < 0x1_0000]).toEqual([code, true]);
      expect([number, errorCodeOf(number)]).toEqual([number, code as ErrorCode]);
    }
  });
});
