import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { describe, expect, jest, test } from "@jest/globals";
import { connect } from "../src/index.ts";
import { FakeCluster, startProxy } from "./fake-cluster.ts";
import { failure, numbers, storedValues, until, world } from "./support.ts";

// A busy machine takes its time; none of it is waited for on purpose.
jest.setTimeout(30_000);

describe("connect", () => {
  test("refuses what is no endpoint, and tells when nobody answers", async () => {
    expect(await failure(connect({ endpoints: [] }))).toBe("INVALID_ARGUMENT");
    for (const bad of ["host", "host:", ":7070", "http://h:1", "a b:1"])
      expect(await failure(connect({ endpoints: [bad] }))).toBe("INVALID_ARGUMENT");
    await using gone = await startProxy(new FakeCluster());
    await gone.server.stop();
    const startMs = performance.now();
    expect(await failure(connect({ endpoints: [gone.address], connectTimeoutMs: 300 }))).toBe("UNREACHABLE");
    expect(performance.now() - startMs).toBeLessThan(2_000);
    expect(await failure(connect({ endpoints: [gone.address], signal: AbortSignal.abort() }))).toBe("CANCELLED");
  });

  test("says whether nobody listens or somebody who does not speak gRPC", async () => {
    await using other = createServer((socket) => socket.on("error", () => undefined).on("data", () => socket.destroy()));
    other.listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as AddressInfo;
    const reason = (endpoint: string) =>
      connect({ endpoints: [endpoint], connectTimeoutMs: 300 }).then(String, (error: Error) => error.message);
    expect(await reason(`127.0.0.1:${port}`)).toContain("the peer accepts connections but does not speak gRPC");
    expect(await reason("127.0.0.1:1")).toContain("does not accept connections (ECONNREFUSED)");
  });

  test("passes by endpoints that are down", async () => {
    await using w = await world({ proxies: 2 });
    const [a, b] = w.proxies;
    await a?.server.stop();
    for (let i = 0; i < 4; i++) {
      await using sluice = await connect({ endpoints: [a?.address as string, b?.address as string] });
      expect(sluice.endpoint).toBe(b?.address);
    }
  });
});

