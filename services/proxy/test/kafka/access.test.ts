import { describe, expect, test } from "@jest/globals";
import { apis } from "@sluice/kafka-wire";
import type { AccessRequest } from "@sluice/rpc";
import type { AnyHandler } from "../../src/kafka/api.ts";
import type { KafkaContext } from "../../src/kafka/context.ts";
import { kafkaHandlers } from "../../src/kafka/handlers/index.ts";
import { FakeCluster } from "../support/fake-cluster.ts";
import type { KafkaClient } from "../support/kafka-client.ts";
import { batchOf, startProxy } from "../support/proxy.ts";

const TOPIC_REFUSED = 29;
const CLUSTER_REFUSED = 31;
const GROUP_REFUSED = 30;
const named = { name: "secret", partitions: [{ partitionIndex: 0, offset: 0, timestamp: -1 }] };

/** One request of every API on a topic or group called "secret", and the error code that says what happened. An API that is missing here fails the test. */
const calls: Readonly<Record<string, (client: KafkaClient) => Promise<number | undefined>>> = {
  Metadata: async (c) => (await c.call(apis.Metadata, 12, { topics: [{ name: "secret" }] })).topics[0]?.errorCode,
  Produce: async (c) =>
    (
      await c.call(apis.Produce, 9, {
        acks: -1,
        timeoutMs: 1_000,
        topicData: [{ name: "secret", partitionData: [{ index: 0, records: batchOf(["x"]) }] }],
      })
    ).responses[0]?.partitionResponses[0]?.errorCode,
  Fetch: async (c) =>
    (await c.call(apis.Fetch, 11, { maxWaitMs: 1, topics: [{ topic: "secret", partitions: [{ partition: 0, fetchOffset: 0 }] }] }))
      .responses[0]?.partitions[0]?.errorCode,
  ListOffsets: async (c) => (await c.call(apis.ListOffsets, 5, { topics: [named] })).topics[0]?.partitions[0]?.errorCode,
  OffsetForLeaderEpoch: async (c) =>
    (await c.call(apis.OffsetForLeaderEpoch, 4, { topics: [{ topic: "secret", partitions: [{ partition: 0 }] }] })).topics[0]?.partitions[0]
      ?.errorCode,
  InitProducerId: async (c) => (await c.call(apis.InitProducerId, 4, { transactionalId: null })).errorCode,
  CreateTopics: async (c) =>
    (await c.call(apis.CreateTopics, 7, { topics: [{ name: "secret", numPartitions: 1, replicationFactor: 1 }], timeoutMs: 1_000 }))
      .topics[0]?.errorCode,
  DeleteTopics: async (c) => (await c.call(apis.DeleteTopics, 5, { topicNames: ["secret"], timeoutMs: 1_000 })).responses[0]?.errorCode,
  DeleteRecords: async (c) =>
    (await c.call(apis.DeleteRecords, 2, { topics: [named], timeoutMs: 1_000 })).topics[0]?.partitions[0]?.errorCode,
  DescribeConfigs: async (c) =>
    (await c.call(apis.DescribeConfigs, 4, { resources: [{ resourceType: 2, resourceName: "secret", configurationKeys: null }] }))
      .results[0]?.errorCode,
  AlterConfigs: async (c) =>
    (await c.call(apis.AlterConfigs, 2, { resources: [{ resourceType: 2, resourceName: "secret", configs: [] }] })).responses[0]?.errorCode,
  IncrementalAlterConfigs: async (c) =>
    (await c.call(apis.IncrementalAlterConfigs, 1, { resources: [{ resourceType: 2, resourceName: "secret", configs: [] }] })).responses[0]
      ?.errorCode,
  CreatePartitions: async (c) =>
    (await c.call(apis.CreatePartitions, 3, { topics: [{ name: "secret", count: 5, assignments: null }], timeoutMs: 1_000 })).results[0]
      ?.errorCode,
  DescribeLogDirs: async (c) => (await c.call(apis.DescribeLogDirs, 4, { topics: null })).errorCode,
  DescribeCluster: async (c) => (await c.call(apis.DescribeCluster, 1, {})).errorCode,
  FindCoordinator: async (c) => (await c.call(apis.FindCoordinator, 2, { key: "secret", keyType: 0 })).errorCode,
  JoinGroup: async (c) => (await c.call(apis.JoinGroup, 5, { groupId: "secret", protocolType: "consumer" })).errorCode,
  SyncGroup: async (c) => (await c.call(apis.SyncGroup, 3, { groupId: "secret" })).errorCode,
  Heartbeat: async (c) => (await c.call(apis.Heartbeat, 3, { groupId: "secret" })).errorCode,
  LeaveGroup: async (c) => (await c.call(apis.LeaveGroup, 3, { groupId: "secret", members: [{ memberId: "m" }] })).errorCode,
  OffsetCommit: async (c) =>
    (await c.call(apis.OffsetCommit, 8, { groupId: "secret", topics: [{ name: "t", partitions: [{ partitionIndex: 0 }] }] })).topics[0]
      ?.partitions[0]?.errorCode,
  OffsetFetch: async (c) => (await c.call(apis.OffsetFetch, 8, { groups: [{ groupId: "secret", topics: null }] })).groups[0]?.errorCode,
  DescribeGroups: async (c) => (await c.call(apis.DescribeGroups, 5, { groups: ["secret"] })).groups[0]?.errorCode,
  // Who may see no group is told of none.
  ListGroups: async (c) => {
    const { errorCode, groups } = await c.call(apis.ListGroups, 5, {});
    return errorCode === 0 && groups.length === 0 ? GROUP_REFUSED : 0;
  },
  DeleteGroups: async (c) => (await c.call(apis.DeleteGroups, 2, { groupsNames: ["secret"] })).results[0]?.errorCode,
  OffsetDelete: async (c) => (await c.call(apis.OffsetDelete, 0, { groupId: "secret", topics: [] })).errorCode,
  ConsumerGroupHeartbeat: async (c) => (await c.call(apis.ConsumerGroupHeartbeat, 1, { groupId: "secret", memberId: "m" })).errorCode,
  ConsumerGroupDescribe: async (c) => (await c.call(apis.ConsumerGroupDescribe, 1, { groupIds: ["secret"] })).groups[0]?.errorCode,
};
/** APIs without a named resource. */
const ofCluster = new Set(["InitProducerId", "DescribeCluster", "DescribeLogDirs"]);

