import { describe, expect, jest, test } from "@jest/globals";
import { BatchBuilder } from "@sluice/core/log";
import { crc32c, nativeCodecs } from "@sluice/codec";
import type { Position } from "../src/index.ts";
import { failure, numbers, take, until, world, type World } from "./support.ts";

async function fill(w: World, count: number, options: { from?: number; size?: number; batchBytes?: number } = {}): Promise<void> {
  await using producer = w.sluice.producer({ topic: "t", batchBytes: options.batchBytes ?? 1024 });
  const partitions = w.cluster.topic("t").length;
  await producer.sendMany(
    numbers(count, options.from).map((value, i) => ({
      partition: i % partitions,
      value: value.padEnd(options.size ?? 150),
      timestampMs: i * 10,
    })),
  );
}
const valueOf = (r: { valueText(): string | null }): number => Number(r.valueText());

// A busy machine takes its time; none of it is waited for on purpose.
jest.setTimeout(30_000);

describe("positions", () => {
  test("earliest, an offset within a batch, a timestamp, the end", async () => {
    await using w = await world();
    await fill(w, 100);
    const firstFrom = async (from: Parameters<World["sluice"]["consumer"]>[0]["from"]): Promise<number> => {
      await using consumer = w.sluice.consumer({ topic: "t", ...(from === undefined ? {} : { from }) });
      await consumer.ready();
      if (from === "latest" || from === undefined) await fill(w, 1, { from: 555 });
      const [record] = await take(consumer, 1);
      return valueOf(record as never);
    };
    expect(await firstFrom("earliest")).toBe(0);
    expect(await firstFrom({ offset: 37 })).toBe(37);
    expect(await firstFrom(undefined)).toBe(555);
    // The fake knows times of batches only, as a server without an index would: no later than the asked record.
    const byTime = await firstFrom({ timestampMs: 500 });
    expect(byTime).toBeLessThanOrEqual(50);
    expect(byTime).toBeGreaterThan(30);
  });

  test("each partition may start elsewhere; positions tell the next offset", async () => {
    await using w = await world({ partitions: 3 });
    await fill(w, 30);
    const from = new Map<number, Position>([
      [0, { offset: 9 }],
      [1, "latest"],
    ]);
    await using consumer = w.sluice.consumer({ topic: "t", from, untilEnd: true });
    await consumer.ready();
    expect([...consumer.positions()]).toEqual([
      [0, 9],
      [1, 10],
      [2, 0],
    ]);
    const got = await take(consumer, 99);
    expect(got.map((r) => `${r.partition}/${r.offset}`).toSorted()).toEqual(["0/9", ...numbers(10).map((n) => `2/${n}`)]);
    expect([...consumer.positions().values()]).toEqual([10, 10, 10]);
  });

  test("leaving a loop keeps the place, for records and for batches", async () => {
    await using w = await world();
    await fill(w, 50);
    await using consumer = w.sluice.consumer({ topic: "t", from: "earliest" });
    const got = (await take(consumer, 7)).map(valueOf);
    expect(consumer.positions().get(0)).toBe(7);
    for await (const batch of consumer.batches()) {
      got.push(...batch.records.map(valueOf));
      expect(consumer.positions().get(0)).toBe(got.length);
      if (got.length >= 20) break;
    }
    got.push(...(await take(consumer, 50 - got.length)).map(valueOf));
    expect(got).toEqual(numbers(50).map(Number));
  });

  test("seek back and forward drops what was received", async () => {
    await using w = await world({ partitions: 2 });
    await fill(w, 200);
    await using consumer = w.sluice.consumer({ topic: "t", from: "earliest", partitions: [0] });
    await take(consumer, 5);
    await consumer.seek(0, { offset: 90 });
    expect((await take(consumer, 3)).map((r) => r.offset)).toEqual([90, 91, 92]);
    await consumer.seek(0, "earliest");
    expect((await take(consumer, 100)).map((r) => r.offset)).toEqual(numbers(100).map(Number));
    expect(await failure(consumer.seek(1, "latest"))).toBe("UNKNOWN_PARTITION");
    expect(await failure(consumer.seek(0, { offset: -3 }))).toBe("INVALID_ARGUMENT");
  });

  test("a seek before the stream has begun, and after the end", async () => {
    await using w = await world();
    await fill(w, 40);
    await using consumer = w.sluice.consumer({ topic: "t", from: "latest", untilEnd: true });
    await consumer.ready();
    await consumer.seek(0, { offset: 30 });
    await consumer.seek(0, { offset: 35 });
    expect((await take(consumer, 99)).map((r) => r.offset)).toEqual([35, 36, 37, 38, 39]);
    await consumer.seek(0, { offset: 38 });
    expect((await take(consumer, 99)).map((r) => r.offset)).toEqual([38, 39]);
  });

  test("retention overtakes: an error that a seek mends, or the policy", async () => {
    await using w = await world();
    await fill(w, 100);
    w.cluster.partition("t", 0).start = 60;
    await using strict = w.sluice.consumer({ topic: "t", from: { offset: 10 } });
    const iterator = strict[Symbol.asyncIterator]();
    expect(await failure(iterator.next())).toBe("OFFSET_OUT_OF_RANGE");
    await strict.seek(0, "earliest");
    expect((await iterator.next()).value?.offset).toBe(60);
    await using lenient = w.sluice.consumer({ topic: "t", from: { offset: 10 }, onOutOfRange: "earliest" });
    expect((await take(lenient, 1))[0]?.offset).toBe(60);
  });
});

