import { beforeEach, describe, expect, test } from "@jest/globals";
import { apis, FetchRequest, Writer, type FetchResponse, type Input } from "@sluice/kafka-wire";
import { createMetrics, type Metrics } from "@sluice/runtime";
import { ManualClock } from "@sluice/runtime/testing";
import { FetchSessions } from "../../src/kafka/fetch-sessions.ts";
import { kafkaLimits } from "../../src/kafka/limits.ts";
import { FakeCluster, offsetsIn } from "../support/fake-cluster.ts";
import { batchOf, eventually, startProxy } from "../support/proxy.ts";

const MiB = 1024 * 1024;
const topicOf = (topic: string, ...asked: readonly (readonly [partition: number, offset: number])[]) => ({
  topic,
  partitions: asked.map(([partition, fetchOffset]) => ({ partition, fetchOffset, partitionMaxBytes: MiB })),
});
const told = (response: FetchResponse) =>
  response.responses.flatMap(({ topic, partitions }) =>
    partitions.map(
      ({ partitionIndex, errorCode, records }) =>
        `${topic}/${partitionIndex}${errorCode === 0 ? "" : ` error ${errorCode}`}: ${offsetsIn(records ?? new Uint8Array(0)).join()}`,
    ),
  );

describe("fetch sessions of a Kafka client", () => {
  test("partitions are named once; an answer has those with news; forgotten ones are read no more", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const t = await cluster.topic("t", 3);
    cluster.append(t, 0, batchOf(["a"]));
    await using client = await p.kafka();
    const fetch = (request: Input<FetchRequest>) => client.call(apis.Fetch, 11, { maxWaitMs: 0, minBytes: 1, maxBytes: MiB, ...request });
    const first = await fetch({ maxWaitMs: 2_000, sessionEpoch: 0, topics: [topicOf("t", [0, 0], [1, 0], [2, 0])] });
    const { sessionId } = first;
    expect(sessionId).toBeGreaterThan(0);
    expect(told(first)).toEqual(["t/0: 0", "t/1: ", "t/2: "]);
    let epoch = 0;
    const next = (request: Input<FetchRequest> = {}) => fetch({ sessionId, sessionEpoch: (epoch += 1), ...request });
    // The client goes on behind the record. Marks of the others settle within the first few.
    await next({ topics: [topicOf("t", [0, 1])] });
    await eventually(async () => told(await next()).length === 0, "no news");
    cluster.append(t, 2, batchOf(["b"]));
    await eventually(async () => told(await next({ maxWaitMs: 500 })).join() === "t/2: 0", "the record");
    // Until the client says where it goes on, the same again.
    expect(told(await next({ maxWaitMs: 500 }))).toEqual(["t/2: 0"]);
    await next({ topics: [topicOf("t", [2, 1])], forgottenTopicsData: [{ topic: "t", partitions: [0] }] });
    cluster.append(t, 0, batchOf(["c"]));
    cluster.append(t, 1, batchOf(["d"]));
    await eventually(async () => told(await next({ maxWaitMs: 500 })).includes("t/1: 0"), "the record of the one that is left");
    expect(await p.metrics.value("sluice_proxy_kafka_fetch_session_partitions_count")).toBe(2);
    // A partition that fails is told each time.
    const broken = await next({ topics: [topicOf("t", [1, 99])] });
    expect(told(broken)).toEqual(["t/1 error 1: "]);
    expect(told(await next())).toEqual(["t/1 error 1: "]);
  }, 30_000);

  test("an incremental fetch that names nothing is no empty one: it waits for its session's partitions", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const t = await cluster.topic("t", 1);
    await using client = await p.kafka();
    const ask = { minBytes: 1, maxBytes: MiB };
    const { sessionId } = await client.call(apis.Fetch, 11, { ...ask, maxWaitMs: 0, sessionEpoch: 0, topics: [topicOf("t", [0, 0])] });
    let epoch = 0;
    const next = (maxWaitMs: number) => client.call(apis.Fetch, 11, { ...ask, maxWaitMs, sessionId, sessionEpoch: (epoch += 1) });
    await eventually(async () => told(await next(0)).length === 0, "no news");
    const waiting = next(20_000);
    await eventually(async () => (await p.metrics.value("sluice_proxy_tail_waiting_count")) === 1, "a parked fetch");
    cluster.append(t, 0, batchOf(["late"]));
    expect(told(await waiting)).toEqual(["t/0: 0"]);
  });

  test("a session that is not there, a wrong epoch, ids for names, the end of one, and none wanted", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const t = await cluster.topic("t", 1);
    await using client = await p.kafka();
    const fetch = (request: Input<FetchRequest>, version = 11) =>
      client.call(apis.Fetch, version, { maxWaitMs: 0, minBytes: 1, ...request });
    const topics = [topicOf("t", [0, 0])];
    expect(await fetch({ sessionId: 5, sessionEpoch: 1 })).toMatchObject({ errorCode: 70, sessionId: 0, responses: [] });
    expect(await fetch({ sessionEpoch: -1, topics })).toMatchObject({ errorCode: 0, sessionId: 0 });
    expect(await fetch({ topics }, 4)).toMatchObject({ sessionId: 0 });
    const { sessionId } = await fetch({ sessionEpoch: 0, topics });
    expect(await fetch({ sessionId, sessionEpoch: 2 })).toMatchObject({ errorCode: 71 });
    const byId = [{ topicId: t.topicId, partitions: topics[0]?.partitions ?? [] }];
    expect(await fetch({ sessionId, sessionEpoch: 1, topics: byId }, 13)).toMatchObject({ errorCode: 106 });
    expect(await fetch({ sessionId, sessionEpoch: 1 })).toMatchObject({ errorCode: 0, sessionId });
    // Of another connection: it is not its own.
    await using other = await p.kafka();
    expect(await other.call(apis.Fetch, 11, { sessionId, sessionEpoch: 2 })).toMatchObject({ errorCode: 70 });
    // A session without partitions is over.
    const last = await fetch({ sessionId, sessionEpoch: 2, forgottenTopicsData: [{ topic: "t", partitions: [0] }] });
    expect(last).toMatchObject({ errorCode: 0, sessionId: 0, responses: [] });
    expect(await fetch({ sessionId, sessionEpoch: 3 })).toMatchObject({ errorCode: 70 });
    // Its client ends one, and a connection ends all of its own.
    const another = await fetch({ sessionEpoch: 0, topics });
    expect(await fetch({ sessionId: another.sessionId, sessionEpoch: -1, topics })).toMatchObject({ sessionId: 0 });
    await fetch({ sessionEpoch: 0, topics });
    expect(await p.metrics.value("sluice_proxy_kafka_fetch_sessions_count")).toBe(1);
    client.socket.destroy();
    await eventually(async () => (await p.metrics.value("sluice_proxy_kafka_fetch_sessions_count")) === 0, "no session");
  });
});

