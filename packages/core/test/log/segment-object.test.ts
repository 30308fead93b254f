import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import {
  ChainHash,
  checkRun,
  decodeAbortedTransactions,
  EMPTY_CHAIN_HASH,
  encodeAbortedTransactions,
  findBatch,
  parseBatchHeader,
  readSegmentFooter,
  scanBatches,
  SEGMENT_FOOTER_BYTES,
  SegmentIndex,
  SegmentObjectWriter,
  segmentParts,
} from "../../src/log/index.ts";
import { batch, codeThrown, crc32c, join } from "./support.ts";

const aborted = [{ producerId: 7, firstOffset: 101, lastOffset: 105, lastStableOffset: 101 }];
const producers = Uint8Array.of(1, 2, 3, 4, 5);

/** A segment of batches from offset 100 with the given numbers of records and times; fed in runs of `perRun` batches. */
function segment(
  list: readonly (readonly [records: number, timestamp: number])[],
  perRun = 3,
  interval = 200,
): { object: Uint8Array; end: number } {
  const writer = new SegmentObjectWriter({ base: 100, epoch: 1, crc32c, indexIntervalBytes: interval });
  const all: Uint8Array[] = [];
  let offset = 100;
  for (let i = 0; i < list.length; i += perRun) {
    const run = join(
      list.slice(i, i + perRun).map(([records, timestamp]) => {
        const b = batch(offset, records, 1, timestamp);
        offset += records;
        return b;
      }),
    );
    writer.add(run);
    all.push(run);
  }
  const { tail, length } = writer.finish({ end: offset - 1, producers, aborted });
  const object = join([...all, tail]);
  expect(object.length).toBe(length);
  return { object, end: offset - 1 };
}
/** As a reader does it: the footer from the last bytes, then the index by a range. */
function open(object: Uint8Array): SegmentIndex {
  const footer = readSegmentFooter(object.subarray(-SEGMENT_FOOTER_BYTES), object.length, crc32c);
  const { index } = segmentParts(footer);
  return new SegmentIndex(object.subarray(index.from, index.to), footer, crc32c);
}
const layout = fc.array(fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 0, max: 50 })), { minLength: 1, maxLength: 30 });

