import { describe, expect, test } from "@jest/globals";
import { apis } from "@sluice/kafka-wire";
import { bytes, inEveryVersion, scene } from "../support/group-scene.ts";
import { eventually, startProxy } from "../support/proxy.ts";

describe("groups as administrators see them", () => {
  const member = { memberId: "m", clientId: "c", clientHost: "h", metadata: bytes(1), assignment: bytes(2) };
  const classic = { kind: "classic", state: "Stable", protocolType: "consumer", protocol: "range", members: [member] };
  const topicId = "6f1b6c3a-9a53-4f4a-8f43-2d1f1f6f2a11";
  const assigned = [
    { topicId, topic: "t", partitions: [0, 2] },
    { topicId: "7f1b6c3a-9a53-4f4a-8f43-2d1f1f6f2a11", topic: "", partitions: [1] },
  ];
  const consumer = {
    kind: "consumer",
    state: "Reconciling",
    protocol: "uniform",
    groupEpoch: 5,
    assignmentEpoch: 4,
    members: [{ ...member, memberEpoch: 3, subscribedTopics: ["t"], assigned, target: assigned }],
  };

  test("DescribeGroups in every version; one of the other kind is not there", () =>
    scene({ describeGroup: ({ group }: { group: string }) => (group === "g" ? classic : consumer) }, async ({ client }) =>
      inEveryVersion(apis.DescribeGroups, async (version) => {
        const ask = version >= 3 ? { includeAuthorizedOperations: true } : {};
        const { groups } = await client.call(apis.DescribeGroups, version, { groups: ["g", "other"], ...ask });
        expect(groups).toMatchObject([
          {
            errorCode: 0,
            groupId: "g",
            groupState: "Stable",
            protocolType: "consumer",
            protocolData: "range",
            members: [{ memberId: "m", clientId: "c", clientHost: "h", memberMetadata: bytes(1), memberAssignment: bytes(2) }],
            ...(version >= 3 ? { authorizedOperations: (1 << 3) | (1 << 6) | (1 << 8) } : {}),
          },
          { errorCode: version >= 6 ? 69 : 0, groupId: "other", groupState: "Dead", members: [] },
        ]);
      }),
    ));

  test("ConsumerGroupDescribe in every version; one of the other kind is not there", () =>
    scene({ describeGroup: ({ group }: { group: string }) => (group === "g" ? consumer : classic) }, async ({ client }) =>
      inEveryVersion(apis.ConsumerGroupDescribe, async (version) => {
        const { groups } = await client.call(apis.ConsumerGroupDescribe, version, { groupIds: ["g", "other"] });
        const topicPartitions = [{ topicId, topicName: "t", partitions: [0, 2] }];
        expect(groups).toMatchObject([
          {
            errorCode: 0,
            groupState: "Reconciling",
            groupEpoch: 5,
            assignmentEpoch: 4,
            assignorName: "uniform",
            members: [
              {
                memberId: "m",
                memberEpoch: 3,
                subscribedTopicNames: ["t"],
                assignment: { topicPartitions },
                targetAssignment: { topicPartitions },
              },
            ],
          },
          { errorCode: 69, groupId: "other", members: [] },
        ]);
      }),
    ));

  test("ListGroups in every version: all pages, what each version can carry", () =>
    scene({}, async ({ client, cluster }) => {
      const names = Array.from({ length: 1_200 }, (_, i) => `g${String(i).padStart(4, "0")}`);
      for (const name of names) cluster.coordinator.addGroup(name);
      await inEveryVersion(apis.ListGroups, async (version) => {
        const { groups, errorCode } = await client.call(apis.ListGroups, version, {});
        expect([errorCode, groups.map(({ groupId }) => groupId)]).toEqual([0, names]);
        expect([groups[0]?.groupState, groups[0]?.groupType]).toEqual([version >= 4 ? "Empty" : "", version >= 5 ? "classic" : ""]);
      });
    }));

  test("ListGroups: each group is told by one of the proxies, which are asked in turn", () =>
    scene({}, async ({ client, cluster }) => {
      const names = Array.from({ length: 300 }, (_, i) => `g${String(i).padStart(3, "0")}`);
      for (const name of names) cluster.coordinator.addGroup(name);
      await using second = await startProxy(cluster, "proxy-2");
      await using other = await second.kafka();
      for (const one of [client, other])
        await eventually(async () => (await one.call(apis.Metadata, 12, {})).brokers.length === 2, "both proxies");
      const told = await Promise.all([client, other].map(async (one) => (await one.call(apis.ListGroups, 5, {})).groups));
      expect(
        told
          .flat()
          .map(({ groupId }) => groupId)
          .toSorted(),
      ).toEqual(names);
      for (const { length } of told) expect(length).toBeGreaterThan(100);
    }));

  test("DeleteGroups in every version", () =>
    scene({ deleteGroup: () => ({}) }, async ({ client, cluster }) =>
      inEveryVersion(apis.DeleteGroups, async (version) => {
        cluster.coordinator.refusals.push("NON_EMPTY_GROUP");
        const { results } = await client.call(apis.DeleteGroups, version, { groupsNames: ["busy"] });
        expect(results).toMatchObject([{ groupId: "busy", errorCode: 68 }]);
        const { results: gone } = await client.call(apis.DeleteGroups, version, { groupsNames: ["g"] });
        expect(gone).toMatchObject([{ groupId: "g", errorCode: 0 }]);
      }),
    ));
});

