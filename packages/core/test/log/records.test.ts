import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import {
  BATCH_HEADER_BYTES,
  BatchBuilder,
  checkRecords,
  codecs as numbers,
  decodeRecords,
  decompressedBytesMax,
  parseBatchHeader,
  RecordCursor,
  stampAppendTime,
  validateBatch,
  writeBatchHeader,
} from "../../src/log/index.ts";
import { limits } from "../../src/model/index.ts";
import { batch, codeThrown, crc32c, runLengthCodecs as codecs, utf8 } from "./support.ts";
import type { TestRecord } from "./support.ts";

const bytes = fc.uint8Array({ maxLength: 40 });
const field = fc.option(bytes, { nil: null });
const record: fc.Arbitrary<TestRecord> = fc.record({
  timestampMs: fc.oneof(fc.constant(-1), fc.integer({ min: 0, max: 4_000_000_000_000 })),
  key: field,
  value: field,
  headers: fc.array(fc.record({ key: bytes, value: field }), { maxLength: 4 }),
});
const recordList = fc.array(record, { minLength: 1, maxLength: 20 });

function build(list: readonly TestRecord[], codec: 0 | 1 = 0, bytesMax = 1 << 20): Uint8Array {
  const builder = new BatchBuilder({ crc32c, codecs, codec, bytesMax });
  for (const r of list) expect(builder.tryAppend(r.timestampMs, r.key, r.value, r.headers)).toBe(true);
  return builder.close({ baseOffset: 1000, partitionLeaderEpoch: 3 });
}
/** A batch around any bytes in the place of its records, with a good CRC. */
function wrap(plain: Uint8Array, count: number, attributes = 0): Uint8Array {
  const out = new Uint8Array(BATCH_HEADER_BYTES + plain.length);
  out.set(plain, BATCH_HEADER_BYTES);
  const fields = {
    baseOffset: 0,
    totalBytes: out.length,
    partitionLeaderEpoch: 0,
    attributes,
    lastOffsetDelta: count - 1,
    baseTimestamp: 0,
    maxTimestamp: 0,
    producerId: -1,
    producerEpoch: -1,
    baseSequence: -1,
    recordsCount: count,
  };
  writeBatchHeader(out, 0, fields, crc32c);
  return out;
}

