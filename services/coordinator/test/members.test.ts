import { describe, expect, jest, test } from "@jest/globals";
import { shardOfGroup, type GroupConfig } from "@sluice/core/group";
import { errorCodeOf } from "@sluice/core/model";
import type { JoinGroupResponse } from "@sluice/proto/internal/v1/coordinator";
import { ORDERS, SHARDS, TestCluster, type Running } from "./support/cluster.ts";
import { until } from "./support/world.ts";

// A busy machine takes its time; sessions are short only where their end is waited for.
jest.setTimeout(60_000);
const call = { timeoutMs: 30_000 };
const all = Array.from({ length: SHARDS }, (_, n) => n);
const groupSettings = {
  sessionTimeoutMinMs: 50,
  initialRebalanceDelayMs: 30,
  consumerSessionTimeoutMs: 60_000,
  consumerHeartbeatIntervalMs: 40,
};
async function started(): Promise<TestCluster> {
  const cluster = new TestCluster();
  await cluster.start();
  for (let n = 0; n < 4; n += 1) cluster.highWatermarks.set(`${ORDERS}/${n}`, 100);
  return cluster;
}
async function alone(cluster: TestCluster, id = "coordinator-1", more: Partial<GroupConfig> = {}): Promise<Running> {
  const running = await cluster.coordinator(id, { groups: { ...groupSettings, ...more } });
  await until("all shards are served", () => cluster.serves(running, all));
  return running;
}
const text = (s: string): Uint8Array => new TextEncoder().encode(s);
const read = (b: Uint8Array): string => new TextDecoder().decode(b);

const join = (running: Running, group: string, memberId = "", more: Record<string, unknown> = {}): Promise<JoinGroupResponse> =>
  running.client.joinGroup(
    {
      group,
      memberId,
      clientId: "app",
      clientHost: "10.0.0.1",
      sessionTimeoutMs: 60_000,
      rebalanceTimeoutMs: 60_000,
      protocolType: "consumer",
      protocols: [{ name: "range", metadata: text("m") }],
      ...more,
    },
    call,
  );
async function joinStable(running: Running, group: string): Promise<JoinGroupResponse> {
  const joined = await join(running, group);
  const assignments = [{ memberId: joined.memberId, assignment: text("all") }];
  const synced = await running.client.syncGroup({ group, memberId: joined.memberId, generation: joined.generation, assignments }, call);
  expect(synced.error).toBe(0);
  return joined;
}
const offset = (partition: number, at: number) => ({ topic: "orders", partition, offset: BigInt(at) });
const orders = { topics: ["orders"], topicPattern: "" };
const beat = async (running: Running, group: string, memberId: string, memberEpoch: number, more: Record<string, unknown> = {}) => {
  const { error, response } = await running.client.consumerHeartbeat(
    { request: { group, memberId, memberEpoch, ...more }, clientId: "app" },
    call,
  );
  return {
    code: error === 0 ? "ok" : errorCodeOf(error),
    ...response,
    reads: response?.assignment?.topics.map((t) => [t.topic, t.partitions]),
  };
};

