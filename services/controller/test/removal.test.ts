import { describe, expect, test } from "@jest/globals";
import { segmentCodec, segmentObjectKey, startCodec, topicCodec } from "@sluice/catalog";
import { epoch, incarnation, instanceId, memberId, topicId, type PartitionId, type SegmentRecord } from "@sluice/core/model";
import { systemClock, type Clock } from "@sluice/runtime";
import type { ControllerLimits } from "../src/service.ts";
import { type RunningController, TestCluster } from "./support/cluster.ts";

const call = { timeoutMs: 5_000 };
const DAY = 24 * 3_600_000;
const OBJECT = "0b6e5f0c-0000-4000-8000-000000000001";

interface Rig extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly c: RunningController;
  readonly p: PartitionId;
}
/** A leader, one live storage node, and a topic of one partition that broker b-1 (a real one of the test) serves when asked for. */
async function rig(
  options: { limits?: Partial<ControllerLimits>; config?: Record<string, string>; broker?: boolean; clock?: Clock } = {},
): Promise<Rig> {
  const cluster = new TestCluster();
  const c = await cluster.controller("c-1", options.limits, options.clock);
  await cluster.until("leader", () => c.controller.leading);
  await cluster.member("segment-store", "s-1", "i-1", { incarnation: "n-1" });
  await cluster.node("s-1", "n-1");
  if (options.broker === true) await cluster.broker("b-1");
  await c.client.createTopic({ name: "t", partitions: 1, ...(options.config && { config: options.config }) }, call);
  const topic = await cluster.until("topic", () => cluster.topic("t"));
  const p = { topicId: topic.topicId, partition: 0 };
  return { cluster, c, p, [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() };
}
const record = (k: number, base: number, end: number | undefined, more: Partial<SegmentRecord> = {}): SegmentRecord => ({
  segment: { epoch: epoch(1), k },
  base,
  ...(end !== undefined && { end }),
  phase: end === undefined ? "OPEN" : "SEALED",
  replicas: [{ node: memberId("s-1"), incarnation: incarnation("n-1") }],
  ...more,
});
const tailOf = (k: number, base: number) => ({ tail: { segment: { epoch: epoch(1), k }, base }, ownerInstance: instanceId("x") });
const held = (p: PartitionId, k: number): string => `${p.topicId}/${p.partition}/1-${k}`;
const phases = (r: Rig): string[] => r.cluster.view.segmentsOf(r.p).map((s) => `${s.record.segment.k} ${s.record.phase}`);
async function start(r: Rig): Promise<number | undefined> {
  const { entry } = await r.cluster.store.get(r.cluster.keys.start(r.p));
  return entry && startCodec.decode(entry.value).offset;
}

describe("a deleted topic", () => {
  test("leaves nothing: register marked by the broker, copies gone, object gone, keys gone; its name is free at once", async () => {
    await using r = await rig({ broker: true });
    const { cluster, c, p } = r;
    await cluster.until("open", () => cluster.view.partition(p)?.state?.record.phase === "OPEN");
    const object = segmentObjectKey({ clusterId: "c", partition: p, base: 0, segment: { epoch: epoch(1), k: 0 }, attempt: OBJECT });
    await cluster.objects.put(object, [new Uint8Array(3)]);
    await cluster.segment(p, record(0, 0, 9, { phase: "LOCAL_DELETED", object: { key: object, at: 0, length: 3, format: 1 } }));
    await cluster.segment(p, record(1, 10, 19));
    cluster.peers.held.set("s-1", new Set([held(p, 1)]));
    await c.client.deleteTopic({ name: "t", topicId: p.topicId }, call);
    // Sent again, it is the same topic that is meant, and not the next one of the name.
    await c.client.deleteTopic({ name: "t", topicId: p.topicId }, call);
    await expect(c.client.deleteTopic({ name: "t" }, call)).rejects.toMatchObject({ code: "UNKNOWN_TOPIC" });
    await expect(c.client.updateTopicConfig({ name: "t" }, call)).rejects.toMatchObject({ code: "UNKNOWN_TOPIC" });
    const again = await c.client.createTopic({ name: "t", partitions: 1 }, call);
    expect(again.topic?.topicId).not.toBe(p.topicId);
    await c.client.deleteTopic({ name: "t", topicId: p.topicId }, call);
    expect(await cluster.deleted()).toMatchObject([{ name: "t", topicId: p.topicId, partitions: 1, phase: "DELETING" }]);
    // The node still holds the second: its key waits, and the register with it, as a tombstone.
    await cluster.until("first segment gone", () => phases(r).join() === "1 DELETING");
    expect(cluster.view.partition(p)?.state?.record.phase).toBe("DELETED");
    expect(cluster.view.partition(p)?.assigned).toBeUndefined();
    expect(await cluster.objects.head(object)).toBeUndefined();
    cluster.peers.held.clear();
    await cluster.until("topic gone", async () => (await cluster.deleted()).length === 0);
    expect((await cluster.store.list(cluster.keys.topicPartitions(p.topicId))).entries).toEqual([]);
    expect(await cluster.topicOf("t")).toMatchObject({ topicId: again.topic?.topicId, phase: "ACTIVE" });
    await expect(c.client.deleteTopic({ name: "t", topicId: p.topicId }, call)).rejects.toMatchObject({ code: "UNKNOWN_TOPIC" });
  });
  test("that nobody ever served goes at once; one that is assigned waits for its broker", async () => {
    await using r = await rig();
    await r.c.client.deleteTopic({ name: "t" }, call);
    await r.cluster.until("topic gone", async () => (await r.cluster.topicOf("t")) === undefined);
    await using s = await rig({ broker: true, limits: { garbageMs: 10 } });
    const { cluster, c, p } = s;
    await cluster.until("open", () => cluster.view.partition(p)?.state?.record.phase === "OPEN");
    const broker = cluster.view.membersOf("broker")[0];
    await cluster.segment(p, record(0, 0, 9));
    await cluster.state(p, { phase: "OPEN", ownerInstance: instanceId(`${broker?.instance}`), owner: memberId("b-1") });
    await c.client.deleteTopic({ name: "t" }, call);
    await cluster.until("topic gone", async () => (await cluster.deleted()).length === 0);
  });
  test("keeps segment keys while the register is not DELETED", async () => {
    await using r = await rig();
    const { cluster, c, p } = r;
    await cluster.segment(p, record(0, 0, 9));
    await cluster.state(p, { phase: "OPEN" });
    await c.client.deleteTopic({ name: "t" }, call);
    await systemClock.sleep(150);
    expect(phases(r)).toEqual(["0 SEALED"]);
    await cluster.state(p, { phase: "DELETED" });
    await cluster.until("topic gone", async () => (await cluster.deleted()).length === 0);
  });
  test("is waited for by who makes its name again, while its owner may still take records; not for ever", async () => {
    await using r = await rig();
    const { cluster, c, p } = r;
    await cluster.state(p, { phase: "OPEN" });
    await c.client.deleteTopic({ name: "t" }, call);
    let isMade = false;
    const made = c.client.createTopic({ name: "t", partitions: 1 }, call).then(() => (isMade = true));
    await cluster.until("record", () => cluster.topicOf("t"));
    await systemClock.sleep(150);
    expect(isMade).toBe(false);
    await cluster.state(p, { phase: "DELETED" });
    await made;
    // Nobody ends this one.
    const second = await cluster.until("topic", () => cluster.topic("t"));
    await cluster.state({ topicId: second.topicId, partition: 0 }, { phase: "OPEN" });
    await c.client.deleteTopic({ name: "t" }, call);
    await c.client.createTopic({ name: "t", partitions: 1 }, call);
  });
  test("a copy on a node that is away keeps the key until the node is back or gone for good", async () => {
    await using r = await rig({ limits: { nodeGoneAfterMs: 60_000 } });
    const { cluster, c, p } = r;
    await cluster.node("s-2", "n-2");
    await cluster.segment(p, record(0, 0, 9, { replicas: [{ node: memberId("s-2"), incarnation: incarnation("n-2") }] }));
    await cluster.state(p, { phase: "DELETED" });
    await c.client.deleteTopic({ name: "t" }, call);
    await cluster.until("marked", () => phases(r).join() === "0 DELETING");
    await systemClock.sleep(150);
    expect(phases(r)).toEqual(["0 DELETING"]);
    // Formatted anew: the copy is gone with the old incarnation.
    await cluster.node("s-2", "n-3");
    await cluster.until("topic gone", async () => (await cluster.deleted()).length === 0);
  });
  test("gives its name to the next one ten times in a row, and all that is deleted goes", async () => {
    await using r = await rig({ broker: true });
    const { cluster, c, p } = r;
    const ids = [p.topicId];
    for (let n = 0; n < 10; n += 1) {
      const id = ids.at(-1) ?? p.topicId;
      await cluster.segment({ topicId: id, partition: 0 }, record(0, 0, 9));
      await c.client.deleteTopic({ name: "t" }, call);
      const made = await c.client.createTopic({ name: "t", partitions: 1 }, call);
      ids.push(topicId(made.topic?.topicId ?? ""));
    }
    expect(new Set(ids).size).toBe(11);
    await cluster.until("all gone", async () => (await cluster.deleted()).length === 0);
    for (const id of ids.slice(0, -1)) expect((await cluster.store.list(cluster.keys.topicPartitions(id))).entries).toEqual([]);
    expect((await cluster.topicOf("t"))?.topicId).toBe(ids.at(-1));
  });
  test("counts with its partitions until nothing is left of it", async () => {
    await using r = await rig({ limits: { clusterPartitionsMax: 6, topicDeleteGraceMs: 300 } });
    const { cluster, c, p } = r;
    await cluster.segment(p, record(0, 0, 9));
    await cluster.state(p, { phase: "DELETED" });
    await c.client.deleteTopic({ name: "t" }, call);
    const make = () => c.client.createTopic({ name: "u", partitions: 4 }, call);
    await expect(make()).rejects.toThrow("would have 7 partitions, 1 of them of deleted topics that are being cleaned up, at most 6");
    await cluster.until("topic gone", async () => (await cluster.deleted()).length === 0);
    await cluster.until("seen", () => cluster.view.deletedTopics.size === 0);
    await make();
  });
  test("that an earlier version marked under its name goes as well, and gives the name to a new one at once", async () => {
    await using r = await rig();
    const mark = async ({ cluster }: Rig): Promise<void> => {
      const topic = await cluster.topicOf("t");
      if (topic === undefined) throw new Error("no topic t");
      await cluster.put(cluster.keys.topic("default", "t"), topicCodec.encode({ ...topic, phase: "DELETING" }));
    };
    await mark(r);
    const { cluster } = r;
    await cluster.until("topic gone", async () => (await cluster.topicOf("t")) === undefined && (await cluster.deleted()).length === 0);
    await using s = await rig({ limits: { garbageMs: 60_000 } });
    await mark(s);
    expect((await s.c.client.createTopic({ name: "t", partitions: 1 }, call)).topic?.topicId).not.toBe(s.p.topicId);
    expect(await s.cluster.deleted()).toMatchObject([{ topicId: s.p.topicId }]);
  });
  test("is cleaned up by the next leader when the one that deleted it dies", async () => {
    await using r = await rig({ limits: { garbageMs: 60_000 } });
    const { cluster, c, p } = r;
    await cluster.segment(p, record(0, 0, 9));
    await cluster.state(p, { phase: "DELETED" });
    await c.client.deleteTopic({ name: "t" }, call);
    await c.client.createTopic({ name: "t", partitions: 1 }, call);
    const next = await cluster.controller("c-2");
    await c.controller.stop();
    await cluster.until("next leader", () => next.controller.leading);
    await cluster.until("topic gone", async () => (await cluster.deleted()).length === 0);
    expect((await cluster.store.list(cluster.keys.topicPartitions(p.topicId))).entries).toEqual([]);
    expect((await cluster.topicOf("t"))?.topicId).not.toBe(p.topicId);
  });
});

describe("retention", () => {
  test("raises the start and marks what is wholly below it, then removes it; the register keeps its revision", async () => {
    await using r = await rig({ config: { "retention.ms": "1000" } });
    const { cluster, p } = r;
    const now = Date.now();
    await cluster.state(p, tailOf(2, 20));
    const revision = (await cluster.store.get(cluster.keys.state(p))).entry?.modRevision;
    await cluster.segment(p, record(0, 0, 9, { lastAppendMs: now - 60_000, sizeBytes: 5 }));
    await cluster.segment(p, record(1, 10, 19, { lastAppendMs: now, sizeBytes: 5 }));
    await cluster.segment(p, record(2, 20, undefined));
    await cluster.until("first removed", () => phases(r).length === 2);
    expect(await start(r)).toBe(10);
    await cluster.until("second removed when it is old", () => phases(r).join() === "2 OPEN");
    expect(await start(r)).toBe(20);
    expect((await cluster.store.get(cluster.keys.state(p))).entry?.modRevision).toBe(revision);
  });
  test("a wall clock that jumps forward deletes nothing", async () => {
    let jumpMs = 0;
    const clock: Clock = { ...systemClock, wallMs: () => systemClock.wallMs() + jumpMs };
    await using r = await rig({ config: { "retention.ms": "1000000" }, clock });
    const { cluster, c, p } = r;
    jumpMs = 30 * DAY;
    await cluster.state(p, tailOf(1, 10));
    await cluster.segment(p, record(0, 0, 9, { lastAppendMs: Date.now() }));
    await cluster.segment(p, record(1, 10, undefined));
    await cluster.until("refused", () => c.log.find("retention by age stopped: the wall clock stepped"));
    await systemClock.sleep(100);
    expect(phases(r)).toEqual(["0 SEALED", "1 OPEN"]);
    expect(await start(r)).toBeUndefined();
    expect(await c.metrics.value("sluice_controller_retention_refused_total")).toBeGreaterThan(0);
  });
  test("an object that two segments share goes with the second", async () => {
    await using r = await rig({ config: { "retention.ms": "1000" } });
    const { cluster, p } = r;
    const old = Date.now() - 60_000;
    await cluster.objects.put("shared", [new Uint8Array(6)]);
    const object = (at: number) => ({ phase: "LOCAL_DELETED" as const, object: { key: "shared", at, length: 3, format: 1 } });
    await cluster.state(p, tailOf(2, 20));
    await cluster.segment(p, record(2, 20, undefined));
    await cluster.segment(p, record(1, 10, 19, { lastAppendMs: old + DAY, ...object(3) }));
    await cluster.segment(p, record(0, 0, 9, { lastAppendMs: old, ...object(0) }));
    await cluster.until("first removed", () => phases(r).join() === "1 LOCAL_DELETED,2 OPEN");
    expect(await cluster.objects.head("shared")).toBeDefined();
    await cluster.segment(p, record(1, 10, 19, { lastAppendMs: old, ...object(3) }));
    await cluster.until("second removed", () => phases(r).join() === "2 OPEN");
    expect(await cluster.objects.head("shared")).toBeUndefined();
  });
});

describe("orphan objects", () => {
  const name = (r: Rig, k: number) => {
    const clusterId = r.cluster.view.cluster?.clusterId as string;
    return segmentObjectKey({ clusterId, partition: r.p, base: 0, segment: { epoch: epoch(1), k }, attempt: OBJECT });
  };
  test("what no key names is removed, what one names stays, a stuck upload is given up first", async () => {
    await using r = await rig({ limits: { orphanAgeMs: -1, orphanSweepMs: 30 } });
    const { cluster, p } = r;
    await cluster.state(p, tailOf(9, 90));
    await cluster.segment(p, record(1, 0, 9, { phase: "OFFLOADED", object: { key: name(r, 1), at: 0, length: 1, format: 1 } }));
    await cluster.segment(p, record(2, 0, 9, { phase: "UPLOADING", attempt: OBJECT }));
    const mark = `clusters/${cluster.view.cluster?.clusterId}/segments/marker`;
    for (const key of [name(r, 1), name(r, 2), name(r, 3), mark]) await cluster.objects.put(key, [new Uint8Array(1)]);
    await cluster.until("orphans gone", async () => !(await cluster.objects.head(name(r, 2))) && !(await cluster.objects.head(name(r, 3))));
    expect(await cluster.objects.head(name(r, 1))).toBeDefined();
    expect(await cluster.objects.head(mark)).toBeDefined();
    const { entry } = await cluster.store.get(cluster.keys.segment(p, 0, { epoch: epoch(1), k: 2 }));
    expect(segmentCodec.decode(entry?.value as Uint8Array)).toMatchObject({ phase: "SEALED" });
  });
  test("young objects stay, and a run that wants too much deletes nothing", async () => {
    await using r = await rig({ limits: { orphanAgeMs: DAY, orphanSweepMs: 20 } });
    await r.cluster.objects.put(name(r, 1), [new Uint8Array(1)]);
    await using s = await rig({ limits: { orphanAgeMs: -1, orphanSweepMs: 100 } });
    for (let k = 0; k < 30; k += 1) await s.cluster.objects.put(name(s, k), [new Uint8Array(1)]);
    await s.cluster.until("refused", () => s.c.log.find("orphan sweep refused: too large a share"));
    expect(await s.cluster.objects.head(name(s, 0))).toBeDefined();
    expect(await r.cluster.objects.head(name(r, 1))).toBeDefined();
  });
});

test("the metadata history is compacted, one interval behind", async () => {
  await using r = await rig({ limits: { compactMs: 30 } });
  await r.cluster.until("compacted", async () => ((await r.c.metrics.value("sluice_controller_compactions_total")) ?? 0) > 1);
  const stop = new AbortController();
  const read = async () => {
    for await (const batch of r.cluster.store.watch(r.cluster.keys.root, 1, stop.signal)) return batch;
    return undefined;
  };
  await expect(read()).rejects.toMatchObject({ code: "COMPACTED" });
});