describe("records", () => {
  test("come back as they went in, plain and compressed", () => {
    fc.assert(
      fc.property(recordList, fc.constantFrom<0 | 1>(0, 1), (list, codec) => {
        const built = build(list, codec);
        expect(validateBatch(built, 0, { crc32c })).toBeUndefined();
        expect(decodeRecords(built, 0, codecs)).toEqual(list.map((r, i) => ({ ...r, offset: 1000 + i })));
        const h = parseBatchHeader(built);
        expect(h).toMatchObject({ baseOffset: 1000, partitionLeaderEpoch: 3, recordsCount: list.length, producerId: -1 });
        expect(h.maxTimestamp).toBe(Math.max(...list.map((r) => r.timestampMs)));
        checkRecords(built, 0, h, codecs);
      }),
    );
  });
  test("the estimate is the size of a plain batch, and compression never makes it larger", () => {
    fc.assert(
      fc.property(recordList, (list) => {
        const builder = new BatchBuilder({ crc32c, codecs, codec: numbers.gzip });
        for (const r of list) builder.tryAppend(r.timestampMs, r.key, r.value, r.headers);
        const estimate = builder.estimatedBytes;
        expect(builder.close().length).toBeLessThanOrEqual(estimate);
        expect(build(list).length).toBe(estimate);
      }),
    );
  });
  test("a compressed batch says so, one that would grow is kept plain", () => {
    const zeros = { timestampMs: 1, key: null, value: new Uint8Array(1000), headers: [] };
    const noise = { ...zeros, value: Uint8Array.from({ length: 200 }, (_, i) => i) };
    expect(parseBatchHeader(build([zeros], 1))).toMatchObject({ codec: 1 });
    expect(build([zeros], 1).length).toBeLessThan(120);
    expect(parseBatchHeader(build([noise], 1))).toMatchObject({ codec: 0 });
  });
  test("a full builder refuses, and is usable after close", () => {
    const builder = new BatchBuilder({ crc32c, codecs, bytesMax: 200 });
    let n = 0;
    while (builder.tryAppend(5, null, new Uint8Array(20))) n++;
    expect(n).toBe(5);
    expect(builder.estimatedBytes).toBeLessThanOrEqual(200);
    const first = builder.close({ producerId: 9, producerEpoch: 1, baseSequence: 40, isTransactional: true });
    const copy = first.slice();
    expect(parseBatchHeader(first)).toMatchObject({ producerId: 9, producerEpoch: 1, baseSequence: 40, isTransactional: true });
    expect(builder.isEmpty).toBe(true);
    expect(builder.tryAppend(6, utf8("k"), null)).toBe(true);
    expect(decodeRecords(builder.close(), 0, codecs)).toHaveLength(1);
    expect(first).toEqual(copy);
    expect(codeThrown(() => builder.close())).toBe("INVALID_ARGUMENT");
  });
  test("limits of a record", () => {
    const builder = new BatchBuilder({ crc32c, codecs, bytesMax: 200_000 });
    const h = (n: number, size: number) => Array.from({ length: n }, () => ({ key: utf8("k"), value: new Uint8Array(size) }));
    expect(codeThrown(() => builder.tryAppend(1, null, new Uint8Array(200_000)))).toBe("MESSAGE_TOO_LARGE");
    expect(codeThrown(() => builder.tryAppend(1, null, null, h(65, 1)))).toBe("INVALID_RECORD");
    expect(codeThrown(() => builder.tryAppend(1, null, null, h(64, 1)))).toBeUndefined();
    expect(codeThrown(() => builder.tryAppend(1, null, null, h(1, 64 * 1024)))).toBe("INVALID_RECORD");
    for (const t of [-2, 1.5, Number.NaN, 2 ** 60]) expect(codeThrown(() => builder.tryAppend(t, null, null))).toBe("INVALID_TIMESTAMP");
    expect(builder.count).toBe(1);
  });
  test("append time is the time of every record", () => {
    const built = batch(0, 3);
    stampAppendTime(built, 0, 777, crc32c);
    expect(decodeRecords(built, 0, codecs).map((r) => r.timestampMs)).toEqual([777, 777, 777]);
  });
  test("records below an offset are left out", () => {
    expect(decodeRecords(batch(50, 4), 0, codecs, 52).map((r) => r.offset)).toEqual([52, 53]);
  });
});

