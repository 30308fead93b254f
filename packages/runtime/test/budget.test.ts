import { expect, test } from "@jest/globals";
import { ByteBudget } from "../src/index.ts";

test("waiters are served in order, big ones are not overtaken, aborts make room", async () => {
  const budget = new ByteBudget({ name: "testBytesMax", limitBytes: 100, waitersMax: 3 });
  await budget.take(80);
  const seen: string[] = [];
  const abort = new AbortController();
  const big = budget.take(60).then(() => seen.push("big"));
  const gone = expect(budget.take(10, abort.signal)).rejects.toThrow("gave up");
  const small = budget.take(10).then(() => seen.push("small"));
  expect([budget.tryTake(5), budget.waiting]).toEqual([false, 3]);
  await expect(budget.take(1)).rejects.toMatchObject({ code: "OVERLOADED" });
  await expect(budget.take(101)).rejects.toMatchObject({ code: "FRAME_TOO_LARGE" });
  abort.abort(new Error("gave up"));
  await gone;
  budget.release(80);
  await Promise.all([big, small]);
  expect(seen).toEqual(["big", "small"]);
  expect([budget.usedBytes, budget.waiting]).toEqual([70, 0]);
  expect(() => budget.release(71)).toThrow(RangeError);
  const last = expect(budget.take(50)).rejects.toThrow("closed");
  budget.rejectAll(new Error("closed"));
  await last;
});
