import { describe, expect, test } from "@jest/globals";
import { History, type Read } from "./support/history.ts";

// The checks themselves: each must be able to fail.
const ack = (value: string, offset: number, partition = 0, atMs = offset) => ({ partition, offset, value, atMs });
const read = (value: string, offset: number, partition = 0): Read => ({ partition, offset, value });

function historyOf(...acks: ReturnType<typeof ack>[]): History {
  const history = new History();
  history.acks.push(...acks);
  return history;
}

describe("checks of a history", () => {
  test("a clean run", () => {
    expect(historyOf(ack("p/0/1", 0), ack("p/0/2", 1)).check([read("p/0/1", 0), read("p/0/2", 1)])).toEqual([]);
  });
  test("a lost write", () => expect(historyOf(ack("p/0/1", 0)).check([])).toHaveLength(1));
  test("a duplicate", () =>
    expect(
      historyOf()
        .check([read("p/0/1", 0), read("p/0/1", 1)])
        .join(),
    ).toContain("duplicates"));
  test("two values at one offset", () =>
    expect(
      historyOf()
        .check([read("p/0/1", 0), read("p/0/2", 0)])
        .join(),
    ).toContain("two values"));
  test("an acknowledged offset that holds something else", () => {
    expect(
      historyOf(ack("p/0/1", 0))
        .check([read("p/0/1", 1)])
        .join(),
    ).toContain("another offset");
  });
  test("order", () =>
    expect(
      historyOf()
        .check([read("p/0/2", 0), read("p/0/1", 1)])
        .join(),
    ).toContain("order"));
  test("the longest stall of a partition", () => {
    expect(historyOf(ack("a", 0, 0, 10), ack("b", 1, 0, 30), ack("c", 0, 1, 500), ack("d", 1, 1, 900)).longestStall().ms).toBe(400);
  });
  test("a stall that reaches into the window counts, one beside it does not", () => {
    const history = historyOf(ack("a", 0, 0, 100), ack("b", 1, 0, 900), ack("c", 2, 0, 910), ack("d", 3, 0, 2_000), ack("e", 4, 0, 2_010));
    expect(history.longestStall(500, 905).ms).toBe(800);
    expect(history.longestStall(905, 950).ms).toBe(1_090);
    expect(history.longestStall(2_005, 3_000).ms).toBe(10);
  });
});
