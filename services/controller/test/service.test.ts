import { describe, expect, test } from "@jest/globals";
import { topicCodec } from "@sluice/catalog";
import { GROUPS_TOPIC, limits, topicId } from "@sluice/core/model";
import { systemRandom } from "@sluice/runtime";
import { type RunningController, TestCluster } from "./support/cluster.ts";

const call = { timeoutMs: 5_000 };
const allOpen = (cluster: TestCluster, name: string, brokers?: string[]) => () => {
  const topic = cluster.topic(name);
  if (topic === undefined) return false;
  for (let n = 0; n < topic.partitions; n += 1) {
    const p = cluster.view.partition({ topicId: topic.topicId, partition: n });
    const state = p?.state?.record;
    if (state?.phase !== "OPEN" || state.owner !== p?.assigned?.record.broker) return false;
    if (brokers !== undefined && !brokers.includes(state.owner)) return false;
  }
  return topic;
};
const lead = (c: RunningController): Promise<true> => waitFor(() => c.controller.leading);
async function waitFor(check: () => boolean): Promise<true> {
  const endsAtMs = Date.now() + 5_000;
  while (!check()) {
    if (Date.now() > endsAtMs) throw new Error("not within 5 s");
    await new Promise((r) => setTimeout(r, 5));
  }
  return true;
}
async function started(): Promise<{ cluster: TestCluster; c: RunningController }> {
  const cluster = new TestCluster();
  const c = await cluster.controller("c-1");
  await lead(c);
  return { cluster, c };
}

describe("leadership", () => {
  test("leads, makes the cluster record and the group topic, and gives its shards to the first broker", async () => {
    const { cluster, c } = await started();
    await using _ = cluster;
    await cluster.until("group topic", () => cluster.topic(GROUPS_TOPIC));
    expect(cluster.view.cluster?.shardCount).toBe(2);
    await cluster.broker("b-1");
    await cluster.until("shards open", allOpen(cluster, GROUPS_TOPIC));
    expect((await c.health.report("ready")).ok).toBe(true);
    expect(await c.metrics.value("sluice_controller_leader_count")).toBe(1);
  });
  test("another answers NOT_LEADER with the leader's endpoint, and takes over at once when the leader stops", async () => {
    const { cluster, c } = await started();
    await using _ = cluster;
    const second = await cluster.controller("c-2");
    await cluster.until("view of the second", async () => (await second.health.report("ready")).ok);
    const refused = await second.client.deleteTopic({ name: "t" }, call).catch((e: unknown) => e);
    expect(refused).toMatchObject({ code: "NOT_LEADER", message: expect.stringContaining(c.controller.endpoints()["rpc"] as string) });
    const beganMs = Date.now();
    await c.controller.drain();
    await lead(second);
    expect(Date.now() - beganMs).toBeLessThan(cluster.timers.memberLeaseTtlMs);
    await expect(second.client.deleteTopic({ name: "t" }, call)).rejects.toMatchObject({ code: "UNKNOWN_TOPIC" });
  });
  test("a deposed leader writes nothing, though it still believes that it leads", async () => {
    const { cluster, c } = await started();
    await using _ = cluster;
    await cluster.until("group topic", () => cluster.topic(GROUPS_TOPIC));
    const { entry } = await cluster.store.get(cluster.keys.leader);
    // The key passes to somebody else in one transaction of its own: no lease of the old leader ends.
    await cluster.store.txn({ compare: [], then: [{ kind: "delete", key: cluster.keys.leader }] });
    await cluster.put(cluster.keys.leader, entry?.value as Uint8Array);
    const refused = await c.client.createTopic({ name: "late", partitions: 1 }, call).catch((e: unknown) => e);
    expect(refused).toMatchObject({ code: "NOT_LEADER" });
    expect(await cluster.topicOf("late")).toBeUndefined();
    await waitFor(() => !c.controller.leading);
    expect(c.log.find("deposed")?.fields).toMatchObject({ cause: "another controller was elected" });
  });
  test("takes over within the lease when the leader's lease ends", async () => {
    const { cluster, c } = await started();
    await using _ = cluster;
    const second = await cluster.controller("c-2");
    const { entry } = await cluster.store.get(cluster.keys.leader);
    cluster.store.expireLease(entry?.lease as string);
    await waitFor(() => c.controller.leading !== second.controller.leading);
    const events = [...c.log.events(), ...second.log.events()];
    expect(events.filter((e) => e === "elected")).toHaveLength(2);
  });
});