describe("classic members", () => {
  test("join, are assigned, commit, and go on after a takeover", async () => {
    await using cluster = await started();
    const one = await alone(cluster);
    const asked = await join(one, "g", "", { requireKnownMemberId: true });
    expect(errorCodeOf(asked.error)).toBe("MEMBER_ID_REQUIRED");
    expect(asked.memberId).toMatch(/^app-/);
    const [a, b] = await Promise.all([join(one, "g", asked.memberId), join(one, "g")]);
    expect([a.error, b.error, a.generation, b.generation]).toEqual([0, 0, 1, 1]);
    expect([a, b].find((m) => m.leader === m.memberId)?.members).toHaveLength(2);
    const assignments = [a, b].map((m, i) => ({ memberId: m.memberId, assignment: text(`part ${i}`) }));
    const synced = await Promise.all(
      [a, b].map((m) => one.client.syncGroup({ group: "g", memberId: m.memberId, generation: 1, protocol: "range", assignments }, call)),
    );
    expect(synced.map((s) => [s.error, read(s.assignment)])).toEqual([
      [0, "part 0"],
      [0, "part 1"],
    ]);
    const committed = await one.client.commit({ group: "g", memberId: a.memberId, memberEpoch: 1, offsets: [offset(0, 5)] }, call);
    expect(committed.results[0]?.error).toBe(0);
    const stranger = await one.client.commit({ group: "g", offsets: [offset(0, 6)] }, call);
    expect(errorCodeOf(stranger.results[0]?.error ?? 0)).toBe("UNKNOWN_MEMBER");
    await one.coordinator.stop();

    const two = await alone(cluster, "coordinator-2");
    for (const m of [a, b]) expect((await two.client.heartbeat({ group: "g", memberId: m.memberId, generation: 1 }, call)).error).toBe(0);
    const again = await two.client.syncGroup({ group: "g", memberId: b.memberId, generation: 1 }, call);
    expect(read(again.assignment)).toBe("part 1");
    const { members } = await two.client.leaveGroup({ group: "g", members: [{ memberId: a.memberId }, { memberId: "nobody" }] }, call);
    expect(members.map((m) => m.error === 0 || errorCodeOf(m.error))).toEqual([true, "UNKNOWN_MEMBER"]);
    expect(errorCodeOf((await two.client.heartbeat({ group: "g", memberId: b.memberId, generation: 1 }, call)).error)).toBe(
      "REBALANCE_IN_PROGRESS",
    );
    expect((await join(two, "g", b.memberId)).generation).toBe(2);
  });

  test("that wait for others hold up nobody else, not even in the same shard", async () => {
    await using cluster = await started();
    const one = await alone(cluster);
    const slow = "slow";
    const other = Array.from({ length: 100 }, (_, i) => `other-${i}`).find(
      (g) => shardOfGroup(g, SHARDS) === shardOfGroup(slow, SHARDS),
    ) as string;
    const first = await joinStable(one, slow);
    let waiting = 0;
    const joins = Array.from({ length: 300 }, () =>
      join(one, slow).then(
        () => (waiting -= 1),
        () => undefined,
      ),
    );
    waiting = joins.length;
    await until(
      "the group rebalances",
      async () => (await one.client.heartbeat({ group: slow, memberId: first.memberId, generation: 1 }, call)).error !== 0,
    );
    const startedMs = Date.now();
    await joinStable(one, other);
    expect((await one.client.commit({ group: "plain", offsets: [offset(1, 7)] }, call)).results[0]?.error).toBe(0);
    expect(Date.now() - startedMs).toBeLessThan(30_000);
    expect(waiting).toBe(300);
    await join(one, slow, first.memberId);
    await Promise.all(joins);
  }, 20_000);

  test("that fall silent are out, and an empty group is stored as such", async () => {
    await using cluster = await started();
    const one = await alone(cluster);
    const joined = await join(one, "g", "", { sessionTimeoutMs: 100 });
    await one.client.syncGroup({ group: "g", memberId: joined.memberId, generation: 1 }, call);
    await until("the group is empty", async () => (await one.client.describeGroup({ group: "g" }, call)).state === "Empty");
    expect(cluster.partitions.flatMap((p) => p.lines).filter((l) => l.includes("classic g"))).toHaveLength(2);
  });

  test("are told to look elsewhere when the shard goes while they wait", async () => {
    await using cluster = await started();
    const one = await alone(cluster);
    await joinStable(one, "g");
    const waits = join(one, "g").catch((error: unknown) => (error as { code: string }).code);
    await until("it waits", async () => (await one.client.describeGroup({ group: "g" }, call)).state === "PreparingRebalance");
    for (const shard of one.coordinator.ownership.shards.values()) shard.stop();
    expect(await waits).toBe("NOT_COORDINATOR");
  });
});

describe("a coordinator that ends", () => {
  test("alone does not wait for members that wait for each other", async () => {
    await using cluster = await started();
    const one = await alone(cluster);
    const joined = await joinStable(one, "g");
    const waits = join(one, "g").catch((error: unknown) => (error as { code: string }).code);
    await until("it waits", async () => (await one.client.describeGroup({ group: "g" }, call)).state === "PreparingRebalance");
    const startedMs = Date.now();
    await one.coordinator.drain();
    expect(await waits).toBe("NOT_COORDINATOR");
    expect(Date.now() - startedMs).toBeLessThan(cluster.timers.shutdownMs);
    await one.coordinator.stop();
    // What was agreed on before is there.
    const two = await alone(cluster, "coordinator-2");
    expect((await two.client.heartbeat({ group: "g", memberId: joined.memberId, generation: 1 }, call)).error).toBe(0);
  });
});

