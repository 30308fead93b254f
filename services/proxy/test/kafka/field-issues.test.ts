import { describe, expect, test } from "@jest/globals";
import { readFile } from "node:fs/promises";
import { apis } from "@sluice/kafka-wire";
import { FakeCluster } from "../support/fake-cluster.ts";
import { batchOf, eventually, startProxy } from "../support/proxy.ts";

const MiB = 1024 * 1024;
/** The largest version that each of librdkafka 2.0, kafkajs 2.2, sarama 1.41, @platformatic/kafka 2.12 and Kafka 4.2 speak; [lowest, highest of these]. */
const spoken: Readonly<Partial<Record<keyof typeof apis, readonly [number, number]>>> = {
  Produce: [7, 10],
  Fetch: [11, 17],
  ListOffsets: [2, 9],
  Metadata: [4, 12],
  OffsetCommit: [5, 9],
  OffsetFetch: [4, 9],
  FindCoordinator: [2, 6],
  JoinGroup: [5, 9],
  Heartbeat: [3, 4],
  LeaveGroup: [1, 5],
  SyncGroup: [3, 5],
  DescribeGroups: [2, 5],
  ListGroups: [2, 5],
  ApiVersions: [2, 4],
  CreateTopics: [3, 7],
  DeleteTopics: [1, 6],
  InitProducerId: [1, 5],
  CreatePartitions: [0, 3],
  DescribeConfigs: [1, 4],
};

describe("what users of other servers ran into", () => {
  test("every test that the table names exists", async () => {
    const table = await readFile(new URL("README.md", import.meta.url), "utf8");
    const rows = [...table.matchAll(/\| `([^`]+\.test\.ts)`: (.+) \|$/gm)];
    expect(rows.length).toBeGreaterThan(20);
    for (const [, file = "", name = ""] of rows) {
      const text = await readFile(new URL(file, import.meta.url), "utf8");
      expect({ file, name, isThere: text.includes(`"${name}"`) }).toEqual({ file, name, isThere: true });
    }
  });

  test("every version that a known client sends is within what is told", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await using client = await p.kafka();
    const { apiKeys } = await client.call(apis.ApiVersions, 3, { clientSoftwareName: "c", clientSoftwareVersion: "1" });
    const told = new Map(apiKeys.map(({ apiKey, minVersion, maxVersion }) => [apiKey, [minVersion, maxVersion] as const]));
    for (const [name, [lowest, highest]] of Object.entries(spoken)) {
      const [min, max] = told.get(apis[name as keyof typeof apis].key) ?? [Infinity, -1];
      expect({ name, isServed: min <= lowest && highest <= max }).toEqual({ name, isServed: true });
    }
    // Ids of topics are told: who gets zeros falls back, or gives up.
    const topic = await cluster.topic("t", 1);
    const named = await client.call(apis.Metadata, 10, { topics: [{ name: "t" }] });
    expect(named.topics[0]?.topicId).toBe(topic.topicId);
  });

  test("a client that never asks for versions is served", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    await using client = await p.kafka();
    const topicData = [{ name: "t", partitionData: [{ index: 0, records: batchOf(["a"]) }] }];
    const { responses } = await client.call(apis.Produce, 3, { acks: -1, timeoutMs: 5_000, topicData });
    expect(responses[0]?.partitionResponses[0]).toMatchObject({ errorCode: 0, baseOffset: 0 });
  });

  test("a transactional producer is told at once that there are no transactions", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await using client = await p.kafka();
    const { apiKeys } = await client.call(apis.ApiVersions, 0, {});
    // AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit.
    for (const key of [24, 25, 26, 28]) expect(apiKeys.map(({ apiKey }) => apiKey)).not.toContain(key);
    const began = performance.now();
    const begun = await client.call(apis.InitProducerId, 4, { transactionalId: "t-1", transactionTimeoutMs: 60_000 });
    const found = await client.call(apis.FindCoordinator, 4, { keyType: 1, coordinatorKeys: ["t-1"] });
    expect([begun.errorCode, found.coordinators[0]?.errorCode]).toEqual([35, 35]);
    expect(performance.now() - began).toBeLessThan(2_000);
  });

  test("a topic that is made again has another id, and fetches for the one before are told", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const before = await cluster.topic("t", 1);
    await using client = await p.kafka();
    const fetch = (topicId: string) =>
      client.call(apis.Fetch, 13, {
        maxWaitMs: 500,
        minBytes: 1,
        maxBytes: MiB,
        topics: [{ topicId, partitions: [{ partition: 0, fetchOffset: 0, partitionMaxBytes: MiB }] }],
      });
    const codeOf = async (topicId: string) => (await fetch(topicId)).responses[0]?.partitions[0]?.errorCode;
    expect(await codeOf(before.topicId)).toBe(0);
    await client.call(apis.DeleteTopics, 5, { topicNames: ["t"], timeoutMs: 1_000 });
    await eventually(async () => (await codeOf(before.topicId)) === 100, "the topic is gone");
    const after = await cluster.topic("t", 1);
    const { topics } = await client.call(apis.Metadata, 12, { topics: [{ name: "t" }], allowAutoTopicCreation: false });
    expect(topics[0]?.topicId).toBe(after.topicId);
    expect(after.topicId).not.toBe(before.topicId);
    expect([await codeOf(before.topicId), await codeOf(after.topicId)]).toEqual([100, 0]);
  }, 20_000);
});
