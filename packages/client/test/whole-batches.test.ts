import { describe, expect, jest, test } from "@jest/globals";
import { crc32c, nativeCodecs } from "@sluice/codec";
import { BatchBuilder } from "@sluice/core/log";
import { failure, numbers, storedValues, until, world } from "./support.ts";

// A busy machine takes its time; none of it is waited for on purpose.
jest.setTimeout(30_000);

function encodedBatch(...values: string[]): Uint8Array {
  const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs });
  for (const value of values) builder.tryAppend(1, null, new TextEncoder().encode(value));
  return builder.close();
}

describe("whole batches", () => {
  test("sendBatch stores all or nothing, with its condition", async () => {
    await using w = await world();
    await using producer = w.sluice.producer({ topic: "t" });
    const records = numbers(3).map((value) => ({ value }));
    expect(await producer.sendBatch({ records, expectedBaseOffset: 0, fenceToken: 7 })).toMatchObject({
      partition: 0,
      baseOffset: 0,
      lastOffset: 2,
    });
    expect(w.cluster.arrivals[0]?.request.fenceToken).toBe(7n);
    expect(await failure(producer.sendBatch({ records, expectedBaseOffset: 9 }))).toBe("UNEXPECTED_OFFSET");
    await producer.send({ value: "3" });
    expect(await storedValues(w)).toEqual([numbers(4)]);
    expect(w.cluster.initCalls).toBe(1);
  });

  test("sendEncoded sends bytes as they are", async () => {
    await using w = await world();
    await using producer = w.sluice.producer({ idempotent: false, maxInFlight: 64 });
    const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs });
    builder.tryAppend(1, null, new TextEncoder().encode("raw"));
    const batch = builder.close();
    const answers = await Promise.all(numbers(20).map(() => producer.sendEncoded("t", 0, batch)));
    expect(answers.map((a) => a.baseOffset)).toEqual(numbers(20).map(Number));
    const sent = Buffer.concat(w.cluster.arrivals.map((a) => a.request.data.value as Uint8Array));
    expect(sent.equals(Buffer.concat(numbers(20).map(() => batch)))).toBe(true);
    expect(await failure(producer.sendEncoded("t", 0, batch.subarray(0, 40)))).toBe("CORRUPT_BATCH");
  });

  test("batches without a sequence that wait for the same partition are written together, up to the size of a run", async () => {
    await using w = await world();
    await using producer = w.sluice.producer({ idempotent: false, maxInFlight: 64 });
    const large = encodedBatch("x".repeat(100_000));
    const answers = await Promise.all([
      ...numbers(30).map((v) => producer.sendEncoded("t", 0, encodedBatch(v, v))),
      producer.sendEncoded("t", 0, large),
      producer.sendEncoded("t", 0, large),
      producer.sendEncoded("t", 0, large),
    ]);
    const sizes = w.cluster.arrivals.map((a) => (a.request.data.value as Uint8Array).length);
    expect(sizes.length).toBeLessThanOrEqual(4);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(256 * 1024);
    // Two records in each of the first thirty, one in the large ones.
    expect(answers.map((a) => [a.baseOffset, a.lastOffset])).toEqual([
      ...numbers(30).map((v) => [Number(v) * 2, Number(v) * 2 + 1]),
      [60, 60],
      [61, 61],
      [62, 62],
    ]);
  });

  test("batches with a producer id go one at a time", async () => {
    await using w = await world();
    await using producer = w.sluice.producer({ idempotent: false, maxInFlight: 64 });
    const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs });
    const batches = numbers(5).map((v) => {
      builder.tryAppend(1, null, new TextEncoder().encode(v));
      return builder.close({ producerId: 7, producerEpoch: 0, baseSequence: Number(v) });
    });
    await Promise.all(batches.map((b) => producer.sendEncoded("t", 0, b)));
    expect(w.cluster.arrivals).toHaveLength(5);
  });

  test("one bad batch of a run fails alone: the others are written again without it", async () => {
    await using w = await world();
    await using producer = w.sluice.producer({ idempotent: false, maxInFlight: 64 });
    const bad = encodedBatch("bad");
    w.cluster.onProduce = (a) => {
      const bytes = Buffer.from(a.request.data.value as Uint8Array);
      return bytes.includes("bad") ? { error: "INVALID_RECORD" } : "store";
    };
    const writes = [...numbers(4).map((v) => encodedBatch(v)), bad, encodedBatch("last")].map((b) => producer.sendEncoded("t", 0, b));
    const flushed = producer.flush();
    const results = await Promise.allSettled(writes);
    await flushed;
    expect(results.map((r) => (r.status === "fulfilled" ? r.value.baseOffset : (r.reason as { code: string }).code))).toEqual([
      0,
      1,
      2,
      3,
      "INVALID_RECORD",
      4,
    ]);
    expect(await storedValues(w)).toEqual([["0", "1", "2", "3", "last"]]);
  });

  test("a flush that waits for a batch sees it stored when others have joined it", async () => {
    await using w = await world();
    let release = (): void => undefined;
    const hold = new Promise<void>((resolve) => (release = resolve));
    w.cluster.onProduce = (a) => (a.index === 0 ? { hold } : "store");
    await using producer = w.sluice.producer({ idempotent: false, maxInFlight: 1 });
    const first = producer.sendEncoded("t", 0, encodedBatch("a"));
    await until(() => w.cluster.arrivals.length === 1);
    const second = producer.sendEncoded("t", 0, encodedBatch("b"));
    const flushed = producer.flush();
    await new Promise((resolve) => setImmediate(resolve));
    const third = producer.sendEncoded("t", 0, encodedBatch("c"));
    release();
    await Promise.all([first, second, third, flushed]);
    expect(w.cluster.arrivals).toHaveLength(2);
  });

  test("a refusal that does not judge one batch fails the run, and writes nothing again", async () => {
    await using w = await world();
    await using producer = w.sluice.producer({ idempotent: false, maxInFlight: 64 });
    w.cluster.onProduce = () => ({ error: "INTERNAL", stored: true });
    const results = await Promise.all(numbers(3).map((v) => failure(producer.sendEncoded("t", 0, encodedBatch(v)))));
    expect(results).toEqual(["INTERNAL", "INTERNAL", "INTERNAL"]);
    expect(w.cluster.partition("t", 0).end).toBe(3);
  });

  test("a run whose stream breaks has an unknown outcome for all its batches", async () => {
    await using w = await world();
    await using producer = w.sluice.producer({ idempotent: false, maxInFlight: 64 });
    w.cluster.onProduce = (a) => (a.index === 0 ? { drop: "after" } : "store");
    const results = await Promise.all(numbers(3).map((v) => failure(producer.sendEncoded("t", 0, encodedBatch(v)))));
    expect(results).toEqual(["OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN"]);
  });
});