describe("members of groups that the server assigns", () => {
  test("share partitions, give back before others get, and go on after a takeover", async () => {
    await using cluster = await started();
    const one = await alone(cluster);
    const first = await beat(one, "g", "", 0, { subscription: orders });
    expect(first).toMatchObject({ code: "ok", memberEpoch: 1, reads: [["orders", [0, 1, 2, 3]]] });
    const a = first.memberId as string;
    expect(await beat(one, "g", "b", 0, { subscription: orders })).toMatchObject({ memberEpoch: 2, reads: [] });
    expect(await beat(one, "g", a, 1)).toMatchObject({ memberEpoch: 1, reads: [["orders", [0, 1]]] });
    await one.coordinator.stop();

    const two = await alone(cluster, "coordinator-2");
    expect(await beat(two, "g", "b", 2)).toMatchObject({ memberEpoch: 2, reads: undefined });
    const owned = { topics: [{ topic: "orders", partitions: [0, 1] }] };
    expect(await beat(two, "g", a, 1, { owned })).toMatchObject({ memberEpoch: 2 });
    expect(await beat(two, "g", "b", 2)).toMatchObject({ memberEpoch: 2, reads: [["orders", [2, 3]]] });
    const commit = (memberId: string, memberEpoch: number) =>
      two.client.commit({ group: "g", memberId, memberEpoch, offsets: [offset(2, 3)] }, call).then((r) => r.results[0]?.error ?? 0);
    expect(await commit("b", 2)).toBe(0);
    expect(errorCodeOf(await commit("b", 1))).toBe("STALE_MEMBER_EPOCH");
    const asked = two.client.fetch({ group: "g", memberId: "b", memberEpoch: 7 }, call);
    await expect(asked).rejects.toMatchObject({ code: "STALE_MEMBER_EPOCH" });
    expect((await beat(two, "g", "b", -1)).code).toBe("ok");
    expect((await two.client.describeGroup({ group: "g" }, call)).members.map((m) => m.memberId)).toEqual([a]);
  });

  test("that fall silent are out; the others get what they had; new topics are assigned", async () => {
    await using cluster = await started();
    const one = await alone(cluster, "coordinator-1", { consumerSessionTimeoutMs: 600 });
    const patterned = { topics: [], topicPattern: "(orders|bills)" };
    await beat(one, "g", "a", 0, { subscription: patterned });
    await beat(one, "g", "silent", 0, { subscription: orders });
    let epoch = 1;
    let reads: unknown;
    const heard = async (): Promise<unknown> => {
      const reply = await beat(one, "g", "a", epoch, { owned: { topics: [] } });
      // Silent too long itself, on a machine that stood still: it begins again.
      if (reply.code === "UNKNOWN_MEMBER") {
        epoch = (await beat(one, "g", "a", 0, { subscription: patterned })).memberEpoch ?? 0;
        return reads;
      }
      epoch = reply.memberEpoch ?? epoch;
      if (reply.reads !== undefined) reads = reply.reads;
      return reads;
    };
    await until(
      "a has everything again",
      async () => JSON.stringify(await heard()) === JSON.stringify([["orders", [0, 1, 2, 3]]]) && epoch > 2,
    );
    await cluster.topic("bills", "44444444-4444-4444-8444-444444444444", 2);
    await until("a has the new topic", async () => JSON.stringify(await heard()).includes('"bills",[0,1]'));
    const bad = beat(one, "g", "x", 0, { subscription: { topics: [], topicPattern: "(unclosed" } });
    await expect(bad).rejects.toMatchObject({ code: "INVALID_REGULAR_EXPRESSION" });
  });
});

describe("groups", () => {
  test("are listed, described and deleted; their offsets too", async () => {
    await using cluster = await started();
    const one = await alone(cluster);
    const group = "gr\u00fcn/1";
    await one.client.commit({ group, offsets: [offset(0, 1), offset(1, 2)] }, call);
    await joinStable(one, "classic");
    await beat(one, "server", "a", 0, { subscription: orders });
    const listed = async (): Promise<string[]> => {
      const found = await Promise.all(all.map((shard) => one.client.listShardGroups({ shard }, call)));
      return found.flatMap((f) => f.response?.groups ?? []).map((g) => `${g.group} ${g.kind} ${g.state} ${g.protocolType}`.trimEnd());
    };
    expect((await listed()).sort()).toEqual([
      "classic classic Stable consumer",
      `${group} classic Empty`,
      "server consumer Stable consumer",
    ]);
    const described = await one.client.describeGroup({ group: "classic" }, call);
    expect(described.members[0]).toMatchObject({ clientId: "app", clientHost: "10.0.0.1", metadata: text("m"), assignment: text("all") });
    const gone = one.client.describeGroup({ group: "nobody" }, call);
    await expect(gone).rejects.toMatchObject({ code: "GROUP_NOT_FOUND" });
    await expect(one.client.deleteGroup({ group: "server" }, call)).rejects.toMatchObject({ code: "NON_EMPTY_GROUP" });
    const removed = await one.client.deleteOffsets(
      {
        group,
        topics: [
          { topic: "orders", partitions: [1] },
          { topic: "nowhere", partitions: [0] },
        ],
      },
      call,
    );
    expect(removed.results.map((r) => r.error === 0 || errorCodeOf(r.error))).toEqual([true, "UNKNOWN_TOPIC"]);
    expect((await one.client.fetch({ group }, call)).offsets.map((o) => o.partition)).toEqual([0]);
    await one.client.deleteGroup({ group }, call);
    expect((await one.client.fetch({ group }, call)).offsets).toEqual([]);
    await expect(one.client.deleteGroup({ group }, call)).rejects.toMatchObject({ code: "GROUP_NOT_FOUND" });
    expect(await listed()).toHaveLength(2);
  });

  test("forget offsets that are old", async () => {
    await using cluster = await started();
    const one = await cluster.coordinator("coordinator-1", { groups: { ...groupSettings, offsetsRetentionMs: 50 }, expiryCheckMs: 20 });
    await until("all shards are served", () => cluster.serves(one, all));
    const { memberId } = await joinStable(one, "busy");
    await one.client.commit({ group: "busy", memberId, memberEpoch: 1, offsets: [offset(0, 1)] }, call);
    await one.client.commit({ group: "idle", offsets: [offset(0, 1)] }, call);
    await until("the idle group is gone", async () => (await one.client.fetch({ group: "idle" }, call)).offsets.length === 0);
    expect((await one.client.fetch({ group: "busy" }, call)).offsets).toHaveLength(1);
  });
});
