import { describe, expect, test } from "@jest/globals";
import { epoch } from "@sluice/core/model";
import { apis, ZERO_UUID } from "@sluice/kafka-wire";
import { FakeCluster } from "../support/fake-cluster.ts";
import type { KafkaClient } from "../support/kafka-client.ts";
import { batchOf, eventually, startProxy } from "../support/proxy.ts";

const TOPIC = 2;
const BROKER = 4;
const namesOf = async (client: KafkaClient): Promise<string[]> =>
  (await client.call(apis.Metadata, 9, { topics: null })).topics.map(({ name }) => name ?? "").toSorted();
const configOf = async (client: KafkaClient, name: string, key: string) => {
  const { results } = await client.call(apis.DescribeConfigs, 4, {
    resources: [{ resourceType: TOPIC, resourceName: name, configurationKeys: [key] }],
  });
  return results[0]?.configs[0];
};

describe("CreateTopics and DeleteTopics", () => {
  test("a topic is there for the next request, here and through another proxy", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using first = await startProxy(cluster, "proxy-1");
    await using second = await startProxy(cluster, "proxy-2");
    await using a = await first.kafka();
    await using b = await second.kafka();
    const [made] = (
      await a.call(apis.CreateTopics, 7, {
        topics: [{ name: "t", numPartitions: 3, replicationFactor: 3, configs: [{ name: "retention.ms", value: "1000" }] }],
        timeoutMs: 5_000,
      })
    ).topics;
    expect(made).toMatchObject({ name: "t", errorCode: 0, numPartitions: 3, replicationFactor: 3 });
    expect(made?.topicId).not.toBe(ZERO_UUID);
    expect(made?.configs?.find(({ name }) => name === "retention.ms")).toMatchObject({ value: "1000", configSource: 1 });
    const [seen] = (await b.call(apis.Metadata, 12, { topics: [{ name: "t" }], allowAutoTopicCreation: false })).topics;
    expect([seen?.errorCode, seen?.topicId, seen?.partitions.length]).toEqual([0, made?.topicId, 3]);
    const produced = await b.call(apis.Produce, 9, {
      acks: -1,
      timeoutMs: 5_000,
      topicData: [{ name: "t", partitionData: [{ index: 2, records: batchOf(["x"]) }] }],
    });
    expect(produced.responses[0]?.partitionResponses[0]?.errorCode).toBe(0);
  });

  test("each topic is judged alone: numbers, factors, assignments, names, keys, twice in one request", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await using client = await p.kafka();
    const topics = [
      { name: "defaults", numPartitions: -1, replicationFactor: -1 },
      { name: "none", numPartitions: 0, replicationFactor: 1 },
      { name: "copies", numPartitions: 1, replicationFactor: 4 },
      {
        name: "assigned",
        numPartitions: -1,
        replicationFactor: -1,
        assignments: [1, 0].map((partitionIndex) => ({ partitionIndex, brokerIds: [1] })),
      },
      { name: "holes", numPartitions: -1, replicationFactor: -1, assignments: [{ partitionIndex: 1, brokerIds: [1] }] },
      { name: "both", numPartitions: 1, replicationFactor: -1, assignments: [{ partitionIndex: 0, brokerIds: [1] }] },
      { name: "compact", numPartitions: 1, replicationFactor: 1, configs: [{ name: "cleanup.policy", value: "compact" }] },
      { name: "twice", numPartitions: 1, replicationFactor: 1 },
      { name: "twice", numPartitions: 1, replicationFactor: 1 },
    ];
    const answer = await client.call(apis.CreateTopics, 5, { topics, timeoutMs: 5_000 });
    expect(answer.topics.map(({ name, errorCode }) => [name, errorCode])).toEqual([
      ["defaults", 0],
      ["none", 37],
      ["copies", 38],
      ["assigned", 0],
      ["holes", 39],
      ["both", 42],
      ["compact", 40],
      ["twice", 42],
    ]);
    expect(answer.topics.map(({ numPartitions }) => numPartitions).slice(0, 4)).toEqual([2, -1, -1, 2]);
    expect(await namesOf(client)).toEqual(["assigned", "defaults"]);
  });

  test("validateOnly makes nothing", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await using client = await p.kafka();
    const topics = [{ name: "t", numPartitions: 1, replicationFactor: 1 }];
    const answer = await client.call(apis.CreateTopics, 4, { topics, timeoutMs: 5_000, validateOnly: true });
    expect(answer.topics[0]?.errorCode).toBe(0);
    expect(await namesOf(client)).toEqual([]);
  });

  test("topics go by name and by id", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await using client = await p.kafka();
    const [a, b] = [await cluster.topic("a", 1), await cluster.topic("b", 1)];
    await eventually(async () => (await namesOf(client)).length === 2, "both topics");
    const byName = await client.call(apis.DeleteTopics, 5, { topicNames: ["a", "absent"], timeoutMs: 5_000 });
    expect(byName.responses.map(({ name, errorCode }) => [name, errorCode])).toEqual([
      ["a", 0],
      ["absent", 3],
    ]);
    const topics = [
      { name: null, topicId: b.topicId },
      { name: null, topicId: a.topicId },
      { name: null, topicId: ZERO_UUID },
    ];
    const byId = await client.call(apis.DeleteTopics, 6, { topics, timeoutMs: 5_000 });
    expect(byId.responses.map(({ errorCode }) => errorCode)).toEqual([0, 100, 42]);
    expect(await namesOf(client)).toEqual([]);
  });
});

