import { describe, expect, test } from "@jest/globals";
import { crc32c, nativeCodecs } from "@sluice/codec";
import { BatchBuilder, stampBatch } from "@sluice/core/log";
import { topicId, type PartitionId } from "@sluice/core/model";
import type { Marks, TailListener } from "@sluice/partition-client";
import { ManualClock } from "@sluice/runtime/testing";
import { TailCache } from "../src/tail-cache.ts";
import { offsetsIn } from "./support/fake-cluster.ts";

const p: PartitionId = { topicId: topicId("0123abcd-0000-4000-8000-00000000beef"), partition: 0 };
const q: PartitionId = { ...p, partition: 1 };

function batch(baseOffset: number, count = 1, size = 100): Uint8Array {
  const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs });
  for (let i = 0; i < count; i += 1) builder.tryAppend(1, null, new Uint8Array(size));
  const out = builder.close();
  stampBatch(out, 0, baseOffset, 1);
  return out;
}
const marks = (highWatermark: number, epoch = 1): Marks => ({
  epoch,
  segmentK: 0,
  segmentBase: 0,
  highWatermark,
  lastStableOffset: highWatermark,
  logStart: 0,
});

function setup(bytesMax = 1_000_000) {
  const clock = new ManualClock();
  const listeners = new Map<number, TailListener>();
  const unfollowed: number[] = [];
  const cache = new TailCache({
    clock,
    bytesMax,
    idleMs: 10_000,
    follower: {
      follow: (partition, _from, listener) => void listeners.set(partition.partition, listener),
      unfollow: (partition) => void unfollowed.push(partition.partition),
    },
  });
  let released = 0;
  const push = (partition: PartitionId, first: number, bytes: Uint8Array, m: Marks): void =>
    listeners.get(partition.partition)?.onData(first, bytes, m, () => (released += 1));
  const mark = (partition: PartitionId, m: Marks): void => listeners.get(partition.partition)?.onMarks(m);
  return { clock, cache, push, mark, unfollowed, listeners, released: () => released };
}
const read = (cache: TailCache, tail: ReturnType<TailCache["join"]>, offset: number, maxBytes = 1_000_000): number[] | undefined =>
  cache.read(tail, offset, maxBytes)?.runs.flatMap((run) => offsetsIn(run));

describe("tail cache", () => {
  test("a run without gaps is read from any offset within it; credit goes back on arrival", () => {
    const { cache, push, released } = setup();
    const tail = cache.join(p, 0);
    push(p, 10, batch(10, 3), marks(13));
    push(p, 13, batch(13), marks(14));
    push(p, 14, batch(14, 2), marks(16));
    expect(released()).toBe(3);
    expect(read(cache, tail, 12)).toEqual([10, 11, 12, 13, 14, 15]);
    expect(cache.read(tail, 12, 1_000_000)?.nextOffset).toBe(16);
    expect(read(cache, tail, 14, 1)).toEqual([14, 15]);
    expect(read(cache, tail, 9)).toBeUndefined();
    expect(read(cache, tail, 16)).toBeUndefined();
  });

  test("many batches in one push, read in parts", () => {
    const { cache, push } = setup();
    const tail = cache.join(p, 0);
    const one = batch(0);
    push(p, 0, Buffer.concat([one, batch(1), batch(2)]), marks(3));
    expect(read(cache, tail, 1, one.length)).toEqual([1]);
    expect(cache.read(tail, 1, one.length)?.nextOffset).toBe(2);
    expect(read(cache, tail, 0, one.length * 2)).toEqual([0, 1]);
  });

  test("a push after a gap drops the run, and so does a mark ahead of it; a repeated push changes nothing", () => {
    const { cache, push, mark } = setup();
    const tail = cache.join(p, 0);
    push(p, 0, batch(0), marks(1));
    push(p, 5, batch(5), marks(6));
    expect(read(cache, tail, 0)).toBeUndefined();
    expect(read(cache, tail, 5)).toEqual([5]);
    push(p, 5, batch(5), marks(6));
    expect(read(cache, tail, 5)).toEqual([5]);
    mark(p, marks(9));
    expect(read(cache, tail, 5)).toBeUndefined();
    expect(cache.bytes).toBe(0);
  });

  test("nothing above the mark of a push is kept", () => {
    const { cache, push } = setup();
    const tail = cache.join(p, 0);
    push(p, 0, Buffer.concat([batch(0), batch(1)]), marks(1));
    expect(read(cache, tail, 0)).toEqual([0]);
    expect(read(cache, tail, 1)).toBeUndefined();
  });

  test("marks never go back, and an older owner is not heard", () => {
    const { cache, push, mark } = setup();
    const tail = cache.join(p, 0);
    mark(p, marks(10, 2));
    mark(p, marks(8, 2));
    expect(tail.marks?.highWatermark).toBe(10);
    push(p, 10, batch(10), marks(11, 1));
    expect([tail.marks?.highWatermark, read(cache, tail, 10)]).toEqual([10, undefined]);
    mark(p, marks(10, 3));
    expect(tail.marks?.epoch).toBe(3);
  });

  test("the budget is for all: the oldest push goes first, whoever has it", () => {
    const size = batch(0).length;
    const { cache, push } = setup(size * 3);
    const a = cache.join(p, 0);
    const b = cache.join(q, 0);
    push(p, 0, batch(0), marks(1));
    push(q, 0, batch(0), marks(1));
    push(p, 1, batch(1), marks(2));
    push(q, 1, batch(1), marks(2));
    expect([read(cache, a, 0), read(cache, a, 1), read(cache, b, 0), read(cache, b, 1)]).toEqual([undefined, [1], [0, 1], [1]]);
    for (let o = 2; o < 500; o += 1) push(p, o, batch(o), marks(o + 1));
    expect(cache.bytes).toBeLessThanOrEqual(size * 3);
    expect(read(cache, a, 499)).toEqual([499]);
    expect(read(cache, b, 1)).toBeUndefined();
  });

  test("waiting readers wake at a push, at an interruption, at their time and when they give up", async () => {
    const { cache, clock, push, listeners } = setup();
    const tail = cache.join(p, 0);
    const woken: string[] = [];
    const stop = new AbortController();
    const wait = (name: string, ms: number, signal?: AbortSignal) =>
      cache.change(tail, tail.version, ms, signal).then(() => woken.push(name));
    const all = [wait("push", 1_000), wait("time", 10), wait("abort", 1_000, stop.signal)];
    clock.advance(20);
    stop.abort();
    await Promise.all(all.slice(1));
    expect(woken.toSorted()).toEqual(["abort", "time"]);
    push(p, 0, batch(0), marks(1));
    await all[0];
    expect(cache.waiting).toBe(0);
    const interrupted = wait("interrupted", 1_000);
    listeners.get(0)?.onInterrupted("LINK_DOWN");
    await interrupted;
    // News that came before the wait began is not slept over.
    await cache.change(tail, tail.version - 1, 1_000);
    expect(clock.pendingTimers).toBe(0);
  });

  test("the last reader's leave ends it after a while, unless another comes", () => {
    const { cache, clock, push, unfollowed } = setup();
    const tail = cache.join(p, 0);
    push(p, 0, batch(0), marks(1));
    cache.leave(tail);
    clock.advance(9_000);
    const again = cache.join(p, 0);
    clock.advance(60_000);
    expect([unfollowed, read(cache, again, 0)]).toEqual([[], [0]]);
    cache.leave(again);
    clock.advance(10_000);
    expect([unfollowed, cache.bytes, cache.partitions]).toEqual([[0], 0, 0]);
  });
});
