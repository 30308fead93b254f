import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { BatchCursor, checkRun, cutRun, cutRunBytes, findBatch, findBatchByTime, scanBatches } from "../../src/log/index.ts";
import { batch, codeThrown, crc32c, join } from "./support.ts";

const counts = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 12 });
function runOf(sizes: readonly number[], base = 100): { run: Uint8Array; ends: number[]; lasts: number[] } {
  const parts: Uint8Array[] = [];
  const ends: number[] = [];
  const lasts: number[] = [];
  let offset = base;
  let end = 0;
  for (const n of sizes) {
    const b = batch(offset, n);
    parts.push(b);
    end += b.length;
    offset += n;
    ends.push(end);
    lasts.push(offset - 1);
  }
  return { run: join(parts), ends, lasts };
}

describe("a run of batches", () => {
  test("is walked batch by batch", () => {
    fc.assert(
      fc.property(counts, (sizes) => {
        const { run, ends, lasts } = runOf(sizes);
        const seen: number[] = [];
        expect(scanBatches(run, (h, at) => void seen.push(h.lastOffset, at))).toBe(run.length);
        expect(seen).toEqual(lasts.flatMap((last, i) => [last, i === 0 ? 0 : (ends[i - 1] as number)]));
      }),
    );
  });
  test("a cut off end is left over, and the walk says why", () => {
    const { run, ends } = runOf([2, 3]);
    for (let to = 0; to < run.length; to++) {
      const cursor = new BatchCursor(run, 0, to);
      while (cursor.next());
      const whole = to >= (ends[0] as number) ? (ends[0] as number) : 0;
      expect(cursor.nextPosition).toBe(whole);
      expect(cursor.stop).toBe(to === whole ? undefined : "incomplete");
      if (to !== whole) expect(codeThrown(() => cursor.expectEnd())).toBe("CORRUPT_BATCH");
    }
  });
  test("the visitor can stop it", () => {
    const { run, ends } = runOf([1, 1, 1]);
    expect(scanBatches(run, (h) => h.baseOffset < 101)).toBe(ends[1]);
  });
  test("a cursor is reusable after a malformed run", () => {
    const cursor = new BatchCursor(new Uint8Array(80));
    expect(cursor.next()).toBe(false);
    expect(cursor.stop).toBe("unsupported");
    const { run } = runOf([1]);
    expect(cursor.reset(run).next()).toBe(true);
    expect(cursor.next()).toBe(false);
    expect(cursor.stop).toBeUndefined();
  });
  test("cut at an offset gives the longest prefix at or below it", () => {
    fc.assert(
      fc.property(counts, fc.integer({ min: 95, max: 165 }), (sizes, limit) => {
        const { run, ends, lasts } = runOf(sizes);
        const n = lasts.filter((last) => last <= limit).length;
        expect(cutRun(run, limit)).toBe(n === 0 ? 0 : ends[n - 1]);
      }),
    );
  });
  test("cut at a size gives at least one batch", () => {
    const { run, ends } = runOf([1, 1, 1]);
    expect(cutRunBytes(run, 1)).toBe(ends[0]);
    expect(cutRunBytes(run, ends[1] as number)).toBe(ends[1]);
    expect(cutRunBytes(run, (ends[1] as number) + 5)).toBe(ends[1]);
    expect(cutRunBytes(run.subarray(0, 50), 1000)).toBe(0);
  });
  test("finds the batch that holds an offset, or the next one over a gap", () => {
    const run = join([batch(10, 3), batch(20, 2), batch(22, 1)]);
    const at = batch(10, 3).length;
    expect([0, 10, 12].map((o) => findBatch(run, o))).toEqual([0, 0, 0]);
    expect([13, 19, 20, 21].map((o) => findBatch(run, o))).toEqual([at, at, at, at]);
    expect(findBatch(run, 22)).toBe(at + batch(20, 2).length);
    expect(findBatch(run, 23)).toBe(-1);
  });
  test("finds the first batch that is late enough, though times are not in order", () => {
    const parts = [batch(0, 1, 1, 50), batch(1, 2, 1, 80), batch(3, 1, 1, 60), batch(4, 1, 1, 90)];
    const run = join(parts);
    const at = (n: number): number => parts.slice(0, n).reduce((sum, p) => sum + p.length, 0);
    expect([0, 50, 51, 81, 82, 90].map((t) => findBatchByTime(run, t))).toEqual([0, 0, at(1), at(1), at(3), at(3)]);
    expect(findBatchByTime(run, 91)).toBe(-1);
  });
  test("random bytes end the walk without a throw", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), counts, fc.nat(), (junk, sizes, where) => {
        const { run } = runOf(sizes);
        const mixed = join([run, junk]);
        mixed[where % mixed.length] = junk[0] ?? 0;
        const consumed = scanBatches(mixed, () => true);
        expect(consumed).toBeLessThanOrEqual(mixed.length);
        cutRun(mixed, 120);
        findBatch(mixed, 120);
      }),
      { numRuns: 300 },
    );
  });
});

describe("the check of a whole run", () => {
  test("sums it up", () => {
    const { run } = runOf([2, 3, 1]);
    expect(checkRun(run, { firstOffset: 100, epoch: 1, crc32c })).toEqual({
      batches: 3,
      records: 6,
      bytes: run.length,
      firstOffset: 100,
      lastOffset: 105,
      maxTimestamp: 1105,
    });
    expect(checkRun(new Uint8Array(0))).toMatchObject({ batches: 0, firstOffset: -1, lastOffset: -1, maxTimestamp: -1, bytes: 0 });
  });
  test("refuses a gap, an overlap, another epoch, a bad CRC and left-over bytes", () => {
    const ok = join([batch(5, 2), batch(7, 1)]);
    expect(codeThrown(() => checkRun(ok, { firstOffset: 5 }))).toBeUndefined();
    expect(codeThrown(() => checkRun(ok, { firstOffset: 4 }))).toBe("CORRUPT_BATCH");
    expect(codeThrown(() => checkRun(ok, { firstOffset: 4, contiguous: false }))).toBe("CORRUPT_BATCH");
    expect(codeThrown(() => checkRun(join([batch(5, 2), batch(8, 1)])))).toBe("CORRUPT_BATCH");
    expect(codeThrown(() => checkRun(join([batch(5, 2), batch(8, 1)]), { contiguous: false }))).toBeUndefined();
    expect(codeThrown(() => checkRun(join([batch(5, 2), batch(6, 1)]), { contiguous: false }))).toBe("CORRUPT_BATCH");
    expect(codeThrown(() => checkRun(ok, { epoch: 2 }))).toBe("CORRUPT_BATCH");
    expect(codeThrown(() => checkRun(join([ok, Uint8Array.of(1)])))).toBe("CORRUPT_BATCH");
    const bad = ok.slice();
    bad[70] = (bad[70] as number) ^ 1;
    expect(codeThrown(() => checkRun(bad, { firstOffset: 5 }))).toBeUndefined();
    expect(codeThrown(() => checkRun(bad, { crc32c }))).toBe("CORRUPT_BATCH");
  });
});
