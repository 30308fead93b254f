import { describe, expect, test } from "@jest/globals";
import { ManualClock, RecordingLogger, SeededRandom } from "../src/testing/index.ts";

describe("manual clock", () => {
  test("fires in order of time, then of creation, and timers set by timers in the same advance", () => {
    const clock = new ManualClock();
    const seen: string[] = [];
    clock.setTimer(20, () => seen.push(`c@${clock.monotonicMs()}`));
    clock.setTimer(10, () => {
      seen.push("a");
      clock.setTimer(5, () => seen.push(`nested@${clock.monotonicMs()}`));
    });
    clock.setTimer(10, () => seen.push("b"));
    const cancelled = clock.setTimer(11, () => seen.push("never"));
    cancelled.cancel();
    clock.advance(9);
    expect(seen).toEqual([]);
    expect(clock.nextTimerInMs()).toBe(1);
    clock.advance(11);
    expect(seen).toEqual(["a", "b", "nested@15", "c@20"]);
    expect([clock.monotonicMs(), clock.pendingTimers]).toEqual([20, 0]);
  });

  test("turns run between timers and keep what they add for the next turn", () => {
    const clock = new ManualClock();
    const seen: string[] = [];
    clock.afterTurn(() => {
      seen.push("first");
      clock.afterTurn(() => seen.push("second"));
    });
    clock.runTurn();
    expect([seen, clock.pendingTurn]).toEqual([["first"], 1]);
    clock.advance(0);
    expect(seen).toEqual(["first", "second"]);
  });

  test("sleeps resolve through advanceAsync and reject on abort", async () => {
    const clock = new ManualClock();
    const abort = new AbortController();
    const seen: string[] = [];
    const loop = (async () => {
      for (let i = 0; i < 3; i++) {
        await clock.sleep(100);
        seen.push(`${i}@${clock.monotonicMs()}`);
      }
    })();
    const failed = expect(clock.sleep(1_000, abort.signal)).rejects.toThrow("enough");
    await clock.advanceAsync(300);
    await loop;
    expect(seen).toEqual(["0@100", "1@200", "2@300"]);
    abort.abort(new Error("enough"));
    await failed;
    expect(clock.pendingTimers).toBe(0);
  });

  test("the wall clock jumps alone", () => {
    const clock = new ManualClock({ wallMs: 5_000 });
    clock.jumpWall(-1_000);
    expect([clock.wallMs(), clock.monotonicMs()]).toEqual([4_000, 0]);
  });
});

describe("seeded random", () => {
  test("a seed repeats its sequence forever", () => {
    const random = new SeededRandom(42);
    // Recorded seeds depend on these numbers: never change them.
    expect([random.next(), random.next(), random.next()]).toEqual([660444221, 3652823732, 77672526]);
    expect([...random.bytes(5)]).toHaveLength(5);
    expect(new SeededRandom(42).uuid()).toBe(new SeededRandom(42).uuid());
    expect(new SeededRandom(1).next()).not.toBe(new SeededRandom(2).next());
  });

  test("covers its range evenly", () => {
    const random = new SeededRandom(9);
    const buckets = Array.from({ length: 10 }, () => 0);
    for (let i = 0; i < 10_000; i++) buckets[random.int(10)]!++;
    for (const count of buckets) expect(Math.abs(count - 1_000)).toBeLessThan(150);
    expect(() => random.int(0)).toThrow(RangeError);
    expect(random.uuid()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });
});

test("the recording logger keeps the fields of children", () => {
  const logger = new RecordingLogger();
  logger.child({ broker: 1 }).child({ epoch: 7 }).warn("fenced", { reason: "stale" });
  expect(logger.find("fenced")).toEqual({ level: "warn", event: "fenced", fields: { broker: 1, epoch: 7, reason: "stale" } });
});
