import { describe, expect, jest, test } from "@jest/globals";
import { SeededRandom } from "@sluice/runtime/testing";
import type { Compression } from "../src/index.ts";
import { failure, numbers, storedValues, until, world } from "./support.ts";

// A busy machine takes its time; none of it is waited for on purpose.
jest.setTimeout(30_000);

describe("batches and order", () => {
  test("records of a turn become one batch; later ones wait for the answer or the size", async () => {
    await using w = await world();
    let release = (): void => undefined;
    const hold = new Promise<void>((resolve) => (release = resolve));
    w.cluster.onProduce = (a) => (a.index === 0 ? { hold } : "store");
    await using producer = w.sluice.producer({ topic: "t", lingerMs: 1_000 });
    const first = numbers(100).map((value) => producer.send({ value }));
    await until(() => w.cluster.arrivals.length === 1);
    expect(w.cluster.arrivals[0]?.header.recordsCount).toBe(100);
    const more: Promise<unknown>[] = [];
    for (const value of numbers(50, 100)) {
      more.push(producer.send({ value }));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(w.cluster.arrivals).toHaveLength(1);
    release();
    const answers = await Promise.all([...first, ...more]);
    expect(w.cluster.arrivals.map((a) => a.header.recordsCount)).toEqual([100, 50]);
    expect(answers.map((a) => (a as { offset: number }).offset)).toEqual(numbers(150).map(Number));
    expect(await storedValues(w)).toEqual([numbers(150)]);
  });

  test("a batch closes at batchBytes, and at the topic's limit when that is lower", async () => {
    await using w = await world({ config: { "max.message.bytes": "4096" } });
    await using producer = w.sluice.producer({ topic: "t", batchBytes: 64 * 1024 });
    await producer.sendMany(numbers(100).map((value) => ({ value: value.padEnd(200) })));
    expect(w.cluster.arrivals.length).toBeGreaterThan(4);
    for (const a of w.cluster.arrivals) expect(a.header.totalBytes).toBeLessThanOrEqual(4096);
  });

  test("at most five batches of a partition are in flight, with consecutive sequences", async () => {
    await using w = await world();
    let release = (): void => undefined;
    const hold = new Promise<void>((resolve) => (release = resolve));
    w.cluster.onProduce = () => ({ hold });
    await using producer = w.sluice.producer({ topic: "t", batchBytes: 1024 });
    const all = producer.sendMany(numbers(60).map((value) => ({ value: value.padEnd(200) })));
    await until(() => w.cluster.arrivals.length === 5);
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(w.cluster.arrivals).toHaveLength(5);
    release();
    await all;
    let next = 0;
    for (const { header } of w.cluster.arrivals) {
      expect(header.baseSequence).toBe(next);
      next += header.recordsCount;
    }
    expect((await storedValues(w))[0]?.map((v) => v.trim())).toEqual(numbers(60));
  });

  test.each(["none", "gzip", "snappy", "lz4", "zstd"] satisfies Compression[])("round trip with %s", async (compression) => {
    await using w = await world();
    await using producer = w.sluice.producer({ topic: "t", compression });
    await producer.sendMany(
      numbers(300).map((value) => ({
        key: null,
        value: value.repeat(20),
        headers: [
          ["a", value],
          ["a", null],
        ],
      })),
    );
    expect(w.cluster.arrivals[0]?.header.codec).toBe(["none", "gzip", "snappy", "lz4", "zstd"].indexOf(compression));
    await using consumer = w.sluice.consumer({ topic: "t", from: "earliest", untilEnd: true });
    let i = 0;
    for await (const r of consumer) {
      expect([r.offset, r.key, r.valueText(), r.headers.length, r.header("a")]).toEqual([i, null, String(i).repeat(20), 2, null]);
      i++;
    }
    expect(i).toBe(300);
  });

  test("keys choose as Kafka's murmur2 does; records without a key stick for a batch's worth", async () => {
    await using w = await world({ partitions: 10 });
    await using producer = w.sluice.producer({ topic: "t", batchBytes: 2_048 });
    // Of Kafka's own tests: murmur2("21") = -973932308, "foobar" = -790332482, "a-little-bit-long-string" = -985981536.
    const keyed = await producer.sendMany(["21", "foobar", "a-little-bit-long-string"].map((key) => ({ key, value: "x" })));
    expect(keyed.map((k) => k.partition)).toEqual([-973932308, -790332482, -985981536].map((h) => (h & 0x7fffffff) % 10));
    const free = await producer.sendMany(numbers(400).map((value) => ({ value: value.padEnd(100) })));
    const changes = free.filter((m, i) => i > 0 && m.partition !== free[i - 1]?.partition).length;
    expect(changes).toBeGreaterThan(15);
    expect(changes).toBeLessThan(60);
  });
});

describe("retries", () => {
  test("a retriable refusal keeps order and sequences", async () => {
    await using w = await world();
    w.cluster.onProduce = (a) => (a.index === 1 || a.index === 7 ? { error: "NOT_OWNER" } : "store");
    await using producer = w.sluice.producer({ topic: "t", batchBytes: 1024 });
    await producer.sendMany(numbers(80).map((value) => ({ value: value.padEnd(150) })));
    expect((await storedValues(w))[0]?.map((v) => v.trim())).toEqual(numbers(80));
    expect(w.cluster.initCalls).toBe(1);
  });

  test.each(["before", "after"] as const)("a stream broken %s storing: same sequences again, each record once", async (drop) => {
    await using w = await world({ partitions: 2 });
    w.cluster.onProduce = (a) => (a.index % 9 === 3 ? { drop } : "store");
    await using producer = w.sluice.producer({ topic: "t", batchBytes: 1024 });
    const metadata = await producer.sendMany(numbers(150).map((value, i) => ({ partition: i % 2, value: value.padEnd(150) })));
    const stored = (await storedValues(w)).map((p) => p.map((v) => Number(v)));
    expect(stored).toEqual(
      [0, 1].map((p) =>
        numbers(150)
          .map(Number)
          .filter((n) => n % 2 === p),
      ),
    );
    expect(metadata.map((m) => m.offset)).toEqual(numbers(150).map((n) => Math.floor(Number(n) / 2)));
    expect(w.cluster.produceStreams).toBeGreaterThan(2);
    expect(new Set(w.cluster.arrivals.map((a) => a.header.producerId)).size).toBe(1);
  });

  test("an answer that leaves the outcome open is repeated under the same sequence", async () => {
    await using w = await world();
    w.cluster.onProduce = (a) => (a.index === 0 ? { error: "OUTCOME_UNKNOWN", stored: true } : "store");
    await using producer = w.sluice.producer({ topic: "t" });
    expect((await producer.send({ value: "x" })).offset).toBe(0);
    expect(w.cluster.arrivals.map((a) => a.header.baseSequence)).toEqual([0, 0]);
    expect(await storedValues(w)).toEqual([["x"]]);
  });

  test("without idempotence an unknown outcome is told and never repeated", async () => {
    await using w = await world();
    w.cluster.onProduce = (a) => (a.index === 0 ? { drop: "after" } : a.index === 1 ? { error: "NOT_OWNER" } : "store");
    await using producer = w.sluice.producer({ topic: "t", idempotent: false });
    expect(await failure(producer.send({ value: "x" }))).toBe("OUTCOME_UNKNOWN");
    expect((await producer.send({ value: "y" })).offset).toBe(1);
    expect(await storedValues(w)).toEqual([["x", "y"]]);
    expect(w.cluster.initCalls).toBe(0);
  });

  test("a batch refused for good fails alone; the ones after it are sent under its sequence", async () => {
    await using w = await world();
    w.cluster.onProduce = (a) => (a.index === 1 ? { error: "INVALID_TIMESTAMP" } : "store");
    await using producer = w.sluice.producer({ topic: "t", batchBytes: 1024 });
    const all = await Promise.allSettled(numbers(30).map((value) => producer.send({ value: value.padEnd(200) })));
    const bad = all.flatMap((r, i) => (r.status === "rejected" ? [i] : []));
    expect(bad).toEqual([4, 5, 6, 7]);
    const good = numbers(30).filter((_, i) => !bad.includes(i));
    expect((await storedValues(w))[0]?.map((v) => v.trim())).toEqual(good);
    expect(w.cluster.initCalls).toBe(1);
  });

  test("a server that lost the thread gets a new producer id when nothing is in doubt", async () => {
    const events: string[] = [];
    await using w = await world({ connect: { onEvent: (e) => events.push(e.type) } });
    await using producer = w.sluice.producer({ topic: "t" });
    await producer.send({ value: "a" });
    w.cluster.onProduce = (a) => (a.header.producerId === 1000 ? { error: "UNKNOWN_PRODUCER" } : "store");
    await producer.sendMany([{ value: "b" }, { value: "c" }]);
    await producer.send({ value: "d" });
    expect(await storedValues(w)).toEqual([["a", "b", "c", "d"]]);
    expect(events).toContain("new_producer_id");
    expect(w.cluster.arrivals.at(-1)?.header.baseSequence).toBe(2);
  });

  test("... and what is in doubt fails with OUTCOME_UNKNOWN instead of being stored twice", async () => {
    await using w = await world();
    w.cluster.onProduce = (a) => {
      if (a.index === 1) return { drop: "after" };
      return a.index > 1 && a.header.producerId === 1000 ? { error: "OUT_OF_ORDER_SEQUENCE" } : "store";
    };
    await using producer = w.sluice.producer({ topic: "t" });
    await producer.send({ value: "a" });
    expect(await failure(producer.send({ value: "b" }))).toBe("OUTCOME_UNKNOWN");
    await producer.send({ value: "c" });
    expect(await storedValues(w)).toEqual([["a", "b", "c"]]);
  });

  test("a refusal after an attempt whose answer was lost says nothing of that attempt", async () => {
    await using w = await world();
    w.cluster.onProduce = (a) => (a.index === 0 ? { drop: "after" } : { error: "MESSAGE_TOO_LARGE" });
    await using producer = w.sluice.producer({ topic: "t" });
    expect(await failure(producer.send({ value: "x" }))).toBe("OUTCOME_UNKNOWN");
    expect(await storedValues(w)).toEqual([["x"]]);
  });

  test("waits as long as the server asks", async () => {
    await using w = await world();
    w.cluster.onProduce = (a) => (a.index === 0 ? { error: "OVERLOADED", throttleMs: 120 } : "store");
    await using producer = w.sluice.producer({ topic: "t" });
    const startMs = performance.now();
    await producer.send({ value: "x" });
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(115);
  });
});

describe("everything at once", () => {
  // Which message meets which fate follows from the seed.
  test.each([1, 2, 3, 4])("broken streams, refusals and open outcomes, seed %i", async (seed) => {
    await using w = await world({ partitions: 3, proxies: 2 });
    const random = new SeededRandom(seed);
    w.cluster.onProduce = () => {
      const roll = random.int(100);
      if (roll < 4) return { drop: "before" };
      if (roll < 8) return { drop: "after" };
      if (roll < 14) return { error: "NOT_OWNER" };
      return roll < 20 ? { error: "OUTCOME_UNKNOWN", stored: random.int(2) === 0 } : "store";
    };
    await using producer = w.sluice.producer({ topic: "t", batchBytes: 1024 });
    const sent = await producer.sendMany(numbers(450).map((value, i) => ({ partition: i % 3, value: value.padEnd(150) })));
    w.cluster.breakConsumeAfter = 10;
    const expected = [0, 1, 2].map((p) => numbers(450).filter((n) => Number(n) % 3 === p));
    expect((await storedValues(w)).map((values) => values.map((v) => v.trim()))).toEqual(expected);
    expect(sent.map((m) => m.offset)).toEqual(numbers(450).map((n) => Math.floor(Number(n) / 3)));
    expect(w.cluster.initCalls).toBe(1);
  });
});

describe("limits", () => {
  test("send waits while the buffer is full; what waits too much is refused", async () => {
    await using w = await world();
    let release = (): void => undefined;
    const hold = new Promise<void>((resolve) => (release = resolve));
    w.cluster.onProduce = () => ({ hold });
    await using producer = w.sluice.producer({ topic: "t", bufferBytes: 100_000, batchBytes: 8_192 });
    const value = "x".repeat(936);
    const sent = Array.from({ length: 150 }, () => producer.send({ value }));
    expect(producer.bufferedBytes).toBe(100_000);
    expect(producer.trySend({ value })).toBeUndefined();
    const tooMuch = Array.from({ length: 51 }, () => failure(producer.send({ value })));
    expect(await tooMuch[50]).toBe("OVERLOADED");
    let ready = false;
    const room = producer.ready().then(() => (ready = true));
    await until(() => w.cluster.arrivals.length === 5);
    expect(ready).toBe(false);
    release();
    expect((await Promise.all(sent)).map((m) => m.offset)).toEqual(numbers(150).map(Number));
    await room;
    await producer.flush();
    expect(producer.bufferedBytes).toBe(0);
    expect(await Promise.all(tooMuch.slice(0, 50))).toEqual(Array.from({ length: 50 }, () => "none"));
  });

  test("past the deadline: not sent is told apart from in flight", async () => {
    await using w = await world();
    w.cluster.onProduce = () => ({ hold: new Promise(() => undefined) });
    await using producer = w.sluice.producer({ topic: "t", deliveryTimeoutMs: 400, batchBytes: 1024, maxInFlight: 1 });
    const codes = await Promise.all(numbers(2).map((value) => failure(producer.send({ value: value.padEnd(1000) }))));
    expect(codes).toEqual(["OUTCOME_UNKNOWN", "TIMED_OUT"]);
    w.cluster.onProduce = () => "store";
    await producer.send({ value: "after" });
    expect((await storedValues(w))[0]).toEqual(["after"]);
  });

  test("without a producer id the record is told what it waited for", async () => {
    await using w = await world();
    await using producer = w.sluice.producer({ topic: "t", deliveryTimeoutMs: 800 });
    let calls = 0;
    // The topic is told, the id is not.
    w.cluster.unaryError = () => (calls++ === 0 ? undefined : "METADATA_UNAVAILABLE");
    await expect(producer.send({ value: "a" })).rejects.toMatchObject({
      code: "TIMED_OUT",
      message: expect.stringMatching(/^t\/0: not sent within deliveryTimeoutMs, so not stored: no producer id .*: METADATA_UNAVAILABLE: /),
    });
    w.cluster.unaryError = () => undefined;
    await producer.send({ value: "b" });
  });

  test("nobody to send to: the record is told as not stored when its time is over", async () => {
    await using w = await world();
    await using producer = w.sluice.producer({ topic: "t", deliveryTimeoutMs: 500 });
    await producer.send({ value: "a" });
    await w.proxies[0]?.server.stop();
    const [known, unknown] = await Promise.all([
      producer.send({ value: "b" }).catch((error: unknown) => (error as Error).message),
      failure(producer.send({ topic: "other", value: "c" })),
    ]);
    expect([known, unknown]).toEqual([
      expect.stringMatching(/^t\/0: not sent .*: UNREACHABLE: /),
      expect.stringMatching(/TIMED_OUT|UNREACHABLE/),
    ]);
    expect(producer.bufferedBytes).toBe(0);
    expect(w.cluster.partition("t", 0).end).toBe(1);
  });

  test("bad input is refused at once, with the code that says what", async () => {
    await using w = await world();
    await using producer = w.sluice.producer();
    expect(await failure(producer.send({ value: "x" }))).toBe("INVALID_ARGUMENT");
    expect(await failure(producer.send({ topic: "t", partition: 1, value: "x" }))).toBe("UNKNOWN_PARTITION");
    expect(await failure(producer.send({ topic: "t", partition: -1, value: "x" }))).toBe("INVALID_ARGUMENT");
    expect(await failure(producer.send({ topic: "t", value: 5 as never }))).toBe("INVALID_ARGUMENT");
    expect(await failure(producer.send({ topic: "t", value: "x", timestampMs: 0.5 }))).toBe("INVALID_TIMESTAMP");
    expect(await failure(producer.send({ topic: "t", value: new Uint8Array(9 * 1024 * 1024) }))).toBe("MESSAGE_TOO_LARGE");
    expect(await failure(producer.send({ topic: "t", value: "x", headers: numbers(65).map((n) => [n, n] as const) }))).toBe(
      "INVALID_RECORD",
    );
    expect(await failure(producer.send({ topic: "none", value: "x" }))).toBe("UNKNOWN_TOPIC");
    expect(producer.bufferedBytes).toBe(0);
    for (const bad of [{ lingerMs: -1 }, { maxInFlight: 6 }, { batchBytes: 0 }, { compression: "br" as never }])
      expect(() => w.sluice.producer(bad)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });
});

describe("end", () => {
  test("close flushes; later sends are refused", async () => {
    await using w = await world();
    const producer = w.sluice.producer({ topic: "t" });
    const pending = producer.sendMany(numbers(500).map((value) => ({ value })));
    await producer.close();
    expect(await pending).toHaveLength(500);
    expect(await failure(producer.send({ value: "x" }))).toBe("SHUTTING_DOWN");
    expect(w.cluster.partition("t", 0).end).toBe(500);
  });

  test("abort fails what is pending", async () => {
    const controller = new AbortController();
    await using w = await world({ connect: { signal: controller.signal } });
    w.cluster.onProduce = () => ({ hold: new Promise(() => undefined) });
    const producer = w.sluice.producer({ topic: "t", maxInFlight: 1, batchBytes: 1024 });
    const codes = numbers(2).map((value) => failure(producer.send({ value: value.padEnd(1000) })));
    await until(() => w.cluster.arrivals.length === 1);
    controller.abort();
    expect(await Promise.all(codes)).toEqual(["OUTCOME_UNKNOWN", "CANCELLED"]);
    expect(await failure(producer.send({ value: "x" }))).toBe("CANCELLED");
  });

  test("the trace context of the caller becomes a header, unless there is one", async () => {
    const active = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const own = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    await using w = await world({ connect: { traceparent: () => active } });
    await using producer = w.sluice.producer({ topic: "t" });
    await producer.send({ value: "a" });
    await producer.send({ value: "b", traceparent: own });
    await producer.send({ value: "c", headers: { traceparent: "mine" } });
    await producer.send({ value: "d", traceparent: "" });
    await using consumer = w.sluice.consumer({ topic: "t", from: "earliest", untilEnd: true });
    const got: (string | undefined)[] = [];
    for await (const r of consumer) got.push(r.headers.map(([, v]) => Buffer.from(v ?? []).toString())[0]);
    expect(got).toEqual([active, own, "mine", undefined]);
  });
});