describe("segment object", () => {
  test("every batch is found by offset and by time through footer and index", () => {
    fc.assert(
      fc.property(layout, fc.integer({ min: 1, max: 7 }), (list, perRun) => {
        const { object, end } = segment(list, perRun);
        const index = open(object);
        const { batches, producers: p, aborted: a } = segmentParts(index.footer);
        const run = object.subarray(batches.from, batches.to);
        const summary = checkRun(run, { firstOffset: 100, epoch: 1, crc32c });
        expect(index.footer).toMatchObject({
          base: 100,
          end,
          batchCount: summary.batches,
          recordCount: summary.records,
          maxTimestampMs: summary.maxTimestamp,
        });
        expect(object.slice(p.from, p.to)).toEqual(producers);
        expect(decodeAbortedTransactions(object.subarray(a.from, a.to))).toEqual(aborted);
        expect(index.footer.batchCrc).toBe(crc32c(run));
        const hash = new ChainHash();
        scanBatches(run, (h) => void hash.add(h.baseOffset, h.partitionLeaderEpoch, h.crc));
        expect(index.footer.chainHash).toBe(hash.hex());
        for (let offset = 100; offset <= end; offset++) {
          const from = index.positionOf(offset) as number;
          // What one index step covers is enough to find the batch.
          const at = findBatch(run, offset, from, index.nextPosition(from));
          expect(index.offsetAt(from)).toBe(parseBatchHeader(run, from).baseOffset);
          const h = parseBatchHeader(run, at);
          expect(h.baseOffset <= offset && offset <= h.lastOffset).toBe(true);
        }
        expect(index.positionOf(end + 1)).toBeUndefined();
        for (let t = 0; t < 56; t += 5) {
          let first = -1;
          scanBatches(run, (h, at) => {
            first = h.maxTimestamp >= t ? at : -1;
            return first < 0;
          });
          const from = index.positionOfTimestamp(t);
          if (first < 0) expect(from).toBeUndefined();
          else {
            expect(from).toBeLessThanOrEqual(first);
            expect(index.offsetAt(from as number)).toBe(parseBatchHeader(run, from).baseOffset);
          }
        }
      }),
      { numRuns: 30 },
    );
  });
  test("an empty segment", () => {
    const { object, end } = segment([]);
    const index = open(object);
    expect(end).toBe(99);
    expect(index.footer).toMatchObject({
      base: 100,
      end: 99,
      batchCount: 0,
      batchBytes: 0,
      maxTimestampMs: -1,
      chainHash: EMPTY_CHAIN_HASH,
    });
    expect([index.positionOf(100), index.positionOfTimestamp(0)]).toEqual([undefined, undefined]);
  });
  test("a compacted segment has gaps, only when said so", () => {
    const gaps = { base: 100, crc32c, gaps: true };
    const writer = new SegmentObjectWriter(gaps);
    writer.add(join([batch(105, 1), batch(120, 2)]));
    const { tail } = writer.finish({ end: 130, producers, aborted: [] });
    const index = open(join([batch(105, 1), batch(120, 2), tail]));
    expect([index.positionOf(100), index.positionOf(110), index.positionOf(130)]).toEqual([0, 0, 0]);
    expect(codeThrown(() => new SegmentObjectWriter({ base: 100, crc32c }).add(batch(105, 1)))).toBe("CORRUPT_SEGMENT");
    expect(codeThrown(() => new SegmentObjectWriter(gaps).add(batch(99, 1)))).toBe("CORRUPT_SEGMENT");
  });
  test("the writer refuses what a segment must not hold", () => {
    const add = (run: Uint8Array, epoch = 1) => codeThrown(() => new SegmentObjectWriter({ base: 100, epoch, crc32c }).add(run));
    const good = batch(100, 2);
    expect(add(good)).toBeUndefined();
    expect(add(good, 2)).toBe("CORRUPT_SEGMENT");
    expect(add(batch(101, 1))).toBe("CORRUPT_SEGMENT");
    expect(add(good.subarray(0, -1))).toBe("CORRUPT_SEGMENT");
    const flipped = good.slice();
    flipped[65] = (flipped[65] as number) ^ 1;
    expect(add(flipped)).toBe("CORRUPT_SEGMENT");
    const writer = new SegmentObjectWriter({ base: 100, crc32c });
    writer.add(good);
    expect(codeThrown(() => writer.finish({ end: 102, producers, aborted: [] }))).toBe("CORRUPT_SEGMENT");
    expect(writer.nextOffset).toBe(102);
  });
});

