import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import {
  batchBytesAt,
  batchCrc,
  BATCH_HEADER_BYTES,
  newBatchHeader,
  parseBatchHeader,
  readBatchHeader,
  stampAppendTime,
  stampBatch,
  stampProducer,
  validateBatch,
} from "../../src/log/index.ts";
import type { BatchRules } from "../../src/log/index.ts";
import { batch, codeThrown, crc32c, join } from "./support.ts";

/** A batch with bytes changed: at position, value; CRC made good again unless told otherwise. */
function altered(changes: readonly (readonly [number, ...number[]])[], fixCrc = true, from = batch(0, 3)): Uint8Array {
  const bytes = from.slice();
  for (const [at, ...values] of changes) bytes.set(values, at);
  if (fixCrc) new DataView(bytes.buffer).setUint32(17, crc32c(bytes.subarray(21)));
  return bytes;
}
const FF8 = [255, 255, 255, 255, 255, 255, 255, 255] as const;

describe("header", () => {
  test("reads every field at its place", () => {
    const bytes = altered([
      [0, 0, 0, 1, 2, 3, 4, 5, 6],
      [12, 0x7f, 1, 2, 3],
      [21, 0x00, 0x7c],
      [27, 0, 0, 1, 0x9a, 0, 0, 0, 1],
      [35, ...FF8],
      [43, 0, 0, 0, 1, 0, 0, 0, 2],
      [51, 0x01, 0x02],
      [53, 0x0a, 0x0b, 0x0c, 0x0d],
    ]);
    const h = parseBatchHeader(bytes);
    expect(h).toMatchObject({
      baseOffset: 0x0001_0203_0405_06,
      lastOffset: 0x0001_0203_0405_06 + 2,
      lastOffsetDelta: 2,
      batchLength: bytes.length - 12,
      totalBytes: bytes.length,
      partitionLeaderEpoch: 0x7f01_0203,
      magic: 2,
      attributes: 0x7c,
      codec: 4,
      logAppendTime: true,
      isTransactional: true,
      isControl: true,
      hasDeleteHorizon: true,
      baseTimestamp: 0x019a_0000_0001,
      maxTimestamp: -1,
      producerId: 2 ** 32 + 2,
      producerEpoch: 0x0102,
      baseSequence: 0x0a0b_0c0d,
      recordsCount: 3,
    });
    expect(h.crc).toBe(batchCrc(bytes, 0, bytes.length, crc32c));
  });
  test("fills the given object, and one object serves a run", () => {
    const run = join([batch(5, 2), batch(7, 1)]);
    const header = newBatchHeader();
    expect(parseBatchHeader(run, 0, header)).toBe(header);
    expect(parseBatchHeader(run, header.totalBytes, header).baseOffset).toBe(7);
  });
  test("tells what is cut off from what is malformed or of another version", () => {
    const bytes = batch(0, 3);
    const h = newBatchHeader();
    for (let n = 0; n < bytes.length; n++) expect(readBatchHeader(bytes, 0, n, h)).toBe("incomplete");
    expect(readBatchHeader(bytes, 0, bytes.length + 100, h)).toBeUndefined();
    // An end beyond the memory does not make it longer.
    expect(readBatchHeader(bytes.subarray(0, -1), 0, bytes.length, h)).toBe("incomplete");
    expect(readBatchHeader(bytes, -1, bytes.length, h)).toBe("incomplete");
    expect(readBatchHeader(altered([[16, 1]]), 0, bytes.length, h)).toBe("unsupported");
    for (const length of [
      [0, 0, 0, 48],
      [0, 0, 0, 0],
      [0x80, 0, 0, 0],
      [255, 255, 255, 255],
    ])
      expect(readBatchHeader(altered([[8, ...length]]), 0, bytes.length, h)).toBe("malformed");
    expect(readBatchHeader(altered([[8, 0x7f, 255, 255, 255]]), 0, bytes.length, h)).toBe("incomplete");
    expect(readBatchHeader(altered([[23, 255, 255, 255, 255]]), 0, bytes.length, h)).toBe("malformed");
    expect(readBatchHeader(altered([[57, 255, 255, 255, 255]]), 0, bytes.length, h)).toBe("malformed");
    expect(readBatchHeader(altered([[0, 255]]), 0, bytes.length, h)).toBe("malformed");
    expect(readBatchHeader(altered([[0, 0, 0x20]]), 0, bytes.length, h)).toBe("malformed");
    expect(codeThrown(() => parseBatchHeader(bytes.subarray(0, 60)))).toBe("CORRUPT_BATCH");
    expect(codeThrown(() => parseBatchHeader(altered([[16, 0]])))).toBe("UNSUPPORTED_FORMAT");
  });
  test("batchBytesAt trusts nothing but the field", () => {
    const bytes = batch(0, 3);
    expect(batchBytesAt(bytes, 0)).toBe(bytes.length);
    expect(batchBytesAt(bytes.subarray(0, 11), 0)).toBe(-1);
    expect(batchBytesAt(altered([[8, 255, 0, 0, 0]]), 0)).toBe(-1);
  });
  test("random bytes never throw and never pass the end", () => {
    const h = newBatchHeader();
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.integer({ min: -5, max: 210 }), (bytes, at) => {
        if (bytes.length > at + 16 && at >= 0) bytes[at + 16] = 2;
        if (readBatchHeader(bytes, at, bytes.length, h) === undefined) expect(at + h.totalBytes).toBeLessThanOrEqual(bytes.length);
      }),
      { numRuns: 500 },
    );
  });
});