describe("a proxy dies", () => {
  test("producer and consumer go on at the other at once, each record once", async () => {
    const events: string[] = [];
    await using w = await world({ partitions: 4, proxies: 2, connect: { onEvent: (e) => events.push(e.type) } });
    await using consumer = w.sluice.consumer({ topic: "t", from: "earliest" });
    const seen: number[] = [];
    const reading = (async () => {
      for await (const r of consumer) {
        seen.push(Number(r.valueText()));
        if (seen.length === 4_000) break;
      }
    })();
    await using producer = w.sluice.producer({ topic: "t", batchBytes: 2_048 });
    let slowestMs = 0;
    const sent: Promise<unknown>[] = [];
    for (const value of numbers(4_000)) {
      const startMs = performance.now();
      sent.push(producer.send({ key: value, value }).then(() => (slowestMs = Math.max(slowestMs, performance.now() - startMs))));
      if (Number(value) % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
      if (value === "2000") {
        await until(() => events.includes("connected"));
        void w.proxies.find((p) => p.address === w.sluice.endpoint)?.server.stop();
      }
    }
    await Promise.all(sent);
    await reading;
    expect(events).toContain("connection_lost");
    // A quarter of a second on an idle machine; the end-to-end tests measure the limit.
    expect(slowestMs).toBeLessThan(5_000);
    expect(seen.toSorted((a, b) => a - b)).toEqual(numbers(4_000).map(Number));
    expect((await storedValues(w)).flat()).toHaveLength(4_000);
  });

  test("a proxy that comes back under its address serves again", async () => {
    const cluster = new FakeCluster();
    cluster.create("t", 1);
    const first = await startProxy(cluster);
    await using sluice = await connect({ endpoints: [first.address] });
    await using producer = sluice.producer({ topic: "t" });
    await producer.send({ value: "a" });
    await first.server.stop();
    const later = producer.send({ value: "b" });
    const described = sluice.admin.describeTopic("t");
    await new Promise((resolve) => setTimeout(resolve, 100));
    await using _second = await startProxy(cluster, Number(first.address.split(":")[1]));
    expect((await later).offset).toBe(1);
    expect((await described).partitions).toBe(1);
  });
});

describe("calls", () => {
  test("topics, configuration, cluster, offsets", async () => {
    await using w = await world();
    const { admin } = w.sluice;
    expect(await admin.createTopic({ name: "n", partitions: 3, config: { a: "1" } })).toMatchObject({
      name: "n",
      partitions: 3,
      createdAtMs: 7,
    });
    expect(await failure(admin.createTopic({ name: "n", partitions: 3 }))).toBe("TOPIC_EXISTS");
    expect(await failure(admin.createTopic({ name: "m", partitions: 0 }))).toBe("INVALID_ARGUMENT");
    expect((await admin.updateTopicConfig("n", { set: { a: "2" } })).config["a"]).toBe("2");
    expect((await admin.listTopics()).map((t) => t.name)).toEqual(["t", "n"]);
    expect(await admin.describeTopic("n")).toMatchObject({ partitions: 3, partitionDetails: [] });
    expect(await admin.listOffsets("n", "latest", { partitions: [1] })).toEqual([{ partition: 1, offset: 0, timestampMs: -1 }]);
    expect(await admin.describeCluster()).toMatchObject({ clusterId: "c", topics: 2 });
    expect(await admin.addPartitions("n", 5, { validateOnly: true })).toMatchObject({ partitions: 3 });
    expect(await admin.addPartitions("n", 5)).toMatchObject({ partitions: 5 });
    expect(await failure(admin.addPartitions("n", 0.5))).toBe("INVALID_ARGUMENT");
    await admin.deleteTopic("n");
    expect(await failure(admin.describeTopic("n"))).toBe("UNKNOWN_TOPIC");
  });

  test("group offsets", async () => {
    await using w = await world();
    const { groups } = w.sluice;
    await groups.commit("g", [{ topic: "t", partition: 0, offset: 42, metadata: "m" }]);
    expect(await groups.fetch("g")).toEqual([{ topic: "t", partition: 0, offset: 42, metadata: "m", committedAtMs: 5 }]);
    expect(await failure(groups.commit("g", [{ topic: "none", partition: 0, offset: 1 }]))).toBe("UNKNOWN_TOPIC");
    expect(await failure(groups.commit("g", [{ topic: "t", partition: 0, offset: -1 }]))).toBe("INVALID_ARGUMENT");
  });

  test("retriable errors are retried until the time is over, others told with code and hint", async () => {
    await using w = await world();
    let left = 3;
    w.cluster.unaryError = () => (left-- > 0 ? "METADATA_UNAVAILABLE" : undefined);
    expect(await w.sluice.admin.listTopics()).toHaveLength(1);
    w.cluster.unaryError = () => "METADATA_UNAVAILABLE";
    // What the last attempt said, or that the time ended while it was under way.
    expect(["METADATA_UNAVAILABLE", "TIMED_OUT"]).toContain(await failure(w.sluice.admin.listTopics({ timeoutMs: 400 })));
    const late: unknown = await w.sluice.admin.listTopics({ timeoutMs: 400 }).catch((error: unknown) => error);
    expect((late as Error).message).toMatch(/^as the test wants$|^no answer within 0.4 s; before that METADATA_UNAVAILABLE: /);
    w.cluster.unaryError = () => "PERMISSION_DENIED";
    await expect(w.sluice.admin.listTopics()).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      retriable: false,
      hint: expect.any(String),
    });
    w.cluster.unaryError = () => "OUTCOME_UNKNOWN";
    expect(await failure(w.sluice.admin.createTopic({ name: "x", partitions: 1 }))).toBe("OUTCOME_UNKNOWN");
  });

  test("after the close everything is refused", async () => {
    await using w = await world();
    await w.sluice.close();
    expect(await failure(w.sluice.admin.listTopics())).toBe("SHUTTING_DOWN");
    expect(() => w.sluice.producer()).toThrow(expect.objectContaining({ code: "SHUTTING_DOWN" }));
  });
});
