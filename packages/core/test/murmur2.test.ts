import { describe, expect, test } from "@jest/globals";
import { murmur2, partitionOfKey } from "@sluice/core/model";

// Values from Kafka's own UtilsTest.testMurmur2.
describe("murmur2", () => {
  test.each([
    ["21", -973932308],
    ["foobar", -790332482],
    ["a-little-bit-long-string", -985981536],
    ["a-little-bit-longer-string", -1486304829],
    ["lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971],
    ["abc", 479470107],
  ])("%s", (text, hash) => expect(murmur2(new TextEncoder().encode(text))).toBe(hash));
  test("a partition is never negative", () =>
    expect(partitionOfKey(new TextEncoder().encode("21"), 7)).toBe((-973932308 & 0x7fff_ffff) % 7));
});
