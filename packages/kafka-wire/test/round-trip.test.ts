import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { decodeStruct } from "../src/decode.ts";
import { encodeStruct } from "../src/encode.ts";
import { Reader } from "../src/reader.ts";
import { Writer } from "../src/writer.ts";
import { structOf } from "./support/arbitraries.ts";
import { allCases, schemas } from "./support/schemas.ts";

describe("every message at every version comes back as it was sent", () => {
  for (const { name } of schemas.values()) {
    test(name, () => {
      for (const { plan, version } of allCases.filter((one) => one.name === name)) {
        const value = structOf(plan, { elements: 3, bytes: 12 });
        fc.assert(
          fc.property(value, (sent) => {
            const writer = new Writer(8);
            encodeStruct(writer, plan, sent);
            const bytes = writer.toBytes();
            const reader = new Reader(bytes, 0, bytes.length, 10_000);
            expect([version, decodeStruct(reader, plan)]).toEqual([version, sent]);
            expect(reader.left).toBe(0);
          }),
          { numRuns: 12 },
        );
      }
    });
  }
});
