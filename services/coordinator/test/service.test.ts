import { describe, expect, test } from "@jest/globals";
import { shardOfGroup, shardOwner } from "@sluice/core/group";
import { errorNumber } from "@sluice/core/model";
import { ORDERS, SHARDS, TestCluster, type Running } from "./support/cluster.ts";
import { until } from "./support/world.ts";

const call = { timeoutMs: 5_000 };
const all = Array.from({ length: SHARDS }, (_, n) => n);
const wonBy = (id: string, ...members: string[]): number[] => all.filter((n) => shardOwner(members, n) === id);
/** A group of that shard. */
function groupOf(shard: number): string {
  for (let i = 0; ; i += 1) if (shardOfGroup(`group-${i}`, SHARDS) === shard) return `group-${i}`;
}
async function started(): Promise<TestCluster> {
  const cluster = new TestCluster();
  await cluster.start();
  for (let n = 0; n < 4; n += 1) cluster.highWatermarks.set(`${ORDERS}/${n}`, 100);
  return cluster;
}
async function alone(cluster: TestCluster, id = "coordinator-1"): Promise<Running> {
  const running = await cluster.coordinator(id);
  await until("all shards are served", () => cluster.serves(running, all));
  return running;
}
const offset = (partition: number, at: number, metadata = "") => ({ topic: "orders", partition, offset: BigInt(at), metadata });
async function committed(running: Running, group: string): Promise<Record<string, number>> {
  const { offsets } = await running.client.fetch({ group }, call);
  return Object.fromEntries(offsets.map((o) => [`${o.topic}/${o.partition}`, Number(o.offset)]));
}

