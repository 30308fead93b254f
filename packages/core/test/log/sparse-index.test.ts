import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { SparseIndex } from "../../src/log/index.ts";

const batches = fc.array(
  fc.record({
    records: fc.integer({ min: 1, max: 9 }),
    timestamp: fc.integer({ min: -1, max: 60 }),
    bytes: fc.integer({ min: 61, max: 700 }),
  }),
  { minLength: 1, maxLength: 80 },
);
interface Placed {
  readonly offset: number;
  readonly last: number;
  readonly position: number;
  readonly timestamp: number;
}
function fill(list: readonly { records: number; timestamp: number; bytes: number }[], interval: number): [SparseIndex, Placed[]] {
  const index = new SparseIndex(interval);
  const placed: Placed[] = [];
  let offset = 500;
  let position = 0;
  for (const b of list) {
    index.add(offset, b.timestamp, position, b.bytes);
    placed.push({ offset, last: offset + b.records - 1, position, timestamp: b.timestamp });
    offset += b.records;
    position += b.bytes;
  }
  return [index, placed];
}

describe("sparse index", () => {
  test("a scan from the entry of an offset finds its batch, and passes few others", () => {
    fc.assert(
      fc.property(batches, fc.integer({ min: 61, max: 4096 }), (list, interval) => {
        const [index, placed] = fill(list, interval);
        for (const b of placed) {
          const from = index.floorPosition(b.last);
          expect(from).toBeLessThanOrEqual(b.position);
          expect(b.position - from).toBeLessThan(interval + 700);
        }
        expect(index.floorPosition(499)).toBe(-1);
        expect(index.length).toBeLessThanOrEqual(placed.length);
      }),
    );
  });
  test("a scan from the entry of a time finds the first batch that is as late", () => {
    fc.assert(
      fc.property(batches, fc.integer({ min: 61, max: 2048 }), (list, interval) => {
        const [index, placed] = fill(list, interval);
        for (let t = 0; t <= 61; t += 3) {
          const first = placed.find((b) => b.timestamp >= t);
          const from = index.timestampPosition(t);
          if (first === undefined) expect(from).toBe(-1);
          else {
            const scanned = first.position - from;
            if (from < 0 || scanned < 0 || scanned >= interval + 700)
              throw new Error(`time ${t}: scan from ${from}, batch at ${first.position}`);
          }
        }
      }),
    );
  });
  test("entries lie at least the interval apart", () => {
    const [index] = fill(
      Array.from({ length: 100 }, () => ({ records: 1, timestamp: 1, bytes: 100 })),
      1000,
    );
    expect(index.length).toBe(10);
    for (let i = 1; i < index.length; i++) expect(index.positionAt(i) - index.positionAt(i - 1)).toBe(1000);
    expect(index.heldBytes).toBeLessThan(1000);
  });
  test("a cut tail is forgotten and can be written anew", () => {
    const [index] = fill(
      Array.from({ length: 50 }, () => ({ records: 1, timestamp: 1, bytes: 100 })),
      100,
    );
    index.truncate(520);
    expect(index.length).toBe(20);
    expect(index.floorPosition(1000)).toBe(1900);
    index.add(520, 2, 7777, 100);
    expect(index.floorPosition(520)).toBe(7777);
    index.truncate(0);
    expect(index.floorPosition(520)).toBe(-1);
    expect(new SparseIndex().timestampPosition(0)).toBe(-1);
  });
});