describe("hostile batches", () => {
  const open = (b: Uint8Array): string | undefined => codeThrown(() => decodeRecords(b, 0, codecs));
  //                 length attr ts off key val headers
  const one = [12, 0, 0, 0, 1, 1, 0];
  test.each<[string, number[], number]>([
    ["more records claimed than bytes", one, 2],
    ["a giant record count", one, 0x7fff_ffff],
    ["bytes behind the last record", [...one, 0], 1],
    ["a record longer than the batch", [14, 0, 0, 0, 1, 1, 0], 1],
    ["a record too short for its fields", [10, 0, 0, 0, 1, 1, 0], 1],
    ["a negative record length", [1, 0, 0, 0, 1, 1, 0], 1],
    ["a giant record length", [0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 1, 1, 0], 1],
    ["a varint without end", [255, 255, 255, 255, 255, 255, 255], 1],
    ["an offset delta beyond the last", [12, 0, 0, 2, 1, 1, 0], 1],
    ["a negative offset delta", [12, 0, 0, 1, 1, 1, 0], 1],
    ["offset deltas that do not rise", [...one, ...one], 2],
    ["a giant key", [20, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x0f, 1, 0], 1],
    ["a key length of -2", [12, 0, 0, 0, 3, 1, 0], 1],
    ["a giant header count", [20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f], 1],
    ["a negative header count", [12, 0, 0, 0, 1, 1, 1], 1],
    ["a header without a key", [16, 0, 0, 0, 1, 1, 2, 1, 1], 1],
    ["a record hidden in another", [26, 0, 0, 0, 1, 1, 0, 12, 0, 0, 2, 1, 1, 0], 2],
    ["bytes behind the headers", [14, 0, 0, 0, 1, 1, 0, 0], 1],
    ["a time beyond 2^52", [30, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 1, 1, 0], 1],
  ])("%s", (_name, plain, count) => {
    expect(open(wrap(Uint8Array.from(plain), count))).toBe("CORRUPT_BATCH");
  });
  test("a giant count is refused before the first record is touched", () => {
    const b = wrap(Uint8Array.from(one), 2);
    const plain = b.subarray(BATCH_HEADER_BYTES);
    expect(codeThrown(() => new RecordCursor().openPlain(plain, parseBatchHeader(b)))).toBe("CORRUPT_BATCH");
  });
  test("the smallest record is fine", () => expect(open(wrap(Uint8Array.from(one), 1))).toBeUndefined());
  test("random records, and random damage to good ones, throw nothing but CORRUPT_BATCH", () => {
    fc.assert(
      fc.property(recordList, fc.uint8Array({ maxLength: 80 }), fc.nat(), fc.nat(255), (list, junk, where, value) => {
        expect([undefined, "CORRUPT_BATCH"]).toContain(open(wrap(junk, 1 + (where % 9))));
        const damaged = build(list);
        damaged[BATCH_HEADER_BYTES + (where % (damaged.length - BATCH_HEADER_BYTES))] = value;
        expect([undefined, "CORRUPT_BATCH"]).toContain(open(damaged));
        const cut = damaged.subarray(0, where % damaged.length);
        expect(open(cut)).toBe("CORRUPT_BATCH");
      }),
      { numRuns: 200 },
    );
  });
  test("a stream that swells is refused by its limit, an unknown codec by its number", () => {
    const bomb = new Uint8Array(2 * 140_000);
    for (let i = 0; i < bomb.length; i += 2) bomb[i] = 255;
    expect(open(wrap(bomb, 1, numbers.gzip))).toBe("MESSAGE_TOO_LARGE");
    expect(open(wrap(new Uint8Array(20), 1, 5))).toBe("UNSUPPORTED_CODEC");
    expect(decompressedBytesMax(100)).toBe(limits.decompressedBytesFree);
    expect(decompressedBytesMax(1 << 20)).toBe(32 << 20);
    expect(decompressedBytesMax(1 << 23)).toBe(limits.decompressedBytesCap);
  });
  test("too many headers of a foreign producer can be read, and are named when asked", () => {
    const plain = [0, 0, 0, 1, 1, 130, 1, ...Array.from({ length: 65 }, () => [0, 1]).flat()];
    const b = wrap(Uint8Array.from([((plain.length * 2) % 128) | 128, (plain.length * 2) >> 7, ...plain]), 1);
    expect(decodeRecords(b, 0, codecs)[0]?.headers).toHaveLength(65);
    expect(codeThrown(() => checkRecords(b, 0, parseBatchHeader(b), codecs))).toBe("INVALID_RECORD");
  });
  test("compacted batches may have gaps", () => {
    const b = wrap(Uint8Array.from([12, 0, 0, 4, 1, 1, 0, 12, 0, 0, 10, 1, 1, 0]), 2);
    b[26] = 9;
    const cursor = new RecordCursor().open(b, 0, parseBatchHeader(b), codecs);
    const seen: number[] = [];
    while (cursor.next()) seen.push(cursor.offset);
    expect(seen).toEqual([2, 5]);
  });
});