describe("streams", () => {
  test("a stream that breaks is taken up at the next offset: nothing lost, nothing twice", async () => {
    await using w = await world({ partitions: 3, proxies: 2 });
    await fill(w, 900);
    w.cluster.breakConsumeAfter = 20;
    await using consumer = w.sluice.consumer({ topic: "t", from: "earliest", untilEnd: true });
    const next = [0, 0, 0];
    for await (const r of consumer) {
      expect(r.offset).toBe(next[r.partition]);
      next[r.partition] = r.offset + 1;
    }
    expect(next).toEqual([300, 300, 300]);
    expect(w.cluster.consumeStreams).toBeGreaterThan(8);
  });

  test("untilEnd ends at the end as of the start", async () => {
    await using w = await world({ partitions: 2 });
    await fill(w, 100, { batchBytes: 100_000 });
    await using consumer = w.sluice.consumer({ topic: "t", from: "earliest", untilEnd: true });
    await consumer.ready();
    await fill(w, 10, { from: 1_000 });
    const got = await take(consumer, 1_000);
    expect(got).toHaveLength(100);
    expect(Math.max(...got.map(valueOf))).toBe(99);
    await using empty = w.sluice.consumer({ topic: "t", from: "latest", untilEnd: true });
    expect(await take(empty, 1)).toEqual([]);
  });

  test("untilEnd from beyond the end is an error, or the policy", async () => {
    await using w = await world();
    await fill(w, 10);
    const at = (onOutOfRange?: "earliest" | "latest") =>
      w.sluice.consumer({ topic: "t", from: { offset: 11 }, untilEnd: true, ...(onOutOfRange && { onOutOfRange }) });
    await using strict = at();
    expect(await failure(strict.ready())).toBe("OFFSET_OUT_OF_RANGE");
    expect(await failure(take(strict, 1))).toBe("OFFSET_OUT_OF_RANGE");
    await using again = at("earliest");
    expect(await take(again, 99)).toHaveLength(10);
    await using nothing = at("latest");
    expect(await take(nothing, 99)).toHaveLength(0);
  });

  test("a consumer that does not read is sent its credit and no more", async () => {
    await using w = await world();
    await fill(w, 300, { size: 3_000, batchBytes: 16_000 });
    await using consumer = w.sluice.consumer({ topic: "t", from: "earliest", creditBytes: 100_000 });
    await take(consumer, 1);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(w.cluster.overCreditBytes).toBeLessThanOrEqual(0);
    expect((await take(consumer, 299)).map(valueOf)).toEqual(numbers(299, 1).map(Number));
    expect(w.cluster.overCreditBytes).toBeLessThanOrEqual(0);
  });

  test("records that come while it waits are given at once", async () => {
    await using w = await world();
    await using consumer = w.sluice.consumer({ topic: "t" });
    await consumer.ready();
    const next = take(consumer, 3);
    await fill(w, 3);
    expect((await next).map(valueOf)).toEqual([0, 1, 2]);
  });

  test("a failing checksum and control batches", async () => {
    await using w = await world();
    const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs });
    const one = (value: string, isControl = false): Uint8Array => {
      builder.tryAppend(1, null, new TextEncoder().encode(value));
      return builder.close({ isControl });
    };
    const p = w.cluster.partition("t", 0);
    p.append(one("a"));
    p.append(one("commit", true));
    p.append(one("b"));
    p.append(one("commit", true));
    await using consumer = w.sluice.consumer({ topic: "t", from: "earliest", untilEnd: true });
    expect((await take(consumer, 9)).map((r) => [r.offset, r.valueText()])).toEqual([
      [0, "a"],
      [2, "b"],
    ]);
    const last = p.batches[2]?.bytes as Uint8Array;
    last[last.length - 2] = 0x7a;
    await using strict = w.sluice.consumer({ topic: "t", from: { offset: 2 }, untilEnd: true });
    expect(await failure(take(strict, 1))).toBe("CORRUPT_BATCH");
    await using lenient = w.sluice.consumer({ topic: "t", from: { offset: 2 }, untilEnd: true, checkCrc: false });
    expect((await take(lenient, 1))[0]?.valueText()).toBe("z");
  });
});

describe("end", () => {
  test("close ends the iteration, abort fails it", async () => {
    await using w = await world();
    const closed = w.sluice.consumer({ topic: "t" });
    const waiting = take(closed, 1);
    await closed.ready();
    await closed.close();
    expect(await waiting).toEqual([]);
    const controller = new AbortController();
    const aborted = w.sluice.consumer({ topic: "t", signal: controller.signal });
    const failing = failure(take(aborted, 1));
    await aborted.ready();
    controller.abort();
    expect(await failing).toBe("CANCELLED");
    expect(await failure(take(aborted, 1))).toBe("CANCELLED");
    await until(() => w.cluster.listeners.size === 0);
  });

  test("unknown topics and partitions, bad options", async () => {
    await using w = await world();
    await using unknown = w.sluice.consumer({ topic: "none" });
    expect(await failure(take(unknown, 1))).toBe("UNKNOWN_TOPIC");
    await using noPartition = w.sluice.consumer({ topic: "t", partitions: [4] });
    expect(await failure(noPartition.ready())).toBe("UNKNOWN_PARTITION");
    expect(() => w.sluice.consumer({ topic: "t", creditBytes: 1 })).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });

  test("two iterations at a time are refused", async () => {
    await using w = await world();
    await using consumer = w.sluice.consumer({ topic: "t" });
    const first = consumer[Symbol.asyncIterator]().next();
    expect(await failure(consumer[Symbol.asyncIterator]().next())).toBe("INVALID_ARGUMENT");
    await consumer.close();
    expect((await first).done).toBe(true);
  });
});