describe("topics", () => {
  test("a topic of many partitions is assigned evenly over the brokers", async () => {
    const { cluster, c } = await started();
    await using _ = cluster;
    await cluster.broker("b-1");
    await cluster.broker("b-2", "b");
    await cluster.until("shards open", allOpen(cluster, GROUPS_TOPIC));
    const { topic } = await c.client.createTopic({ name: "t", partitions: 100, config: { "retention.ms": "1000" } }, call);
    expect(topic).toMatchObject({
      name: "t",
      partitions: 100,
      internal: false,
      config: { "retention.ms": "1000", "segment.ms": "600000" },
    });
    await cluster.until("all open", allOpen(cluster, "t"));
    await cluster.until("even", () => cluster.counts()["b-1"] === 51 && cluster.counts()["b-2"] === 51);
  });
  test.each([
    ["a bad name", { name: "a/b", partitions: 1 }, "INVALID_NAME"],
    ["no name", { name: "", partitions: 1 }, "INVALID_NAME"],
    ["a reserved name", { name: "__sluice_mine", partitions: 1 }, "INVALID_NAME"],
    ["a long name", { name: "x".repeat(250), partitions: 1 }, "INVALID_NAME"],
    ["no partitions", { name: "t", partitions: 0 }, "INVALID_ARGUMENT"],
    ["too many partitions", { name: "t", partitions: limits.topicPartitionsMax + 1 }, "INVALID_ARGUMENT"],
    ["an unknown key", { name: "t", partitions: 1, config: { nope: "1" } }, "INVALID_CONFIG"],
    ["a bad value", { name: "t", partitions: 1, config: { "segment.bytes": "big" } }, "INVALID_CONFIG"],
    ["more than the cluster may hold", { name: "t", partitions: 60 }, "INVALID_ARGUMENT"],
  ])("refuses %s", async (_what, request, code) => {
    await using cluster = new TestCluster();
    const c = await cluster.controller("c-1", { clusterPartitionsMax: 50 });
    await lead(c);
    await expect(c.client.createTopic(request, call)).rejects.toMatchObject({ code });
    if (request.name === "t") expect(await cluster.topicOf("t")).toBeUndefined();
  });
  test("refuses the second of a name; validateOnly makes nothing; configuration is set and reset", async () => {
    const { cluster, c } = await started();
    await using _ = cluster;
    await c.client.createTopic({ name: "t", partitions: 1, validateOnly: true }, call);
    expect(await cluster.topicOf("t")).toBeUndefined();
    await c.client.createTopic({ name: "t", partitions: 1, config: { "segment.ms": "5000" } }, call);
    await expect(c.client.createTopic({ name: "t", partitions: 1, validateOnly: true }, call)).rejects.toMatchObject({
      code: "TOPIC_EXISTS",
    });
    const set = await c.client.updateTopicConfig({ name: "t", set: { "retention.ms": "7" }, reset: ["segment.ms"] }, call);
    expect(set.topic?.config).toMatchObject({ "retention.ms": "7", "segment.ms": "600000" });
    expect((await cluster.topicOf("t"))?.config).toEqual({ "retention.ms": "7" });
    const change = (set: Record<string, string>, reset: string[] = []) => c.client.updateTopicConfig({ name: "t", set, reset }, call);
    await expect(change({ "retention.ms": "x" })).rejects.toMatchObject({ code: "INVALID_CONFIG" });
    await expect(change({}, ["nope"])).rejects.toMatchObject({ code: "INVALID_CONFIG" });
    await expect(change({ "retention.ms": "1" }, ["retention.ms"])).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await expect(c.client.updateTopicConfig({ name: "u" }, call)).rejects.toMatchObject({ code: "UNKNOWN_TOPIC" });
    await expect(c.client.updateTopicConfig({ name: GROUPS_TOPIC }, call)).rejects.toMatchObject({ code: "INVALID_NAME" });
    await expect(c.client.deleteTopic({ name: GROUPS_TOPIC }, call)).rejects.toMatchObject({ code: "INVALID_NAME" });
  });
  test("a topic gets more partitions, never fewer, and they are assigned with the answer", async () => {
    const { cluster, c } = await started();
    await using _ = cluster;
    await cluster.broker("b-1");
    await c.client.createTopic({ name: "t", partitions: 2 }, call);
    const grow = (partitions: number, more: { name?: string; validateOnly?: boolean } = {}) =>
      c.client.addPartitions({ name: "t", partitions, ...more }, call);
    for (const partitions of [0, 1, 2, 10_001]) await expect(grow(partitions)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await expect(grow(3, { name: "u" })).rejects.toMatchObject({ code: "UNKNOWN_TOPIC" });
    await expect(grow(3, { name: GROUPS_TOPIC })).rejects.toMatchObject({ code: "INVALID_NAME" });
    expect((await grow(5, { validateOnly: true })).topic?.partitions).toBe(2);
    const { topic } = await grow(5);
    expect(topic?.partitions).toBe(5);
    expect((await cluster.topicOf("t"))?.partitions).toBe(5);
    for (let partition = 0; partition < 5; partition += 1) {
      const { entry } = await cluster.store.get(cluster.keys.assigned({ topicId: topicId(topic?.topicId ?? ""), partition }));
      expect([partition, entry === undefined]).toEqual([partition, false]);
    }
  });
  test("a topic that was made by half is finished", async () => {
    const { cluster } = await started();
    await using _ = cluster;
    await cluster.broker("b-1");
    const record = {
      tenant: "default",
      name: "half",
      topicId: topicId(systemRandom.uuid()),
      partitions: 90,
      config: {},
      phase: "ACTIVE" as const,
    };
    await cluster.put(cluster.keys.topic("default", "half"), topicCodec.encode({ ...record, createdAtMs: 1 }));
    await cluster.until("all open", allOpen(cluster, "half"));
  });
});

describe("brokers", () => {
  test("a broker that dies loses its partitions at once, forced, when its connection is refused", async () => {
    const { cluster, c } = await started();
    await using _ = cluster;
    const [one, two] = [await cluster.broker("b-1"), await cluster.broker("b-2")];
    await c.client.createTopic({ name: "t", partitions: 10 }, call);
    await cluster.until("all open", allOpen(cluster, "t"));
    const before = cluster.counts()["b-1"] as number;
    two.taken.length = 0;
    one.freeze();
    const report = { service: "broker", id: "b-1", instance: one.instance, reporter: "proxy-1", reason: "link reset" };
    await c.client.reportPeer(report, call);
    // It accepts the connect: nothing happens on the word of one.
    await cluster.until("probe", () => cluster.peers.probed.includes(one.link));
    expect(cluster.counts()["b-1"]).toBe(before);
    cluster.peers.answers.set(one.link, "refused");
    await c.client.reportPeer(report, call);
    await cluster.until("all on the other", allOpen(cluster, "t", ["b-2"]));
    expect(two.taken).toHaveLength(before);
    expect(two.taken.every((t) => t.forced)).toBe(true);
    expect(c.log.lines.filter((l) => l.fields["cause"] === "LOST")).toHaveLength(before);
  });
  test("a broker that restarts under its name gets its partitions back, forced from its earlier instance", async () => {
    const { cluster, c } = await started();
    await using _ = cluster;
    const one = await cluster.broker("b-1");
    await c.client.createTopic({ name: "t", partitions: 4 }, call);
    const topic = await cluster.until("all open", allOpen(cluster, "t"));
    const old = one.instance;
    one.stop();
    one.taken.length = 0;
    one.working = true;
    await one.join();
    await cluster.until("taken by the new instance", () =>
      [...cluster.view.partitions.values()].every((p) => p.state?.record.ownerInstance === one.instance),
    );
    expect(one.taken.every((t) => t.forced)).toBe(true);
    expect((await cluster.assignmentOf({ topicId: topic.topicId, partition: 0 }))?.forceInstance).toBe(old);
  });
  test("a death in the middle of a planned move forces the partition to its new broker", async () => {
    const { cluster, c } = await started();
    await using _ = cluster;
    const one = await cluster.broker("b-1");
    await c.client.createTopic({ name: "t", partitions: 4 }, call);
    await cluster.until("all open", allOpen(cluster, "t"));
    one.freeze();
    await cluster.broker("b-2");
    await cluster.until("moves under way", () => (cluster.counts()["b-2"] ?? 0) === 3);
    await one.leave();
    await cluster.until("all on the other", allOpen(cluster, "t", ["b-2"]));
    expect(c.log.lines.some((l) => l.fields["cause"] === "FORCE" && l.fields["forceInstance"] === one.instance)).toBe(true);
  });
  test("a planned move whose old owner does not let go is forced after a while", async () => {
    const { cluster, c } = await started();
    await using _ = cluster;
    const one = await cluster.broker("b-1");
    await c.client.createTopic({ name: "t", partitions: 4 }, call);
    await cluster.until("all open", allOpen(cluster, "t"));
    one.freeze();
    const two = await cluster.broker("b-2");
    await cluster.until("three taken", () => two.taken.length === 3);
    expect(two.taken.every((t) => t.forced)).toBe(true);
    expect(c.log.lines.filter((l) => l.fields["cause"] === "STUCK")).toHaveLength(3);
  });
  test("a broker that joins gets its share by few planned moves, never more than the bound at a time", async () => {
    await using cluster = new TestCluster();
    const c = await cluster.controller("c-1", { plannedMovesMax: 3 });
    await lead(c);
    await cluster.broker("b-1");
    await c.client.createTopic({ name: "t", partitions: 30 }, call);
    await cluster.until("all open", allOpen(cluster, "t"));
    let most = 0;
    cluster.view.onChange(() => {
      let moving = 0;
      for (const p of cluster.view.partitions.values()) if (p.state?.record.owner !== p.assigned?.record.broker) moving += 1;
      most = Math.max(most, moving);
    });
    const two = await cluster.broker("b-2", "b");
    await cluster.until("even", () => cluster.counts()["b-2"] === 16 && allOpen(cluster, "t")());
    expect(two.taken).toHaveLength(16);
    expect(two.taken.some((t) => t.forced)).toBe(false);
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(3);
  });
  test("a drain moves everything away and says what remains", async () => {
    const { cluster, c } = await started();
    await using _ = cluster;
    const one = await cluster.broker("b-1");
    await c.client.createTopic({ name: "t", partitions: 6 }, call);
    await cluster.until("all open", allOpen(cluster, "t"));
    const two = await cluster.broker("b-2");
    const request = { service: "broker", id: "b-1", instance: one.instance };
    await cluster.until("nothing remains", async () => (await c.client.drain(request, call)).remaining === 0);
    await cluster.until("all on the other", allOpen(cluster, "t", ["b-2"]));
    expect(two.taken.some((t) => t.forced)).toBe(false);
    const unknown = c.client.drain({ ...request, instance: "someone" }, call);
    await expect(unknown).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });
  test.each([
    ["an unknown service", { service: "mouse", id: "b-1", instance: "x" }, "INVALID_ARGUMENT"],
    ["a bad id", { service: "broker", id: "a b", instance: "x" }, "INVALID_NAME"],
    ["no instance", { service: "broker", id: "b-1", instance: "" }, "INVALID_ARGUMENT"],
  ])("refuses a heartbeat, a report and a drain with %s", async (_what, request, code) => {
    const { cluster, c } = await started();
    await using _ = cluster;
    await expect(c.client.heartbeat(request, call)).rejects.toMatchObject({ code });
    await expect(c.client.reportPeer({ ...request, reporter: "p", reason: "r" }, call)).rejects.toMatchObject({ code });
    await expect(c.client.drain(request, call)).rejects.toMatchObject({ code });
  });
  test("a storage node that falls silent is told to others as suspect, and marked so", async () => {
    const { cluster, c } = await started();
    await using _ = cluster;
    await cluster.member("segment-store", "s-1", "i-1", { incarnation: "n-1" });
    await cluster.node("s-1", "n-1");
    const beat = (service: string, id: string, instance: string) => c.client.heartbeat({ service, id, instance }, call);
    const one = await cluster.broker("b-1");
    const two = await cluster.broker("b-2");
    await cluster.until("suspect", async () => {
      await beat("segment-store", "s-1", "i-1");
      return (await beat("broker", "b-1", one.instance)).suspects.length === 0;
    });
    await cluster.until("suspect", async () => {
      await beat("broker", "b-2", two.instance);
      return (await beat("broker", "b-1", one.instance)).suspects.includes("s-1");
    });
    await cluster.until("phase", () => cluster.view.nodes.get("s-1")?.record.phase === "SUSPECT");
    await cluster.until("returns", async () => (await beat("segment-store", "s-1", "i-1")).suspects.length === 0);
    await cluster.until("phase", async () => {
      await beat("segment-store", "s-1", "i-1");
      return cluster.view.nodes.get("s-1")?.record.phase === "ACTIVE";
    });
  });
});