describe("the limits of fetch sessions", () => {
  let clock: ManualClock;
  let metrics: Metrics;
  let sessions: FetchSessions;
  beforeEach(() => {
    clock = new ManualClock();
    metrics = createMetrics({ service: "proxy" });
    sessions = new FetchSessions(clock, metrics);
  });
  const requestOf = (partitions: number, sessionId = 0, sessionEpoch = 0, from = 0): FetchRequest => {
    const asked = Array.from({ length: partitions }, (_, i) => [from + i, 0] as const);
    const writer = new Writer();
    FetchRequest.encode(11, { sessionId, sessionEpoch, topics: partitions === 0 ? [] : [topicOf("t", ...asked)] }, writer);
    return FetchRequest.decode(11, writer.toBytes(), 0);
  };
  const begin = (partitions: number, connection = new AbortController().signal): number =>
    sessions.scope(requestOf(partitions), 11, connection).sessionId;

  test("without room a client goes without, until a session has not been used for a while", async () => {
    const { fetchSessionsMax, fetchSessionIdleMs } = kafkaLimits;
    const ids = Array.from({ length: fetchSessionsMax }, () => begin(1));
    expect(new Set(ids).size).toBe(fetchSessionsMax);
    expect(begin(1)).toBe(0);
    clock.advance(fetchSessionIdleMs + 1);
    expect(begin(1)).toBeGreaterThan(0);
    expect(sessions.count).toBe(fetchSessionsMax);
    expect(await metrics.value("sluice_proxy_kafka_fetch_sessions_total", { event: "evicted" })).toBe(1);
    expect(await metrics.value("sluice_proxy_kafka_fetch_sessions_total", { event: "refused" })).toBe(1);
  });

  test("partitions are bounded in one session and in all, also those that are added later", () => {
    const { fetchSessionPartitionsMax, fetchSessionsPartitionsMax } = kafkaLimits;
    expect(begin(fetchSessionPartitionsMax + 1)).toBe(0);
    const connection = new AbortController().signal;
    const grown = sessions.scope(requestOf(1), 11, connection).sessionId;
    const full = Math.floor(fetchSessionsPartitionsMax / fetchSessionPartitionsMax) - 1;
    for (let i = 0; i < full; i += 1) expect(begin(fetchSessionPartitionsMax)).toBeGreaterThan(0);
    expect(begin(fetchSessionPartitionsMax)).toBe(0);
    // Too much: what it has is answered once more, in full, and the session is over.
    const last = sessions.scope(requestOf(fetchSessionPartitionsMax, grown, 1, 1), 11, connection);
    expect([last.sessionId, last.errorCode, last.topics[0]?.partitions.length]).toEqual([0, 0, fetchSessionPartitionsMax + 1]);
    expect(sessions.partitions).toBe(full * fetchSessionPartitionsMax);
  });

  test("a connection has a few; the one that it began first goes", () => {
    const connection = new AbortController();
    const ids = Array.from({ length: kafkaLimits.fetchSessionsPerConnectionMax + 1 }, () => begin(2, connection.signal));
    expect(sessions.count).toBe(kafkaLimits.fetchSessionsPerConnectionMax);
    const asked = (id: number) => sessions.scope(requestOf(0, id, 1), 11, connection.signal).errorCode;
    expect([asked(ids[0] ?? 0), asked(ids[1] ?? 0)]).toEqual([70, 0]);
    connection.abort();
    expect([sessions.count, sessions.partitions]).toEqual([0, 0]);
  });

  test("one partition with much to read does not starve the others", () => {
    const connection = new AbortController().signal;
    const first = sessions.scope(requestOf(3), 11, connection);
    const order = (epoch: number) => sessions.scope(requestOf(0, first.sessionId, epoch), 11, connection);
    const second = order(1);
    expect(second.topics.flatMap(({ partitions }) => partitions.map(({ partition }) => partition))).toEqual([0, 1, 2]);
    const marks = { highWatermark: 9, lastStableOffset: 9, logStartOffset: 0 };
    expect(second.tells("", "t", { partitionIndex: 0, ...marks }, 100)).toBe(true);
    expect(second.tells("", "t", { partitionIndex: 1, ...marks }, 0)).toBe(true);
    expect(second.tells("", "t", { partitionIndex: 1, ...marks }, 0)).toBe(false);
    expect(order(2).topics.flatMap(({ partitions }) => partitions.map(({ partition }) => partition))).toEqual([1, 2, 0]);
  });
});
