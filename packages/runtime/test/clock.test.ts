import { describe, expect, test } from "@jest/globals";
import { systemClock, type Timer } from "../src/clock.ts";

describe("the system's clock", () => {
  test("a timer never fires before its time", async () => {
    const early = await Promise.all(
      Array.from({ length: 200 }, (_, i) => {
        const delayMs = 1 + i * 0.13;
        const dueMs = systemClock.monotonicMs() + delayMs;
        return new Promise<number>((resolve) => {
          systemClock.setTimer(delayMs, () => resolve(Math.max(0, dueMs - systemClock.monotonicMs())));
        });
      }),
    );
    expect(Math.max(...early)).toBe(0);
  });
  test("a cancelled timer does not fire", async () => {
    const fired: number[] = [];
    const timers: Timer[] = [];
    for (let i = 0; i < 50; i++) timers.push(systemClock.setTimer(5 + i * 0.1, () => void fired.push(i)));
    await systemClock.sleep(5);
    for (const timer of timers) timer.cancel();
    const before = fired.length;
    await systemClock.sleep(30);
    expect(fired).toHaveLength(before);
  });
});
