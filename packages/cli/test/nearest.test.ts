import { expect, test } from "@jest/globals";
import { nearest } from "../src/nearest.ts";

test.each([
  ["oders", ["orders", "copy"], "orders"],
  ["Orders", ["orders"], "orders"],
  ["retention.sm", ["retention.ms", "retention.bytes"], "retention.ms"],
  ["reten", ["segment.ms", "retention.ms"], "retention.ms"],
  ["a", ["b", "ab"], "b"],
  ["something", ["else", ""], undefined],
  ["x", [], undefined],
  ["x".repeat(1_000), ["x"], undefined],
])("%s among %j: %s", (word, known, meant) => expect(nearest(word, known)).toBe(meant));