describe("a damaged segment object", () => {
  const { object } = segment(
    [
      [2, 5],
      [1, 3],
      [4, 9],
      [1, 9],
      [3, 20],
    ],
    2,
    100,
  );
  test("any flipped bit behind the batches is found", () => {
    const from = segmentParts(open(object).footer).index.from;
    for (let at = from; at < object.length; at++) {
      const bad = object.slice();
      bad[at] = (bad[at] as number) ^ 0x01;
      const code = codeThrown(() => {
        const { footer } = open(bad);
        const { producers: p, aborted: a } = segmentParts(footer);
        const sums = [crc32c(bad.subarray(p.from, p.to)), crc32c(bad.subarray(a.from, a.to))];
        if (sums[0] === footer.producerCrc && sums[1] === footer.abortedCrc) throw new Error(`byte ${at} was not found`);
      });
      expect([undefined, "CORRUPT_SEGMENT", "UNSUPPORTED_FORMAT"]).toContain(code);
    }
  });
  test("cut off, too long, or not one", () => {
    expect(codeThrown(() => open(object.subarray(0, -1)))).toBe("CORRUPT_SEGMENT");
    expect(codeThrown(() => open(join([Uint8Array.of(0), object])))).toBe("CORRUPT_SEGMENT");
    expect(codeThrown(() => open(new Uint8Array(10)))).toBe("CORRUPT_SEGMENT");
    fc.assert(fc.property(fc.uint8Array({ maxLength: 400 }), (junk) => expect(codeThrown(() => open(junk))).toBe("CORRUPT_SEGMENT")));
  });
  /** A footer with some bytes changed and its CRC made good: what a faulty writer would leave. */
  const forged = (at: number, ...values: number[]): Uint8Array => {
    const bad = object.slice();
    const footer = bad.subarray(-SEGMENT_FOOTER_BYTES);
    footer.set(values, at);
    new DataView(footer.buffer, footer.byteOffset).setUint32(148, crc32c(footer.subarray(0, 148)));
    return bad;
  };
  test.each<[string, Uint8Array]>([
    ["a giant batch size", forged(72, 0, 0x1f, 255, 255, 255, 255, 255, 255)],
    ["a giant offset index", forged(84, 255, 255, 255, 255)],
    ["giant entry counts", forged(24, 255, 255, 255, 255, 255, 255, 255, 255)],
    ["a base over 2^53", forged(40, 0x7f)],
    ["a negative base", forged(40, 255)],
    ["an end before the base", forged(48, 0, 0, 0, 0, 0, 0, 0, 9)],
    ["no batches in many bytes", forged(12, 0, 0, 0, 0)],
  ])("a forged footer with %s is refused before anything is allocated", (_name, bad) => {
    expect(codeThrown(() => readSegmentFooter(bad.subarray(-SEGMENT_FOOTER_BYTES), bad.length, crc32c))).toBe("CORRUPT_SEGMENT");
  });
  test("the parts must add up to the length in the reference", () => {
    const footer = object.subarray(-SEGMENT_FOOTER_BYTES);
    for (const off of [-1, 1, 2 ** 32])
      expect(codeThrown(() => readSegmentFooter(footer, object.length + off, crc32c))).toBe("CORRUPT_SEGMENT");
    expect(codeThrown(() => readSegmentFooter(footer, object.length, crc32c))).toBeUndefined();
  });
  test("a newer format says so; unknown optional features do not matter", () => {
    expect(codeThrown(() => open(forged(2, 0, 2)))).toBe("UNSUPPORTED_FORMAT");
    expect(codeThrown(() => open(forged(8, 0, 0, 0, 1)))).toBe("UNSUPPORTED_FORMAT");
    expect(open(forged(0, 0, 2)).footer.version).toBe(2);
    expect(open(forged(4, 0, 0, 0x80, 1)).footer.features).toBe(0x8001);
  });
  test("an index that points outside or back is refused though its CRC is good", () => {
    const { footer } = open(object);
    const { index } = segmentParts(footer);
    const check = (at: number, value: number): string | undefined => {
      const bytes = object.slice(index.from, index.to);
      bytes[at] = value;
      const fixed = { ...footer, offsetIndexCrc: crc32c(bytes.subarray(0, footer.offsetIndexBytes)) };
      return codeThrown(() => new SegmentIndex(bytes, fixed, crc32c));
    };
    expect(footer.offsetEntries).toBeGreaterThan(2);
    expect(check(12 + 8, 0x7f)).toBe("CORRUPT_SEGMENT");
    expect(check(footer.offsetIndexBytes - 4, 0x7f)).toBe("CORRUPT_SEGMENT");
    expect(check(24, 0x40)).toBe("CORRUPT_SEGMENT");
    expect(check(12 + 7, 0)).toBe("CORRUPT_SEGMENT");
    expect(check(11, 1)).toBe("CORRUPT_SEGMENT");
  });
});

describe("aborted transactions", () => {
  test("round trip; odd sizes and giant numbers are refused", () => {
    const number = fc.maxSafeNat();
    fc.assert(
      fc.property(
        fc.array(fc.record({ producerId: number, firstOffset: number, lastOffset: number, lastStableOffset: number }), { maxLength: 9 }),
        (list) => {
          expect(decodeAbortedTransactions(encodeAbortedTransactions(list))).toEqual(list);
        },
      ),
    );
    expect(codeThrown(() => decodeAbortedTransactions(new Uint8Array(33)))).toBe("CORRUPT_SEGMENT");
    expect(codeThrown(() => decodeAbortedTransactions(new Uint8Array(32).fill(0x7f)))).toBe("CORRUPT_SEGMENT");
  });
});
