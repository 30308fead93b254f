import { describe, expect, test } from "@jest/globals";
import type { ErrorCode } from "@sluice/core/model";
import { apis } from "@sluice/kafka-wire";
import { bytes, inEveryVersion, refusal, scene } from "../support/group-scene.ts";
import { FakeCluster } from "../support/fake-cluster.ts";
import { eventually, startProxy } from "../support/proxy.ts";

describe("FindCoordinator", () => {
  test("whichever proxy is asked, a group has the same coordinator, which is in the list of brokers; groups are spread", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using first = await startProxy(cluster, "proxy-1");
    await using second = await startProxy(cluster, "proxy-2");
    const coordinatorKeys = Array.from({ length: 40 }, (_, i) => `g${i}`);
    const told: { readonly nodeId: number }[][] = [];
    for (const proxy of [first, second]) {
      await using client = await proxy.kafka();
      await eventually(async () => (await client.call(apis.Metadata, 12, { topics: [] })).brokers.length === 2, "both proxies");
      const { coordinators } = await client.call(apis.FindCoordinator, 4, { coordinatorKeys });
      expect(coordinators.map(({ key, errorCode }) => [key, errorCode])).toEqual(coordinatorKeys.map((key) => [key, 0]));
      told.push(coordinators.map(({ nodeId }) => ({ nodeId })));
      // Older clients ask for one.
      expect(await client.call(apis.FindCoordinator, 3, { key: "g7" })).toMatchObject({ nodeId: told[0]?.[7]?.nodeId });
    }
    expect(told[1]).toEqual(told[0]);
    const counts = [1, 2].map((id) => told[0]?.filter(({ nodeId }) => nodeId === id).length ?? 0);
    expect(counts[0]! + counts[1]!).toBe(40);
    expect(Math.min(...counts)).toBeGreaterThan(8);
  });

  test("every version: a proxy which is in the list of brokers", () =>
    scene({}, async ({ client }) => {
      const { brokers } = await client.call(apis.Metadata, 12, { topics: [] });
      const own = { nodeId: brokers[0]?.nodeId, host: brokers[0]?.host, port: brokers[0]?.port };
      await inEveryVersion(apis.FindCoordinator, async (version) => {
        const answer = await client.call(apis.FindCoordinator, version, version < 4 ? { key: "g" } : { coordinatorKeys: ["g", "", "h"] });
        if (version < 4) expect(answer).toMatchObject({ errorCode: 0, ...own });
        else
          expect(answer.coordinators).toMatchObject([
            { key: "g", errorCode: 0, ...own },
            { key: "", errorCode: 24, nodeId: -1 },
            { key: "h", errorCode: 0, ...own },
          ]);
      });
      expect(await client.call(apis.FindCoordinator, 2, { key: "t", keyType: 1 })).toMatchObject({ errorCode: 35, nodeId: -1 });
      expect(await client.call(apis.FindCoordinator, 6, { keyType: 2, coordinatorKeys: ["s"] })).toMatchObject({
        coordinators: [{ errorCode: 42 }],
      });
    }));
});