describe("stamps", () => {
  test("base offset and epoch change no byte behind them and leave the CRC good", () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.integer({ min: 0, max: 0x7fff_ffff }), (baseOffset, epoch) => {
        const offset = Math.min(baseOffset, Number.MAX_SAFE_INTEGER - 10);
        const run = join([batch(1), batch(0, 4), batch(9)]);
        const at = batch(1).length;
        const before = run.slice();
        stampBatch(run, at, offset, epoch);
        const h = parseBatchHeader(run, at);
        expect([h.baseOffset, h.lastOffset, h.partitionLeaderEpoch]).toEqual([offset, offset + 3, epoch]);
        expect(batchCrc(run, at, h.totalBytes, crc32c)).toBe(h.crc);
        before.copyWithin(at, at);
        expect(run.subarray(0, at)).toEqual(before.subarray(0, at));
        expect(run.subarray(at + 16)).toEqual(before.subarray(at + 16));
      }),
    );
  });
  test("append time sets bit, time and CRC, and keeps the other attributes", () => {
    const bytes = altered([[21, 0, 0x13]]);
    stampAppendTime(bytes, 0, 1_764_437_000_123, crc32c);
    const h = parseBatchHeader(bytes);
    expect(h).toMatchObject({ codec: 3, isTransactional: true, logAppendTime: true, maxTimestamp: 1_764_437_000_123 });
    expect(batchCrc(bytes, 0, h.totalBytes, crc32c)).toBe(h.crc);
    expect(validateBatch(bytes, 0, { crc32c, internal: true })).not.toBe("CORRUPT_BATCH");
  });
  test("producer fields", () => {
    const bytes = batch(0, 3);
    stampProducer(bytes, 0, 2 ** 40 + 1, 7, 0x7fff_fff0, crc32c);
    expect(parseBatchHeader(bytes)).toMatchObject({ producerId: 2 ** 40 + 1, producerEpoch: 7, baseSequence: 0x7fff_fff0 });
    expect(validateBatch(bytes, 0, { crc32c })).toBeUndefined();
  });
});

