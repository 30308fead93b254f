import { describe, expect, test } from "@jest/globals";
import { epoch, errorNumber } from "../../src/model/index.ts";
import { batch, create, fence, join, seal, sum32, TestNode } from "./support.ts";

const code = errorNumber;

describe("append", () => {
  test("to a segment that was never created is refused, and creates nothing", () => {
    const n = new TestNode();
    n.fill(7, 0, 0);
    expect(n.lastAppended()).toEqual({ segmentNumber: 7, code: code("UNKNOWN_SEGMENT"), durable: -1, barrier: 0 });
    expect(n.journal).toEqual([]);
  });
  test("is answered when durable, not before, once for all of a group", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 2);
    n.fill(s, 3, 4);
    expect(n.appended).toEqual([]);
    n.sync();
    expect(n.appended).toEqual([{ segmentNumber: s, code: 0, durable: 4, barrier: 0 }]);
  });
  test("of an older epoch than the partition has seen is stale, on every segment of the partition", () => {
    const n = new TestNode();
    const s = n.create(1);
    const other = n.create(1, 10, 1);
    n.ask(fence(1, 2));
    n.fill(other, 10, 10, 1, -1, 10);
    expect(n.lastAppended().code).toBe(code("STALE_EPOCH"));
    n.fill(s, 0, 0);
    expect(n.lastAppended().code).toBe(code("STALE_EPOCH"));
  });
  test("with an epoch that is not the segment's is stale", () => {
    const n = new TestNode();
    const s = n.create(1);
    n.fill(s, 0, 0, 2);
    expect(n.lastAppended().code).toBe(code("STALE_EPOCH"));
  });
  test("to a segment fenced by its own epoch, or sealed, is refused as fenced", () => {
    const n = new TestNode();
    const s = n.create(1);
    n.ask(fence(1, 1));
    n.fill(s, 0, 0);
    expect(n.lastAppended().code).toBe(code("SEGMENT_FENCED"));
    const t = n.create(1, 0, 1);
    n.ask(seal(1, -1, 1, 1));
    n.fill(t, 0, 0);
    expect(n.lastAppended().code).toBe(code("SEGMENT_FENCED"));
  });
  test("that leaves a gap is refused and names what is durable", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 1);
    n.sync();
    n.fill(s, 3, 3);
    expect(n.lastAppended()).toMatchObject({ code: code("APPEND_GAP"), durable: 1 });
  });
  test("sent again is answered only when the first copy is durable", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 1);
    n.fill(s, 0, 1);
    expect(n.appended).toEqual([]);
    expect(n.journal.filter((j) => j.entry.kind === "append")).toHaveLength(1);
    n.sync();
    expect(n.appended).toEqual([{ segmentNumber: s, code: 0, durable: 1, barrier: 0 }]);
    n.fill(s, 0, 0);
    expect(n.appended).toHaveLength(2);
  });
  test("sent again in another framing keeps what is known and appends the rest", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 1);
    n.fill(s, 1, 3);
    n.sync();
    expect(n.lastAppended().durable).toBe(3);
    const entries = n.journal.flatMap((j) => (j.entry.kind === "append" ? [[j.entry.firstOffset, j.entry.lastOffset]] : []));
    expect(entries).toEqual([
      [0, 1],
      [2, 3],
    ]);
  });
  test("with other content at a known offset is corrupt and raises an alarm", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 1);
    n.append({ segmentNumber: s, firstOffset: 1, lastOffset: 1, payload: batch({ first: 1, tag: 9 }) });
    expect(n.lastAppended().code).toBe(code("CORRUPT_SEGMENT"));
    expect(n.alarms).toHaveLength(1);
    // A batch that covers other offsets is other content as well.
    n.append({ segmentNumber: s, firstOffset: 1, lastOffset: 2, payload: batch({ first: 1, count: 2 }) });
    expect(n.lastAppended().code).toBe(code("CORRUPT_SEGMENT"));
  });
  test("sent again after it was forgotten is answered as unknown, never guessed", () => {
    const n = new TestNode({}, { retryBatchesKept: 2 });
    const s = n.create();
    n.fill(s, 0, 9, 1, 9);
    n.sync();
    n.fill(s, 0, 0);
    expect(n.lastAppended().code).toBe(code("OUTCOME_UNKNOWN"));
    n.fill(s, 9, 9);
    expect(n.lastAppended().code).toBe(0);
  });
  test("whose batches do not make up its offsets, epoch or CRC is refused", () => {
    const n = new TestNode({}, { crc32c: sum32 });
    const s = n.create();
    const corrupt = code("CORRUPT_BATCH");
    n.append({ segmentNumber: s, firstOffset: 0, lastOffset: 1, payload: batch({ first: 0 }) });
    expect(n.lastAppended().code).toBe(corrupt);
    n.append({ segmentNumber: s, firstOffset: 0, lastOffset: 0, payload: batch({ first: 0, epoch: 2 }) });
    expect(n.lastAppended().code).toBe(corrupt);
    n.append({ segmentNumber: s, firstOffset: 0, lastOffset: 1, payload: join(batch({ first: 0 }), batch({ first: 2 })) });
    expect(n.lastAppended().code).toBe(corrupt);
    n.append({ segmentNumber: s, firstOffset: 0, lastOffset: 0, payload: batch({ first: 0 }).subarray(0, 65) });
    expect(n.lastAppended().code).toBe(corrupt);
    const flipped = batch({ first: 0 });
    flipped[65] = 99;
    n.append({ segmentNumber: s, firstOffset: 0, lastOffset: 0, payload: flipped });
    expect(n.lastAppended().code).toBe(corrupt);
    expect(n.journal.filter((j) => j.entry.kind === "append")).toEqual([]);
  });
  test("with another base than the segment's is refused; a pre-created segment takes its base from the first one", () => {
    const n = new TestNode();
    const s = n.create();
    n.append({ segmentNumber: s, base: 5, firstOffset: 5, lastOffset: 5, payload: batch({ first: 5 }) });
    expect(n.lastAppended().code).toBe(code("INVALID_ARGUMENT"));
    const pre = new TestNode();
    pre.ask(create(1, undefined));
    const number = pre.state.nextSegmentNumber - 1;
    pre.append({ segmentNumber: number, base: 40, firstOffset: 41, lastOffset: 41, payload: batch({ first: 41 }) });
    expect(pre.lastAppended().code).toBe(code("APPEND_GAP"));
    pre.append({ segmentNumber: number, base: 40, firstOffset: 40, lastOffset: 40, payload: batch({ first: 40 }) });
    pre.sync();
    expect(pre.lastAppended()).toMatchObject({ code: 0, durable: 40 });
    pre.crash();
    expect(pre.state.byNumber.get(number)).toMatchObject({ base: 40, last: 40, durableLast: 40, status: "OPEN" });
  });
  test("without batches carries the committed mark and is a barrier: answered at once, echoed, and refused by a newer epoch", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 3);
    n.sync();
    n.append({ segmentNumber: s, firstOffset: 4, lac: 2, barrier: 17 });
    expect(n.lastAppended()).toEqual({ segmentNumber: s, code: 0, durable: 3, barrier: 17 });
    expect(n.state.byNumber.get(s)?.lac).toBe(2);
    n.call(fence(1, 2));
    n.append({ segmentNumber: s, firstOffset: 4, lac: 3, barrier: 18 });
    expect(n.lastAppended()).toMatchObject({ code: code("STALE_EPOCH"), barrier: 18 });
  });
  test("is refused above the write limit of the disk; barriers, fences and recovery go on", () => {
    const n = new TestNode();
    const s = n.create();
    n.diskFull(true);
    n.fill(s, 0, 0);
    expect(n.lastAppended().code).toBe(code("DISK_FULL"));
    n.append({ segmentNumber: s, firstOffset: 0, barrier: 1 });
    expect(n.lastAppended().code).toBe(0);
    expect(n.ask(create(1, 0, "m", undefined, 5)).code).toBe(code("DISK_FULL"));
    expect(n.ask(fence(1, 2)).code).toBe(0);
    n.diskFull(false);
    expect(n.ask(create(2, 0)).code).toBe(0);
  });
  test("answers go to nobody when the connection is gone", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 1);
    n.originGone(1);
    n.sync();
    expect(n.appended).toEqual([]);
    expect(n.state.byNumber.get(s)?.durableLast).toBe(1);
  });
});

describe("a failed journal", () => {
  test("fails what waits, everything after, and is never trusted again, also after a restart", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 0);
    n.sync();
    n.fill(s, 1, 1);
    const waiting = n.call(fence(1, 2));
    n.fail();
    expect(n.lastAppended()).toMatchObject({ code: code("IO_FAILED"), durable: 0 });
    expect(waiting()?.[0]).toMatchObject({ code: code("IO_FAILED"), trusted: false });
    n.sync();
    n.fill(s, 1, 1, 1);
    expect(n.lastAppended().code).not.toBe(0);
    n.crash();
    expect(n.ask(fence(1, 3))).toMatchObject({ code: code("IO_FAILED"), trusted: false });
    n.append({ segmentNumber: s, epoch: epoch(1), firstOffset: 1, lastOffset: 1, payload: batch({ first: 1 }) });
    expect(n.lastAppended().code).toBe(code("IO_FAILED"));
  });
});