describe("ConsumerGroupHeartbeat", () => {
  test("every version: what is unchanged stays unsaid, what is said arrives", () =>
    scene({}, async ({ client, cluster }) =>
      inEveryVersion(apis.ConsumerGroupHeartbeat, async (version) => {
        const { consumerRequests } = cluster.coordinator;
        const first = await client.call(apis.ConsumerGroupHeartbeat, version, {
          groupId: "g",
          memberId: "m",
          memberEpoch: 0,
          rebalanceTimeoutMs: 9_000,
          subscribedTopicNames: ["t"],
          serverAssignor: "range",
          topicPartitions: [],
        });
        expect(first).toMatchObject({ errorCode: 0, memberId: "m", memberEpoch: 1, heartbeatIntervalMs: 5, assignment: null });
        expect(consumerRequests.pop()).toMatchObject({
          memberEpoch: 0,
          rebalanceTimeoutMs: 9_000,
          subscription: { topics: ["t"], topicPattern: "" },
          assignor: "range",
          owned: { topics: [] },
        });
        await client.call(apis.ConsumerGroupHeartbeat, version, { groupId: "g", memberId: "m", memberEpoch: 1 });
        const quiet = consumerRequests.pop();
        expect([quiet?.rebalanceTimeoutMs, quiet?.subscription, quiet?.owned, quiet?.assignor]).toEqual([
          undefined,
          undefined,
          undefined,
          "",
        ]);
        await client.call(apis.ConsumerGroupHeartbeat, version, { groupId: "g", memberId: "m", rebalanceTimeoutMs: 2 ** 31 - 1 });
        expect(consumerRequests.pop()?.rebalanceTimeoutMs).toBe(86_400_000);
        const leaving = {
          groupId: "g",
          memberId: "m",
          memberEpoch: -1,
          rebalanceTimeoutMs: 0,
          subscribedTopicNames: [],
          topicPartitions: [],
        };
        await client.call(apis.ConsumerGroupHeartbeat, version, leaving);
        const last = consumerRequests.pop();
        expect([last?.memberEpoch, last?.rebalanceTimeoutMs, last?.subscription, last?.owned]).toEqual([
          -1,
          undefined,
          undefined,
          undefined,
        ]);
        const fenced = await client.call(apis.ConsumerGroupHeartbeat, version, { groupId: "g", memberId: "m", memberEpoch: 99 });
        expect(fenced).toMatchObject({ errorCode: 110, errorMessage: "fenced by the script" });
      }),
    ));

  test("a member of version 1 names itself; a topic that it may not see is refused", () =>
    scene(
      {},
      async ({ client, cluster }) => {
        expect((await client.call(apis.ConsumerGroupHeartbeat, 1, { groupId: "g", memberId: "", memberEpoch: 0 })).errorCode).toBe(42);
        const subscribed = { groupId: "g", memberId: "m", memberEpoch: 0, subscribedTopicNames: ["secret"] };
        expect((await client.call(apis.ConsumerGroupHeartbeat, 1, subscribed)).errorCode).toBe(29);
        expect(cluster.coordinator.consumerRequests).toEqual([]);
      },
      ({ resource, name }) => resource !== "topic" || name !== "secret",
    ));
});