describe("validation of what a client sends", () => {
  const verdict = (bytes: Uint8Array, rules: BatchRules = {}): string => validateBatch(bytes, 0, { crc32c, ...rules }) ?? "ok";
  const id = [0, 0, 0, 0, 0, 0, 0, 9];
  test.each<[string, string, readonly (readonly [number, ...number[]])[], BatchRules?]>([
    ["ok", "as built", []],
    ["UNSUPPORTED_FORMAT", "magic 1", [[16, 1]]],
    ["UNSUPPORTED_FORMAT", "magic 3", [[16, 3]]],
    ["CORRUPT_BATCH", "length too large", [[8, 0x7f, 0, 0, 0]]],
    [
      "INVALID_RECORD",
      "no records",
      [
        [23, 0, 0, 0, 0],
        [57, 0, 0, 0, 0],
      ],
    ],
    ["INVALID_RECORD", "count below delta", [[57, 0, 0, 0, 2]]],
    ["INVALID_RECORD", "count above delta", [[57, 0, 0, 0, 4]]],
    [
      "INVALID_RECORD",
      "more records than bytes for them",
      [
        [23, 0, 0, 0, 99],
        [57, 0, 0, 0, 100],
      ],
    ],
    [
      "ok",
      "the same behind a codec: nobody looks inside",
      [
        [22, 1, 0, 0, 0, 99],
        [57, 0, 0, 0, 100],
      ],
    ],
    ["UNSUPPORTED_CODEC", "codec 5", [[22, 5]]],
    ["UNSUPPORTED_CODEC", "codec 7", [[22, 7]]],
    [
      "INVALID_RECORD",
      "control batch",
      [
        [22, 0x20],
        [43, ...id],
        [51, 0, 0],
      ],
    ],
    [
      "ok",
      "control batch of ours",
      [
        [22, 0x20],
        [43, ...id],
        [51, 0, 0],
      ],
      { internal: true },
    ],
    ["INVALID_RECORD", "delete horizon", [[22, 0x40]]],
    ["INVALID_TIMESTAMP", "append time set by the client", [[22, 0x08]]],
    ["INVALID_RECORD", "transaction without producer", [[22, 0x10]]],
    ["INVALID_RECORD", "producer without epoch", [[43, ...id]]],
    [
      "INVALID_RECORD",
      "producer without sequence",
      [
        [43, ...id],
        [51, 0, 0],
      ],
    ],
    [
      "ok",
      "producer",
      [
        [43, ...id],
        [51, 0, 0],
        [53, 0, 0, 0, 0],
      ],
    ],
    ["INVALID_RECORD", "producer id -2", [[43, 255, 255, 255, 255, 255, 255, 255, 254]]],
    [
      "INVALID_RECORD",
      "producer id over 2^53",
      [
        [43, 0x40],
        [51, 0, 0, 0, 0, 0, 0],
      ],
    ],
    ["INVALID_TIMESTAMP", "time -2", [[27, 255, 255, 255, 255, 255, 255, 255, 254]]],
    ["INVALID_TIMESTAMP", "time over 2^53", [[35, 0x40]]],
    [
      "ok",
      "no time",
      [
        [27, ...FF8],
        [35, ...FF8],
      ],
    ],
    ["MESSAGE_TOO_LARGE", "over max.message.bytes", [], { messageBytesMax: 100 }],
    ["MESSAGE_TOO_LARGE", "too many records", [], { recordsMax: 2 }],
  ])("%s: %s", (expected, _name, changes, rules = {}) => {
    expect(verdict(altered(changes), rules)).toBe(expected);
  });
  test("any flipped bit behind the CRC field is found, unless the check is off", () => {
    const good = batch(0, 3);
    for (let at = 21; at < good.length; at++) {
      const bad = good.slice();
      bad[at] = (bad[at] as number) ^ 0x10;
      expect(verdict(bad)).not.toBe("ok");
    }
    const flipped = altered([[BATCH_HEADER_BYTES + 3, 99]], false);
    expect(verdict(flipped)).toBe("CORRUPT_BATCH");
    expect(validateBatch(flipped, 0, {})).toBeUndefined();
  });
  test("time limits of the topic, against the broker's clock", () => {
    const at = (ms: number): Uint8Array => batch(0, 1, 0, ms);
    const rules = { timestamps: { nowMs: 10_000, beforeMaxMs: 1_000, afterMaxMs: 500 } };
    expect(verdict(at(9_000), rules)).toBe("ok");
    expect(verdict(at(8_999), rules)).toBe("INVALID_TIMESTAMP");
    expect(verdict(at(10_500), rules)).toBe("ok");
    expect(verdict(at(10_501), rules)).toBe("INVALID_TIMESTAMP");
    expect(verdict(at(-1), rules)).toBe("ok");
  });
  test("looks only between the given bounds", () => {
    const run = join([batch(0, 1), batch(1, 1)]);
    const first = batch(0, 1).length;
    expect(validateBatch(run, 0, { crc32c }, newBatchHeader(), first - 1)).toBe("CORRUPT_BATCH");
    expect(validateBatch(run, first, { crc32c })).toBeUndefined();
  });
});
