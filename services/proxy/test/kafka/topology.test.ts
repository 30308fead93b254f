import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { assignLeaders } from "../../src/kafka/topology.ts";

const TOPIC = "0f8fad5b-d9cb-469f-a165-70867728950e";

describe("leaders over the live proxies", () => {
  test("every partition has one, shares are even, and all proxies compute the same", () => {
    fc.assert(
      fc.property(
        fc.uuid(),
        fc.integer({ min: 1, max: 60 }),
        fc.uniqueArray(fc.integer({ min: 1, max: 99 }), { minLength: 1, maxLength: 8 }),
        (id, count, ids) => {
          const sorted = [...ids].sort((a, b) => a - b);
          const leaders = assignLeaders(id, count, sorted);
          expect(leaders).toEqual(assignLeaders(id, count, sorted));
          const shares = sorted.map((one) => leaders.filter((leader) => leader === one).length);
          expect(shares.reduce((sum, n) => sum + n, 0)).toBe(count);
          expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1);
        },
      ),
    );
  });
  test("more partitions leave the leaders of the others where they were", () => {
    expect(assignLeaders(TOPIC, 30, [1, 2, 3]).slice(0, 10)).toEqual(assignLeaders(TOPIC, 10, [1, 2, 3]));
  });
  test("without a proxy there is none", () => {
    expect(assignLeaders(TOPIC, 2, [])).toEqual([-1, -1]);
  });
});