describe("members of classic groups", () => {
  const joined = {
    generation: 3,
    protocolType: "consumer",
    protocol: "range",
    leader: "m1",
    memberId: "m1",
    members: [{ memberId: "m1", instanceId: "i1", metadata: bytes(1, 2) }],
  };
  const join = (version: number) => ({
    groupId: "g",
    sessionTimeoutMs: 10_000,
    ...(version >= 1 ? { rebalanceTimeoutMs: 20_000 } : {}),
    memberId: "m1",
    ...(version >= 5 ? { groupInstanceId: "i1" } : {}),
    protocolType: "consumer",
    protocols: [{ name: "range", metadata: bytes(1, 2) }],
    ...(version >= 8 ? { reason: "because" } : {}),
  });

  test("JoinGroup in every version: what the client says arrives, what the group says comes back", () =>
    scene({ joinGroup: () => joined }, async ({ client, cluster }) => {
      await inEveryVersion(apis.JoinGroup, async (version) => {
        expect(await client.call(apis.JoinGroup, version, join(version))).toMatchObject({
          errorCode: 0,
          generationId: 3,
          protocolName: "range",
          leader: "m1",
          memberId: "m1",
          members: [{ memberId: "m1", groupInstanceId: version >= 5 ? "i1" : null, metadata: bytes(1, 2) }],
          ...(version >= 7 ? { protocolType: "consumer" } : {}),
        });
        expect(cluster.coordinator.scripted.pop()).toMatchObject({
          group: "g",
          memberId: "m1",
          clientId: "test",
          clientHost: "127.0.0.1",
          sessionTimeoutMs: 10_000,
          rebalanceTimeoutMs: version >= 1 ? 20_000 : 0,
          protocols: [{ name: "range", metadata: bytes(1, 2) }],
          requireKnownMemberId: version >= 4,
          supportsSkipAssignment: version >= 9,
          reason: version >= 8 ? "because" : "",
        });
      });
    }));

  test("JoinGroup: a refusal in every version, with the id that the group gave", () =>
    scene({ joinGroup: () => ({ ...refusal("MEMBER_ID_REQUIRED"), generation: -1, memberId: "yours" }) }, async ({ client }) =>
      inEveryVersion(apis.JoinGroup, async (version) => {
        expect(await client.call(apis.JoinGroup, version, { ...join(version), memberId: "" })).toMatchObject({
          errorCode: 79,
          generationId: -1,
          memberId: "yours",
          protocolName: version >= 7 ? null : "",
        });
      }),
    ));

  test("JoinGroup: one that a later one replaced is no error of the application", () =>
    scene({ joinGroup: () => refusal("REBALANCE_IN_PROGRESS") }, async ({ client }) =>
      inEveryVersion(apis.JoinGroup, async (version) =>
        expect(await client.call(apis.JoinGroup, version, join(version))).toMatchObject({ errorCode: 15 }),
      ),
    ));

  test("SyncGroup in every version", () =>
    scene({ syncGroup: () => ({ protocolType: "consumer", protocol: "range", assignment: bytes(7) }) }, async ({ client, cluster }) =>
      inEveryVersion(apis.SyncGroup, async (version) => {
        const answer = await client.call(apis.SyncGroup, version, {
          groupId: "g",
          generationId: 3,
          memberId: "m1",
          ...(version >= 5 ? { protocolType: "consumer", protocolName: "range" } : {}),
          assignments: [{ memberId: "m1", assignment: bytes(7) }],
        });
        expect(answer).toMatchObject({ errorCode: 0, assignment: bytes(7) });
        if (version >= 5) expect(answer).toMatchObject({ protocolType: "consumer", protocolName: "range" });
        const sent = cluster.coordinator.scripted.pop();
        expect(sent).toMatchObject({ generation: 3, memberId: "m1", assignments: [{ memberId: "m1", assignment: bytes(7) }] });
        expect((sent as { protocol?: string }).protocol).toBe(version >= 5 ? "range" : undefined);
      }),
    ));

  test("a join that waits keeps its place and answer when the proxy drains: the member is sent elsewhere", async () => {
    const waiting = Promise.withResolvers<object>();
    await scene({ joinGroup: () => waiting.promise, heartbeat: () => ({}) }, async ({ client, proxy, cluster }) => {
      const first = client.call(apis.JoinGroup, 5, join(5));
      const second = client.call(apis.Heartbeat, 3, { groupId: "g", generationId: 3, memberId: "m1" });
      await eventually(() => cluster.coordinator.scripted.length === 1, "the join arrives");
      const drained = proxy.proxy.drain();
      expect((await first).errorCode).toBe(16);
      expect([0, 15, 16]).toContain((await second).errorCode);
      waiting.resolve(joined);
      await drained;
    });
  });

  test("Heartbeat in every version, and every refusal that a member knows", () => {
    const codes: ErrorCode[] = ["REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER", "FENCED_INSTANCE_ID"];
    let next: ErrorCode | undefined;
    return scene({ heartbeat: () => (next === undefined ? {} : refusal(next)) }, async ({ client }) => {
      const beat = async (version: number): Promise<number> =>
        (await client.call(apis.Heartbeat, version, { groupId: "g", generationId: 1, memberId: "m" })).errorCode;
      await inEveryVersion(apis.Heartbeat, async (version) => expect(await beat(version)).toBe(0));
      const told = [];
      for (next of codes) told.push(await beat(4));
      expect(told).toEqual([27, 22, 25, 82]);
    });
  });

  test("what passes is COORDINATOR_NOT_AVAILABLE, also an outcome that nobody knows", () =>
    scene({ heartbeat: () => ({}) }, async ({ client, cluster }) => {
      const told = [];
      for (const code of ["OVERLOADED", "OUTCOME_UNKNOWN"] as const) {
        cluster.coordinator.refusals.push(code);
        told.push((await client.call(apis.Heartbeat, 4, { groupId: "g", memberId: "m" })).errorCode);
      }
      expect(told).toEqual([15, 15]);
      expect((await client.call(apis.Heartbeat, 4, { groupId: "", memberId: "m" })).errorCode).toBe(24);
    }));

  test("LeaveGroup in every version: one member, or several with an outcome each", () =>
    scene(
      { leaveGroup: ({ members }: { members: { memberId: string }[] }) => ({ members: members.map((m) => ({ ...m, error: 103 })) }) },
      async ({ client }) =>
        inEveryVersion(apis.LeaveGroup, async (version) => {
          const members = ["a", "b"].map((memberId) => ({ memberId, groupInstanceId: null, ...(version >= 5 ? { reason: "r" } : {}) }));
          const answer = await client.call(
            apis.LeaveGroup,
            version,
            version < 3 ? { groupId: "g", memberId: "a" } : { groupId: "g", members },
          );
          if (version < 3) expect(answer.errorCode).toBe(25);
          else
            expect(answer).toMatchObject({
              errorCode: 0,
              members: [
                { memberId: "a", errorCode: 25 },
                { memberId: "b", errorCode: 25 },
              ],
            });
        }),
    ));
});