describe("a time-out of 0", () => {
  test("is no time-out: what is asked for is done, and seen before it is told", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await using client = await p.kafka();
    const timeoutMs = 0;
    const topics = [{ name: "t", numPartitions: 1, replicationFactor: -1 }];
    expect((await client.call(apis.CreateTopics, 5, { topics, timeoutMs })).topics[0]?.errorCode).toBe(0);
    const grown = await client.call(apis.CreatePartitions, 3, { topics: [{ name: "t", count: 2, assignments: null }], timeoutMs });
    expect(grown.results[0]?.errorCode).toBe(0);
    const deleted = await client.call(apis.DeleteTopics, 5, { topicNames: ["t"], timeoutMs });
    expect(deleted.responses[0]?.errorCode).toBe(0);
    expect(await namesOf(client)).toEqual([]);
  });
});

describe("CreatePartitions", () => {
  test("a topic gets more partitions, never fewer; they take records at once", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 2);
    await using client = await p.kafka();
    const grow = async (count: number, more: { validateOnly?: boolean; assignments?: { brokerIds: number[] }[] } = {}) => {
      const { validateOnly = false, assignments = null } = more;
      const answer = await client.call(apis.CreatePartitions, 3, {
        topics: [{ name: "t", count, assignments }],
        timeoutMs: 5_000,
        validateOnly,
      });
      return answer.results[0]?.errorCode;
    };
    expect([await grow(2), await grow(1), await grow(5, { assignments: [{ brokerIds: [1] }] })]).toEqual([37, 37, 39]);
    const partitions = async () => (await client.call(apis.Metadata, 12, { topics: [{ name: "t" }] })).topics[0]?.partitions.length;
    expect([await grow(4, { validateOnly: true }), await partitions()]).toEqual([0, 2]);
    expect([await grow(4), await partitions()]).toEqual([0, 4]);
    const produced = await client.call(apis.Produce, 9, {
      acks: -1,
      timeoutMs: 5_000,
      topicData: [{ name: "t", partitionData: [{ index: 3, records: batchOf(["x"]) }] }],
    });
    expect(produced.responses[0]?.partitionResponses[0]?.errorCode).toBe(0);
    const absent = await client.call(apis.CreatePartitions, 3, {
      topics: [{ name: "absent", count: 3, assignments: null }],
      timeoutMs: 5_000,
    });
    expect(absent.results[0]?.errorCode).toBe(3);
  });
});

describe("DescribeLogDirs", () => {
  test("all proxies together tell of every partition once", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using first = await startProxy(cluster, "proxy-1");
    await using second = await startProxy(cluster, "proxy-2");
    const topic = await cluster.topic("t", 5);
    const partition = { topicId: topic.topicId, partition: 4 };
    await cluster.segment(partition, {
      segment: { epoch: epoch(1), k: 0 },
      base: 0,
      end: 9,
      phase: "SEALED",
      replicas: [],
      sizeBytes: 700,
    });
    await using a = await first.kafka();
    await using b = await second.kafka();
    const sizes = new Map<number, number>();
    for (const client of [a, b]) {
      await eventually(
        async () => (await client.call(apis.Metadata, 12, { topics: [{ name: "t" }] })).brokers.length === 2,
        "both proxies",
      );
      const { results } = await client.call(apis.DescribeLogDirs, 4, { topics: null });
      for (const { partitionIndex, partitionSize } of results[0]?.topics[0]?.partitions ?? []) {
        expect(sizes.has(partitionIndex)).toBe(false);
        sizes.set(partitionIndex, partitionSize);
      }
    }
    expect([...sizes].toSorted(([x], [y]) => x - y)).toEqual([0, 1, 2, 3, 4].map((i) => [i, i === 4 ? 700 : 0]));
    const some = await a.call(apis.DescribeLogDirs, 2, { topics: [{ topic: "absent", partitions: [0] }] });
    expect(some.results[0]?.topics).toEqual([]);
  });
});

