import { describe, expect, test } from "@jest/globals";
import { errorNumber } from "@sluice/core/model";
import { DataFormat, type ConsumeResponse } from "@sluice/proto/v1/consume";
import type { ProduceStreamResponse } from "@sluice/proto/v1/produce";
import { FakeCluster, offsetsIn } from "./support/fake-cluster.ts";
import { batchOf, eventually, startProxy } from "./support/proxy.ts";

const timeoutMs = 5_000;
const utf8 = new TextEncoder();
const text = (bytes: Uint8Array | undefined): string => new TextDecoder().decode(bytes);
const latest = { at: { case: "latest", value: {} } } as const;
const earliest = { at: { case: "earliest", value: {} } } as const;

describe("proxy on a scripted cluster", () => {
  test("records go out and come back: unary produce, fetch in both formats", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 2);
    const records = ["a", "b", "c"].map((value) => ({
      key: utf8.encode("k"),
      value: utf8.encode(value),
      timestampMs: 5n,
      headers: [{ name: "h", value: utf8.encode("x") }, { name: "n" }],
    }));
    const written = await p.produce.produce({ topic: "t", partition: 1, data: { case: "records", value: { records } } }, { timeoutMs });
    expect([written.partition, written.baseOffset, written.lastOffset]).toEqual([1, 0n, 2n]);
    const read = await p.consume.fetch({ topic: "t", partition: 1, offset: 1n, waitMs: 2_000 }, { timeoutMs });
    expect(read.records?.records.map((r) => [text(r.key), text(r.value), r.offset, r.timestampMs])).toEqual([
      ["k", "b", 1n, 5n],
      ["k", "c", 2n, 5n],
    ]);
    expect(read.records?.records[0]?.headers.map((h) => [h.name, h.value && text(h.value)])).toEqual([
      ["h", "x"],
      ["n", undefined],
    ]);
    expect([read.nextOffset, read.highWatermark]).toEqual([3n, 3n]);
    const batches = await p.consume.fetch({ topic: "t", partition: 1, offset: 1n, format: DataFormat.BATCHES }, { timeoutMs });
    expect(offsetsIn(batches.batches)).toEqual([0, 1, 2]);
  });

  test("a fetch at the end waits for the push and reads no storage", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 1);
    const empty = await p.consume.fetch({ topic: "t", offset: 0n, waitMs: 50 }, { timeoutMs });
    expect([empty.nextOffset, empty.records]).toEqual([0n, undefined]);
    await eventually(async () => (await p.consume.fetch({ topic: "t", offset: 0n }, { timeoutMs })).highWatermark === 0n, "marks");
    const before = cluster.reads;
    const waiting = p.consume.fetch({ topic: "t", offset: 0n, waitMs: 4_000 }, { timeoutMs });
    await eventually(async () => (await p.metrics.value("sluice_proxy_tail_waiting_count")) === 1, "a parked fetch");
    cluster.append(topic, 0, batchOf(["x"]));
    expect((await waiting).records?.records.map((r) => text(r.value))).toEqual(["x"]);
    expect(cluster.reads).toBe(before);
    expect(await p.metrics.value("sluice_proxy_read_bytes_total", { source: "tail" })).toBeGreaterThan(0);
  });

  test("an offset beyond the end is refused by the owner's word", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    const late = p.consume.fetch({ topic: "t", offset: 7n, waitMs: 2_000 }, { timeoutMs });
    await expect(late).rejects.toMatchObject({ code: "OFFSET_OUT_OF_RANGE" });
    await expect(p.consume.fetch({ topic: "nope", offset: 0n }, { timeoutMs })).rejects.toMatchObject({ code: "UNKNOWN_TOPIC" });
    await expect(p.consume.fetch({ topic: "t", partition: 3 }, { timeoutMs })).rejects.toMatchObject({ code: "UNKNOWN_PARTITION" });
  });

  test("a produce stream: many in flight, answers by id and in order, refusals of single messages", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    const stream = p.produce.produceStream({ timeoutMs });
    const answers: ProduceStreamResponse[] = [];
    const ended = new Promise<unknown>((resolve) => stream.listen((m) => answers.push(m), resolve));
    cluster.refusals.push("NOT_OWNER", "PARTITION_RECOVERING");
    for (let id = 1; id <= 50; id += 1) {
      stream.write({ id, topic: id === 1 ? "t" : "", partition: 0, data: { case: "batch", value: batchOf([`v${id}`]) } });
    }
    stream.write({ id: 51, data: { case: "batch", value: new Uint8Array(10) } });
    stream.write({ id: 52, topic: "unknown", data: { case: "batch", value: batchOf(["x"]) } });
    stream.write({ id: 53, topic: "t", expectedBaseOffset: 7n, data: { case: "batch", value: batchOf(["x"]) } });
    stream.end();
    expect(await ended).toBeUndefined();
    const written = answers.filter((a) => a.error === 0);
    expect(written.map((a) => a.id)).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
    expect(written.map((a) => Number(a.baseOffset))).toEqual(Array.from({ length: 50 }, (_, i) => i));
    const refused = new Map(answers.filter((a) => a.error !== 0).map((a) => [a.id, a.error]));
    expect(refused.get(51)).toBe(errorNumber("CORRUPT_BATCH"));
    expect(refused.get(52)).toBe(errorNumber("UNKNOWN_TOPIC"));
    expect(refused.get(53)).toBe(errorNumber("UNEXPECTED_OFFSET"));
  });

  test("consume: from earliest through storage, live through the tail, end reported, seek numbers", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 1);
    for (let i = 0; i < 20; i += 1) cluster.append(topic, 0, batchOf([`v${i}`]));
    const stream = p.consume.consume({ timeoutMs: 10_000 });
    const got: ConsumeResponse[] = [];
    stream.listen(
      (m) => got.push(m),
      () => undefined,
    );
    stream.write({
      request: {
        case: "start",
        value: { topic: "t", position: earliest, format: DataFormat.BATCHES, creditBytes: 1 << 20, reportEnd: true },
      },
    });
    const offsets = (seek = 0): number[] => got.filter((m) => m.seekNumber === seek).flatMap((m) => offsetsIn(m.batches));
    await eventually(() => got.some((m) => m.endReached), "the end");
    expect(offsets()).toEqual(Array.from({ length: 20 }, (_, i) => i));
    cluster.append(topic, 0, batchOf(["live"]));
    await eventually(() => offsets().length === 21, "the live record");
    stream.write({ request: { case: "seek", value: { partition: 0, seekNumber: 3, position: { at: { case: "offset", value: 18n } } } } });
    await eventually(() => offsets(3).length === 3, "records after the seek");
    expect(offsets(3)).toEqual([18, 19, 20]);
    stream.write({ request: { case: "seek", value: { partition: 0, seekNumber: 4, position: { at: { case: "offset", value: 99n } } } } });
    await eventually(
      () => got.some((m) => m.seekNumber === 4 && m.error === errorNumber("OFFSET_OUT_OF_RANGE")),
      "an error of the partition",
    );
    stream.cancel();
  });

  test("a consumer gets no more than its credit and one batch", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 1);
    const batch = batchOf(["x".repeat(1_000)]);
    for (let i = 0; i < 50; i += 1) cluster.append(topic, 0, batch);
    const stream = p.consume.consume({ timeoutMs: 10_000 });
    let bytes = 0;
    stream.listen(
      (m) => (bytes += m.batches.length),
      () => undefined,
    );
    const start = { topic: "t", position: earliest, format: DataFormat.BATCHES, creditBytes: 5_000 };
    stream.write({ request: { case: "start", value: start } });
    await eventually(() => bytes >= 5_000, "the first credit");
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(bytes).toBeLessThanOrEqual(5_000 + batch.length);
    stream.write({ request: { case: "creditBytes", value: 1 << 20 } });
    await eventually(() => bytes === 50 * batch.length, "the rest");
    stream.cancel();
  });

  test("produce is held while the owner is away, and its death is reported", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    const write = () => p.produce.produce({ topic: "t", data: { case: "batch", value: batchOf(["x"]) } }, { timeoutMs });
    expect((await write()).baseOffset).toBe(0n);
    await cluster.stopBroker();
    await eventually(() => cluster.reports.includes("broker-1"), "the report");
    const held = write();
    await eventually(async () => ((await p.metrics.value("sluice_proxy_produce_held_bytes")) ?? 0) > 0, "a held batch");
    await cluster.startBroker();
    expect((await held).baseOffset).toBe(1n);
  });

  test("list offsets: earliest, latest by the owner's word, by time", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 2);
    cluster.append(topic, 1, batchOf(["x", "y"]));
    const list = async (position: typeof latest | typeof earliest) =>
      (await p.consume.listOffsets({ topic: "t", position }, { timeoutMs })).offsets.map((o) => [o.partition, Number(o.offset)]);
    expect(await list(earliest)).toEqual([
      [0, 0],
      [1, 0],
    ]);
    expect(await list(latest)).toEqual([
      [0, 0],
      [1, 2],
    ]);
  });

  test("admin: create is visible at once, describe, delete; producer ids are never given twice", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await using q = await startProxy(cluster, "proxy-2");
    await p.admin.createTopic({ name: "made", partitions: 3 }, { timeoutMs });
    const described = await p.admin.describeTopic({ name: "made", includePartitions: true }, { timeoutMs });
    expect(described.topic?.config["max.message.bytes"]).toBe("1048576");
    expect(described.partitions.map((d) => [d.partition, d.owner, d.segments.length])).toEqual([
      [0, "broker-1", 1],
      [1, "broker-1", 1],
      [2, "broker-1", 1],
    ]);
    expect((await p.admin.listTopics({}, { timeoutMs })).topics.map((t) => t.name)).toEqual(["made"]);
    const state = await p.admin.describeCluster({}, { timeoutMs });
    expect([state.topics, state.topicsInternal]).toEqual([1, 0]);
    // There before the first failure: a rise is seen.
    expect(await p.metrics.value("sluice_proxy_produce_failures_total", { code: "NOT_ENOUGH_REPLICAS" })).toBe(0);
    expect([state.controller, state.partitions, state.partitionsOffline]).toEqual(["controller-1", 3, 0]);
    await p.admin.deleteTopic({ name: "made" }, { timeoutMs });
    await expect(p.consume.fetch({ topic: "made" }, { timeoutMs })).rejects.toMatchObject({ code: "UNKNOWN_TOPIC" });
    const ids = new Set<bigint>();
    for (const proxy of [p, q, p, q]) ids.add((await proxy.produce.initProducer({}, { timeoutMs })).producerId);
    expect(ids.size).toBe(4);
  });

  test("drain: not ready, streams are told, what is in flight is answered", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    expect((await p.health.report("ready")).ok).toBe(true);
    const stream = p.produce.produceStream({ timeoutMs: 10_000 });
    const answers: ProduceStreamResponse[] = [];
    const ended = new Promise<{ code?: string } | undefined>((resolve) => stream.listen((m) => answers.push(m), resolve));
    cluster.holding = true;
    stream.write({ id: 9, topic: "t", data: { case: "batch", value: batchOf(["x"]) } });
    await eventually(() => cluster.heldFrames === 1, "a batch at the broker");
    const draining = p.proxy.drain();
    expect((await p.health.report("ready")).ok).toBe(false);
    cluster.releaseHeld();
    await draining;
    expect(answers.map((a) => [a.id, a.error])).toEqual([[9, 0]]);
    expect((await ended)?.code).toBe("SHUTTING_DOWN");
  });
});
