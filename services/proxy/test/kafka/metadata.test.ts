import { describe, expect, test } from "@jest/globals";
import { apis, ZERO_UUID } from "@sluice/kafka-wire";
import type { AccessRequest } from "@sluice/rpc";
import { FakeCluster } from "../support/fake-cluster.ts";
import { eventually, startProxy } from "../support/proxy.ts";

describe("Metadata", () => {
  test("names the proxies, and for every partition a leader among them with its owner's epoch", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using first = await startProxy(cluster, "proxy-1");
    await using second = await startProxy(cluster, "proxy-2");
    const topic = await cluster.topic("t", 5);
    await using a = await first.kafka();
    await using b = await second.kafka();
    await eventually(async () => (await a.call(apis.Metadata, 12, {})).brokers.length === 2, "both proxies");
    const told = await a.call(apis.Metadata, 12, { topics: [{ name: "t" }] });
    expect(told.brokers.map(({ nodeId, rack }) => [nodeId, rack])).toEqual([
      [1, "a"],
      [2, "a"],
    ]);
    expect(told.brokers.map(({ host, port }) => `${host}:${port}`)).toEqual([first, second].map((p) => p.proxy.endpoints()["kafka"]));
    expect(told.clusterId).not.toBeNull();
    const [described] = told.topics;
    expect([described?.errorCode, described?.name, described?.topicId]).toEqual([0, "t", topic.topicId]);
    const leaders = described?.partitions.map(({ leaderId }) => leaderId) ?? [];
    expect(leaders).toEqual(expect.arrayContaining([1, 2]));
    expect(
      described?.partitions.every(({ leaderEpoch, replicaNodes, leaderId }) => leaderEpoch === 1 && replicaNodes[0] === leaderId),
    ).toBe(true);
    // Every proxy says the same.
    await eventually(async () => (await b.call(apis.Metadata, 12, {})).brokers.length === 2, "both proxies");
    const other = await b.call(apis.Metadata, 12, { topics: [{ name: "t" }] });
    expect(other.topics[0]?.partitions.map(({ leaderId }) => leaderId)).toEqual(leaders);
    // Each sends requests for "the controller" to itself.
    expect([told.controllerId, other.controllerId]).toEqual([1, 2]);
  });

  test("a proxy that goes hands its leaders over, at the same epoch; one that drains leads nothing and is named until it is gone", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using first = await startProxy(cluster, "proxy-1");
    await using second = await startProxy(cluster, "proxy-2");
    await cluster.topic("t", 4);
    await using a = await first.kafka();
    await eventually(async () => (await a.call(apis.Metadata, 12, {})).brokers.length === 2, "both proxies");
    await second.proxy.drain();
    const told = async () => (await a.call(apis.Metadata, 12, { topics: [{ name: "t" }] })).topics[0]?.partitions ?? [];
    await eventually(async () => (await told()).every(({ leaderId }) => leaderId === 1), "one leader");
    expect((await told()).map(({ leaderId, leaderEpoch, isrNodes }) => [leaderId, leaderEpoch, isrNodes])).toEqual(
      [1, 2, 3, 4].map(() => [1, 1, [1]]),
    );
    expect((await a.call(apis.Metadata, 12, {})).brokers.map(({ nodeId }) => nodeId)).toEqual([1, 2]);
    await second.proxy.stop();
    await eventually(async () => (await a.call(apis.Metadata, 12, {})).brokers.length === 1, "one proxy");
  });

  test("all topics or none: null and the empty list, and version 0, where empty means all; reserved ones stay hidden", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    await cluster.topic("__sluice_groups", 1);
    await using client = await p.kafka();
    await eventually(async () => (await client.call(apis.Metadata, 12, { topics: null })).topics.length === 1, "the topic");
    const names = async (version: number, topics: null | readonly []): Promise<(string | null)[]> =>
      (await client.call(apis.Metadata, version, { topics })).topics.map(({ name }) => name);
    expect(await names(0, [])).toEqual(["t"]);
    expect(await names(1, [])).toEqual([]);
    expect(await names(1, null)).toEqual(["t"]);
  });

  test("a topic by its id; an unknown id has an error of its own", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 1);
    await using client = await p.kafka();
    const unknown = "0f8fad5b-d9cb-469f-a165-70867728950e";
    const { topics } = await client.call(apis.Metadata, 12, {
      topics: [topic.topicId, unknown].map((topicId) => ({ topicId, name: null })),
    });
    expect(topics.map(({ errorCode, name, topicId }) => [errorCode, name, topicId])).toEqual([
      [0, "t", topic.topicId],
      [100, null, unknown],
    ]);
  });

  test("a topic that is not there is made, unless the client or the setting says no", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await using client = await p.kafka();
    const ask = async (name: string, allowAutoTopicCreation: boolean) =>
      (await client.call(apis.Metadata, 9, { topics: [{ name }], allowAutoTopicCreation })).topics[0];
    expect((await ask("new", false))?.errorCode).toBe(3);
    expect(await ask("new", true)).toMatchObject({ errorCode: 0, name: "new" });
    expect((await ask("new", false))?.partitions.map(({ leaderId }) => leaderId)).toEqual([1, 1]);
    expect((await ask("no/name", true))?.errorCode).toBe(17);
    expect((await ask("__sluice_own", true))?.errorCode).toBe(3);
    // Before version 4 a client cannot say no.
    expect((await client.call(apis.Metadata, 1, { topics: [{ name: "older" }] })).topics[0]?.errorCode).toBe(0);
  });

  test("what the client may do is told when it asks", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    const authorizer = {
      authorize: (_: unknown, request: AccessRequest) => request.operation === "read" || request.operation === "describe",
    };
    await using p = await startProxy(cluster, "proxy-1", authorizer);
    await cluster.topic("t", 1);
    await using client = await p.kafka();
    const told = await client.call(apis.Metadata, 8, {
      topics: [{ name: "t" }],
      includeTopicAuthorizedOperations: true,
      includeClusterAuthorizedOperations: true,
    });
    expect(told.topics[0]?.topicAuthorizedOperations).toBe((1 << 3) | (1 << 8) | (1 << 10));
    expect(told.clusterAuthorizedOperations).toBe((1 << 8) | (1 << 10));
    const quiet = await client.call(apis.Metadata, 8, { topics: [{ name: "t" }] });
    expect(quiet.topics[0]?.topicAuthorizedOperations).toBe(-0x8000_0000);
    expect(quiet.topics[0]?.topicId).toBe(ZERO_UUID);
  });
});