describe("configuration", () => {
  test("every key of a topic is described with default and source; of a broker what tools ask for", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1, { "segment.ms": "5000" });
    await using client = await p.kafka();
    const { results } = await client.call(apis.DescribeConfigs, 4, {
      resources: [
        { resourceType: TOPIC, resourceName: "t", configurationKeys: null },
        { resourceType: BROKER, resourceName: "1", configurationKeys: null },
        { resourceType: BROKER, resourceName: "9", configurationKeys: null },
        { resourceType: TOPIC, resourceName: "absent", configurationKeys: null },
        { resourceType: 8, resourceName: "1", configurationKeys: null },
      ],
      includeDocumentation: true,
      includeSynonyms: true,
    });
    expect(results.map(({ errorCode }) => errorCode)).toEqual([0, 0, 42, 3, 42]);
    const topic = new Map(results[0]?.configs.map((entry) => [entry.name, entry]));
    expect(topic.get("segment.ms")).toMatchObject({ value: "5000", configSource: 1, readOnly: false, configType: 5 });
    expect(topic.get("cleanup.policy")).toMatchObject({ value: "delete", configSource: 5, readOnly: true });
    expect(topic.get("segment.ms")?.synonyms).toEqual([
      { name: "segment.ms", value: "5000", source: 1 },
      { name: "segment.ms", value: "600000", source: 5 },
    ]);
    expect(topic.get("cleanup.policy")?.synonyms).toEqual([{ name: "cleanup.policy", value: "delete", source: 5 }]);
    expect((await configOf(client, "t", "segment.ms"))?.synonyms).toEqual([]);
    expect(topic.get("retention.ms")?.documentation).not.toBe("");
    expect(results[1]?.configs.find(({ name }) => name === "num.partitions")?.value).toBe("2");
  });

  test("single keys are set and put back; bad keys, values and operations are refused; validateOnly changes nothing", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    await using client = await p.kafka();
    const alter = async (name: string, value: string | null, configOperation = 0, validateOnly = false) =>
      (
        await client.call(apis.IncrementalAlterConfigs, 1, {
          resources: [{ resourceType: TOPIC, resourceName: "t", configs: [{ name, value, configOperation }] }],
          validateOnly,
        })
      ).responses[0]?.errorCode;
    expect(await alter("retention.ms", "77")).toBe(0);
    expect(await configOf(client, "t", "retention.ms")).toMatchObject({ value: "77", configSource: 1 });
    expect(await alter("retention.ms", "88", 0, true)).toBe(0);
    expect((await configOf(client, "t", "retention.ms"))?.value).toBe("77");
    expect([
      await alter("retention.ms", "x"),
      await alter("nope", "1"),
      await alter("retention.ms", "1", 2),
      await alter("nope", null, 1),
    ]).toEqual([40, 40, 40, 40]);
    expect(await alter("cleanup.policy", "delete")).toBe(0);
    // A list: its items are added and taken away, and the whole has to be what is served.
    const [append, subtract] = [2, 3];
    expect([
      await alter("cleanup.policy", "delete", append),
      await alter("cleanup.policy", "compact", subtract),
      await alter("cleanup.policy", "compact", append),
      await alter("cleanup.policy", "delete", subtract),
      await alter("cleanup.policy", null, append),
    ]).toEqual([0, 0, 40, 40, 40]);
    expect(await alter("retention.ms", null, 1)).toBe(0);
    expect(await configOf(client, "t", "retention.ms")).toMatchObject({ value: "604800000", configSource: 5 });
  });

  test("the whole configuration is replaced: what is not named goes back to its default", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1, { "retention.ms": "5", "segment.ms": "5000" });
    await using client = await p.kafka();
    const resources = [
      { resourceType: TOPIC, resourceName: "t", configs: [{ name: "retention.bytes", value: "9" }] },
      { resourceType: BROKER, resourceName: "1", configs: [] },
    ];
    const { responses } = await client.call(apis.AlterConfigs, 2, { resources });
    expect(responses.map(({ errorCode }) => errorCode)).toEqual([0, 42]);
    expect((await cluster.topicRecord("t")).config).toEqual({ "retention.bytes": "9" });
  });
});

describe("DescribeCluster", () => {
  test("names the nodes; controllers cannot be reached here", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await using client = await p.kafka();
    await client.call(apis.Metadata, 12, {});
    const told = await client.call(apis.DescribeCluster, 1, { endpointType: 1 });
    expect(told.brokers.map(({ brokerId, host, port }) => [brokerId, `${host}:${port}`])).toEqual([[1, p.proxy.endpoints()["kafka"]]]);
    expect([told.controllerId, told.errorCode]).toEqual([1, 0]);
    expect((await client.call(apis.DescribeCluster, 1, { endpointType: 2 })).errorCode).toBe(114);
    expect((await client.call(apis.DescribeCluster, 1, { endpointType: 3 })).errorCode).toBe(115);
  });
});