describe("rights of Kafka clients", () => {
  const handlers: readonly AnyHandler[] = kafkaHandlers({} as KafkaContext);
  const closed = handlers.filter(({ access }) => access !== "open").map(({ api }) => api.name);

  test("only ApiVersions is open; every other API is in the table of this test", () => {
    expect(handlers.filter(({ access }) => access === "open").map(({ api }) => api.name)).toEqual(["ApiVersions"]);
    expect(Object.keys(calls).toSorted()).toEqual(closed.toSorted());
  });

  test("every API asks for its right on the resource, and does nothing without it", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    const topic = await cluster.topic("secret", 1);
    cluster.coordinator.addGroup("secret");
    const asked: AccessRequest[] = [];
    const authorizer = { authorize: (_: unknown, request: AccessRequest) => (asked.push(request), false) };
    await using p = await startProxy(cluster, "proxy-1", authorizer);
    await using client = await p.kafka();
    for (const handler of handlers) {
      const { name } = handler.api;
      const call = calls[name];
      if (call === undefined || handler.access === "open") continue;
      asked.length = 0;
      const code = await call(client);
      const refused = handler.access.resource === "group" ? GROUP_REFUSED : TOPIC_REFUSED;
      expect([name, code]).toEqual([name, ofCluster.has(name) ? CLUSTER_REFUSED : refused]);
      expect(asked[0]).toEqual({ ...handler.access, name: ofCluster.has(name) ? undefined : "secret" });
    }
    expect(cluster.log(topic, 0).next).toBe(0);
    expect([cluster.coordinator.scripted, cluster.coordinator.commits, cluster.coordinator.consumerRequests]).toEqual([[], [], []]);
    expect((await cluster.topicRecord("secret")).phase).toBe("ACTIVE");
  });
});