describe("commit and fetch", () => {
  test("what was committed comes back, with metadata and time", async () => {
    await using cluster = await started();
    const { client, metrics, health } = await alone(cluster);
    const { results } = await client.commit({ group: "readers", offsets: [offset(0, 5, "half-way: 50 \u20ac"), offset(3, 100)] }, call);
    expect(results.map((r) => [r.topic, r.partition, r.error])).toEqual([
      ["orders", 0, 0],
      ["orders", 3, 0],
    ]);
    const { offsets } = await client.fetch({ group: "readers" }, call);
    expect(offsets.map((o) => [o.topic, o.partition, Number(o.offset), o.metadata])).toEqual([
      ["orders", 0, 5, "half-way: 50 \u20ac"],
      ["orders", 3, 100, ""],
    ]);
    expect(Number(offsets[0]?.committedAtMs)).toBeGreaterThan(Date.now() - 60_000);
    const some = await client.fetch({ group: "readers", topics: [{ topic: "orders", partitions: [3] }, { topic: "nowhere" }] }, call);
    expect(some.offsets.map((o) => o.partition)).toEqual([3]);
    expect((await client.fetch({ group: "strangers" }, call)).offsets).toEqual([]);
    expect(await metrics.value("sluice_coordinator_shards_active_count")).toBe(SHARDS);
    expect(await metrics.value("sluice_coordinator_offsets_count")).toBe(2);
    expect((await health.report("ready")).ok).toBe(true);
  });

  test("each offset that may not be committed has its own error", async () => {
    await using cluster = await started();
    const { client } = await alone(cluster);
    const offsets = [
      offset(0, -2),
      offset(1, 101),
      offset(1, 100),
      offset(4, 1),
      offset(-1, 1),
      { ...offset(0, 1), topic: "nowhere" },
      offset(2, 1, "x".repeat(4_097)),
    ];
    const { results } = await client.commit({ group: "readers", offsets }, call);
    const codes = [
      "OFFSET_OUT_OF_RANGE",
      "OFFSET_OUT_OF_RANGE",
      undefined,
      "UNKNOWN_PARTITION",
      "UNKNOWN_PARTITION",
      "UNKNOWN_TOPIC",
    ] as const;
    expect(results.map((r) => r.error)).toEqual(
      [...codes, "OFFSET_METADATA_TOO_LARGE" as const].map((c) => (c === undefined ? 0 : errorNumber(c))),
    );
    const { offsets: found } = await client.fetch({ group: "readers" }, call);
    expect(found.map((o) => [o.partition, Number(o.offset)])).toEqual([[1, 100]]);
  });

  test("who asks for it may commit beyond the end of a partition, as Kafka's clients may", async () => {
    await using cluster = await started();
    const { client } = await alone(cluster);
    const { results } = await client.commit({ group: "readers", offsets: [offset(0, 101), offset(1, -2)], beyondEnd: true }, call);
    expect(results.map((r) => r.error)).toEqual([0, errorNumber("OFFSET_OUT_OF_RANGE")]);
    expect(cluster.asked).toBe(0);
    const { offsets: found } = await client.fetch({ group: "readers" }, call);
    expect(found.map((o) => [o.partition, Number(o.offset)])).toEqual([[0, 101]]);
  });

  test("a commit of -1 forgets what was committed, also when nothing was", async () => {
    await using cluster = await started();
    const { client } = await alone(cluster);
    await client.commit({ group: "readers", offsets: [offset(0, 5), offset(1, 6)] }, call);
    const { results } = await client.commit({ group: "readers", offsets: [offset(0, -1), offset(3, -1), offset(1, 7)] }, call);
    expect(results.map((r) => r.error)).toEqual([0, 0, 0]);
    const { offsets } = await client.fetch({ group: "readers" }, call);
    expect(offsets.map((o) => [o.partition, Number(o.offset)])).toEqual([[1, 7]]);
  });

  test("a partition's end is asked only for what lies above the known one", async () => {
    await using cluster = await started();
    const { client } = await alone(cluster);
    for (const at of [10, 20, 100, 30]) await client.commit({ group: "readers", offsets: [offset(0, at)] }, call);
    expect(cluster.asked).toBe(1);
    cluster.highWatermarks.set(`${ORDERS}/0`, 150);
    expect((await client.commit({ group: "readers", offsets: [offset(0, 150)] }, call)).results[0]?.error).toBe(0);
    expect(cluster.asked).toBe(2);
  });

  test("a topic that is made again under its name starts without offsets", async () => {
    await using cluster = await started();
    const one = await alone(cluster);
    await one.client.commit({ group: "readers", offsets: [offset(0, 7)] }, call);
    await cluster.topic("orders", "44444444-4444-4444-8444-444444444444", 4);
    await until("the new topic shows", async () => Object.keys(await committed(one, "readers")).length === 0);
  });

  test("the topic that the caller means is found though the view still has the one before it, and nobody else's offsets are", async () => {
    await using cluster = await started();
    const { client } = await alone(cluster);
    const [old, made] = [ORDERS, "44444444-4444-4444-8444-444444444444"];
    const commit = async (topicId: string): Promise<number | undefined> =>
      (await client.commit({ group: "readers", offsets: [{ ...offset(0, 7), topicId }] }, call)).results[0]?.error;
    const fetched = async (topicId: string): Promise<number> =>
      (await client.fetch({ group: "readers", topics: [{ topic: "orders", topicId }] }, call)).offsets.length;
    expect(await commit(old)).toBe(0);
    expect([await fetched(old), await fetched(made)]).toEqual([1, 0]);
    expect(await commit(made)).toBe(errorNumber("UNKNOWN_TOPIC"));
    cluster.highWatermarks.set(`${made}/0`, 100);
    await cluster.topic("orders", made, 4);
    expect(await fetched(made)).toBe(0);
    expect(await commit(made)).toBe(0);
    await until("the old one is nobody's", async () => (await fetched(old)) === 0);
    expect(await commit(old)).toBe(errorNumber("UNKNOWN_TOPIC"));
  });

  test("offsets of a topic that is gone are removed, those of others stay", async () => {
    await using cluster = await started();
    const one = await alone(cluster);
    await cluster.topic("bills", "55555555-5555-4555-8555-555555555555", 1);
    cluster.highWatermarks.set("55555555-5555-4555-8555-555555555555/0", 9);
    await one.client.commit({ group: "readers", offsets: [offset(0, 7), { ...offset(0, 9), topic: "bills" }] }, call);
    await cluster.store.txn({ compare: [], then: [{ kind: "delete", key: cluster.keys.topic("default", "bills") }] });
    await until("one offset is left", async () => (await one.metrics.value("sluice_coordinator_offsets_count")) === 1);
    expect(await committed(one, "readers")).toEqual({ "orders/0": 7 });
    const log = cluster.partitions.flatMap((p) => p.lines);
    expect(log.filter((line) => line.includes("readers"))).toEqual([
      expect.stringContaining("/0=7"),
      expect.stringContaining("/0=9"),
      expect.stringContaining("/0=undefined"),
    ]);
  });

  test("bad names and requests are refused", async () => {
    await using cluster = await started();
    const { client } = await alone(cluster);
    await expect(client.commit({ group: "" }, call)).rejects.toMatchObject({ code: "INVALID_GROUP" });
    await expect(client.fetch({ group: "no\ttabs" }, call)).rejects.toMatchObject({ code: "INVALID_GROUP" });
    const offsets = Array.from({ length: 10_001 }, () => offset(0, 1));
    await expect(client.commit({ group: "g", offsets }, call)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });
});

describe("shards move", () => {
  test("to the coordinator that comes, those that it wins alone, and commits go with them", async () => {
    await using cluster = await started();
    const one = await alone(cluster);
    for (const n of all) await one.client.commit({ group: groupOf(n), offsets: [offset(0, n + 1)] }, call);
    const two = await cluster.coordinator("coordinator-2");
    const ids = ["coordinator-1", "coordinator-2"] as const;
    await until("each serves its own", () => cluster.serves(one, wonBy(ids[0], ...ids)) && cluster.serves(two, wonBy(ids[1], ...ids)));
    expect(wonBy(ids[1], ...ids).length).toBeGreaterThan(0);
    for (const n of all) {
      const [owner, other] = wonBy(ids[0], ...ids).includes(n) ? [one, two] : [two, one];
      expect(await committed(owner, groupOf(n))).toEqual({ "orders/0": n + 1 });
      await expect(committed(other, groupOf(n))).rejects.toMatchObject({ code: "NOT_COORDINATOR" });
    }
  });

  test("from one that drains, before it stops", async () => {
    await using cluster = await started();
    const one = await alone(cluster);
    await one.client.commit({ group: groupOf(1), offsets: [offset(0, 9)] }, call);
    const two = await cluster.coordinator("coordinator-2");
    await one.coordinator.drain();
    expect(one.coordinator.ownership.shards.size).toBe(0);
    await until("the other serves all", () => cluster.serves(two, all));
    expect(await committed(two, groupOf(1))).toEqual({ "orders/0": 9 });
    expect((await one.health.report("ready")).ok).toBe(false);
  });

  test("from one whose lease ended while it went on, whatever it still tries", async () => {
    await using cluster = await started();
    const one = await alone(cluster);
    await one.client.commit({ group: groupOf(2), offsets: [offset(0, 4)] }, call);
    // Its member key goes, as after a long pause; it registers again and takes back what it wins.
    const { entry } = await cluster.store.get(cluster.keys.member("coordinator", "coordinator-1" as never));
    const two = await cluster.coordinator("coordinator-2");
    cluster.store.expireLease(entry?.lease as string);
    await until("every shard has one owner again", async () => {
      const here = [one, two].flatMap((r) => [...r.coordinator.ownership.shards].filter(([, s]) => s.phase === "active").map(([n]) => n));
      return here.length === SHARDS && new Set(here).size === SHARDS;
    });
    const owner = one.coordinator.ownership.shards.has(2) ? one : two;
    await owner.client.commit({ group: groupOf(2), offsets: [offset(0, 5)] }, call);
    expect(await committed(owner, groupOf(2))).toEqual({ "orders/0": 5 });
  });

  test("to a restart of the same name", async () => {
    await using cluster = await started();
    const one = await alone(cluster);
    for (const n of all) await one.client.commit({ group: groupOf(n), offsets: [offset(n % 4, 10 + n)] }, call);
    await one.coordinator.stop();
    const again = await alone(cluster);
    for (const n of all) expect(await committed(again, groupOf(n))).toEqual({ [`orders/${n % 4}`]: 10 + n });
    expect(new Set(await cluster.owners())).toEqual(new Set(["coordinator-1"]));
  });
});
