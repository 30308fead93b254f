import { describe, expect, test } from "@jest/globals";
import { epoch, topicId, type SegmentEntry, type SegmentPhase } from "@sluice/core/model";
import { ClockGuard } from "../src/clock-guard.ts";
import { retentionCut } from "../src/retention.ts";

const HOUR = 3_600_000;
const partition = { topicId: topicId("t"), partition: 0 };
const seg = (
  k: number,
  base: number,
  end: number | undefined,
  lastAppendMs?: number,
  phase: SegmentPhase = "SEALED",
  sizeBytes = 100,
): SegmentEntry => ({
  partition,
  modRevision: k,
  record: {
    segment: { epoch: epoch(1), k },
    base,
    ...(end !== undefined && { end }),
    phase: end === undefined ? "OPEN" : phase,
    replicas: [],
    ...(end !== undefined && end >= base && { sizeBytes }),
    ...(lastAppendMs !== undefined && { lastAppendMs }),
  },
});
const tail = (k: number) => ({ epoch: epoch(1), k });
const never = { retentionMs: -1, retentionBytes: -1 };
const ks = (drop: readonly SegmentEntry[]): number[] => drop.map((s) => s.record.segment.k);

describe("retention", () => {
  const log = [seg(1, 0, 9, 1_000), seg(2, 10, 19, 2_000, "OFFLOADED"), seg(3, 20, 29, 3_000), seg(4, 30, undefined)];

  test.each([
    ["nothing is old", 1_500, { ...never, retentionMs: 1_000 }, undefined, []],
    ["the first is old", 2_500, { ...never, retentionMs: 1_000 }, 10, [1]],
    ["all sealed ones are old, the open one stays", 99_999, { ...never, retentionMs: 1_000 }, 30, [1, 2, 3]],
    ["age is exact at the limit", 2_000, { ...never, retentionMs: 1_000 }, undefined, []],
    ["over the size", 99_999, { ...never, retentionBytes: 200 }, 10, [1]],
    ["size never takes below the limit", 99_999, { ...never, retentionBytes: 201 }, undefined, []],
    ["no limit", 99_999, never, undefined, []],
  ] as const)("%s", (_, nowMs, settings, start, dropped) => {
    const cut = retentionCut(log, tail(4), 0, settings, nowMs);
    expect([cut.start, ks(cut.drop)]).toEqual([start, dropped]);
  });
  test("without a trusted clock nothing goes by age, size still counts", () => {
    expect(ks(retentionCut(log, tail(4), 0, { retentionMs: 0, retentionBytes: -1 }, undefined).drop)).toEqual([]);
    expect(ks(retentionCut(log, tail(4), 0, { retentionMs: 0, retentionBytes: 200 }, undefined).drop)).toEqual([1]);
  });
  test("the register's tail stays though it is sealed and old: the next owner begins at its end", () => {
    const sealed = log.slice(0, 3);
    expect(ks(retentionCut(sealed, tail(3), 0, { ...never, retentionMs: 1 }, 99_999).drop)).toEqual([1, 2]);
    expect(ks(retentionCut(sealed, undefined, 0, { ...never, retentionMs: 1 }, 99_999).drop)).toEqual([]);
  });
  test("what lies below the start goes, and empty segments with it; the start stays", () => {
    const withEmpty = [
      seg(1, 0, 9, 1_000),
      seg(2, 10, 9),
      ...log.slice(1).map((s) => ({ ...s, record: { ...s.record, segment: tail(s.record.segment.k + 1) } })),
    ];
    const cut = retentionCut(withEmpty, tail(5), 10, never, 5_000);
    expect([cut.start, ks(cut.drop), cut.cause]).toEqual([undefined, [1, 2], "below start"]);
  });
  test("a young segment shields older-looking ones behind it", () => {
    const odd = [seg(1, 0, 9, 9_000), seg(2, 10, 19, 1_000), seg(3, 20, undefined)];
    expect(ks(retentionCut(odd, tail(3), 0, { ...never, retentionMs: 5_000 }, 10_000).drop)).toEqual([]);
  });
  test("marked segments are passed over and do not count", () => {
    const marked = [seg(1, 0, 9, 1_000, "DELETING"), ...log.slice(1)];
    expect(ks(retentionCut(marked, tail(4), 10, { ...never, retentionBytes: 150 }, 1).drop)).toEqual([]);
  });
});

describe("clock of retention", () => {
  const wall = 1_000 * HOUR;
  test("a forward jump is refused, also when it comes slowly after", () => {
    const guard = new ClockGuard(HOUR, wall, 0);
    expect(guard.now(wall + 10_000, 10_000, wall)).toBe(wall + 10_000);
    expect(guard.now(wall + 5 * HOUR, 20_000, wall)).toBeUndefined();
    expect(guard.refused).toBe(true);
    expect(guard.now(wall + 5 * HOUR + 10_000, 30_000, wall)).toBeUndefined();
  });
  test("goes on when the clock is set back, or when others wrote such times down", () => {
    const guard = new ClockGuard(HOUR, wall, 0);
    guard.now(wall, 0, wall);
    guard.now(wall + 5 * HOUR, 10_000, wall);
    expect(guard.now(wall + 20_000, 20_000, wall)).toBe(wall + 20_000);
    guard.now(wall + 5 * HOUR, 30_000, wall);
    expect(guard.now(wall + 5 * HOUR + 1_000, 31_000, wall + 5 * HOUR)).toBe(wall + 5 * HOUR + 1_000);
  });
  test("a clock that was wrong from the start does not pass the largest persisted time by more than the step", () => {
    const guard = new ClockGuard(HOUR, wall + 900 * HOUR, 0);
    expect(guard.now(wall + 900 * HOUR, 0, wall)).toBe(wall + HOUR);
    expect(guard.now(wall + 900 * HOUR + 60_000, 60_000, wall)).toBe(wall + HOUR + 60_000);
  });
});
