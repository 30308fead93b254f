import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { limits } from "../../src/model/index.ts";
import {
  BATCH_HEADER_BYTES,
  BatchCursor,
  newBatchHeader,
  newProducedRun,
  stampRun,
  validateRun,
  writeBatchHeader,
} from "../../src/log/index.ts";
import { crc32c, join } from "./support.ts";

const rules = { crc32c };
const batch = (records: number, fields: { producerId?: number; maxTimestamp?: number } = {}): Uint8Array => {
  const bytes = new Uint8Array(BATCH_HEADER_BYTES + 7 * records).fill(records, BATCH_HEADER_BYTES);
  writeBatchHeader(
    bytes,
    0,
    {
      baseOffset: 0,
      lastOffsetDelta: records - 1,
      totalBytes: bytes.length,
      partitionLeaderEpoch: -1,
      attributes: 0,
      baseTimestamp: 1,
      maxTimestamp: fields.maxTimestamp ?? 1,
      producerId: fields.producerId ?? -1,
      producerEpoch: fields.producerId === undefined ? -1 : 0,
      baseSequence: fields.producerId === undefined ? -1 : 0,
      recordsCount: records,
    },
    crc32c,
  );
  return bytes;
};
const judge = (bytes: Uint8Array, run = newProducedRun()) => validateRun(bytes, rules, newBatchHeader(), run);

describe("a run as a producer sends it", () => {
  test("is taken as one batch or several, and summed up", () => {
    const run = newProducedRun();
    expect(judge(batch(3), run)).toBeUndefined();
    expect(run).toEqual({ batches: 1, records: 3, maxTimestamp: 1 });
    expect(judge(join([batch(3), batch(1, { maxTimestamp: 9 }), batch(5)]), run)).toBeUndefined();
    expect(run).toEqual({ batches: 3, records: 9, maxTimestamp: 9 });
  });
  test("a single batch may carry a producer id, one of several may not", () => {
    expect(judge(batch(1, { producerId: 5 }))).toBeUndefined();
    expect(judge(join([batch(1, { producerId: 5 }), batch(1)]))).toBe("INVALID_ARGUMENT");
    expect(judge(join([batch(1), batch(1, { producerId: 5 })]))).toBe("INVALID_ARGUMENT");
  });
  test("whatever is wrong with one batch is wrong with the run", () => {
    const damaged = batch(2);
    damaged[damaged.length - 1] = 99;
    expect(judge(join([batch(1), damaged]))).toBe("CORRUPT_BATCH");
    expect(judge(join([batch(1), batch(2).subarray(0, 40)]))).toBe("CORRUPT_BATCH");
    expect(judge(join([batch(1), new Uint8Array(3)]))).toBe("CORRUPT_BATCH");
  });
  test("limits of bytes and batches", () => {
    const many = join(Array.from({ length: limits.produceRunBatchesMax + 1 }, () => batch(1)));
    expect(judge(many)).toBe("MESSAGE_TOO_LARGE");
    expect(judge(many.subarray(batch(1).length))).toBeUndefined();
    const third = batch(Math.ceil(limits.produceRunBytesMax / 3 / 7));
    expect(judge(join([third, third]))).toBeUndefined();
    expect(judge(join([third, third, third]))).toBe("MESSAGE_TOO_LARGE");
  });
  test("stamping gives successive offsets and changes no checksum", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 20 }), fc.nat(2 ** 40), (counts, base) => {
        const bytes = join(counts.map((n) => batch(n)));
        const total = counts.reduce((a, b) => a + b, 0);
        expect(stampRun(bytes, base, 7)).toBe(base + total);
        const cursor = new BatchCursor(bytes);
        let next = base;
        while (cursor.next()) {
          expect([cursor.header.baseOffset, cursor.header.partitionLeaderEpoch]).toEqual([next, 7]);
          next = cursor.header.lastOffset + 1;
        }
        expect(next).toBe(base + total);
        expect(judge(bytes)).toBeUndefined();
      }),
    );
  });
});
