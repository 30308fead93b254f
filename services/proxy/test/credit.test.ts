import { describe, expect, test } from "@jest/globals";
import { ConsumeCredit } from "../src/credit.ts";

const never = new AbortController().signal;

describe("consume credit", () => {
  test("is reserved before it is used, and what was not used comes back", async () => {
    const credit = new ConsumeCredit(100, 1_000);
    expect(await credit.reserve(80, never)).toBe(80);
    expect(await credit.reserve(80, never)).toBe(20);
    const waiting = credit.reserve(50, never);
    credit.settle(80, 30);
    expect(await waiting).toBe(50);
    credit.settle(50, 50);
    credit.settle(20, 20);
    expect(credit.left).toBe(0);
  });
  test("one larger batch takes it below zero, and it must be granted back first", async () => {
    const credit = new ConsumeCredit(10, 1_000);
    credit.settle(await credit.reserve(10, never), 500);
    let got = -1;
    void credit.reserve(10, never).then((n) => (got = n));
    credit.grant(490);
    await Promise.resolve();
    expect(got).toBe(-1);
    credit.grant(5);
    await new Promise((resolve) => setImmediate(resolve));
    expect(got).toBe(5);
  });
  test("no more than the limit is in use, however much was granted; waits end by abort and close", async () => {
    const credit = new ConsumeCredit(1_000_000, 100);
    expect(await credit.reserve(1_000, never)).toBe(100);
    const stop = new AbortController();
    const aborted = credit.reserve(1, stop.signal);
    const closed = credit.reserve(1, never);
    stop.abort();
    expect(await aborted).toBe(0);
    credit.close();
    expect(await closed).toBe(0);
  });
});
