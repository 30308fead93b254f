import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { firstMoveWindow, moveWindowLimits, nextMoveWindow } from "../../src/placement/index.ts";

const { min, start, quickMs, slowMs } = moveWindowLimits;
/** A whole window of moves that took the same. */
const round = (window: number, tookMs: number, max: number): number => {
  let next = window;
  for (let i = 0; i < Math.floor(window); i += 1) next = nextMoveWindow(next, tookMs, max);
  return next;
};

describe("the window of planned moves", () => {
  test("grows by half with a window of quick moves, shrinks by half with one of slow moves, stays in between", () => {
    expect(round(8, quickMs, 100)).toBe(12);
    expect(round(8, slowMs + 1, 100)).toBe(4);
    expect(round(8, slowMs, 100)).toBe(8);
  });
  test("reaches any bound, and never leaves its limits", () => {
    let window = firstMoveWindow(1_000);
    expect(window).toBe(start);
    for (let i = 0; i < 20; i += 1) window = round(window, quickMs, 1_000);
    expect(window).toBe(1_000);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), fc.array(fc.nat(1_000)), (max, moves) => {
        let at = firstMoveWindow(max);
        for (const tookMs of moves) {
          at = nextMoveWindow(at, tookMs, max);
          expect(at).toBeGreaterThanOrEqual(Math.min(min, max));
          expect(at).toBeLessThanOrEqual(max);
        }
      }),
    );
  });
});
