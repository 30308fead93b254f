import { describe, expect, jest, test } from "@jest/globals";
import { SeededRandom } from "@sluice/runtime/testing";
import { connect, type ClientEvent, type ConsumedRecord, type GroupConsumer, type Sluice, type SubscribeOptions } from "../src/index.ts";
import { failure, numbers, take, until, world, type World } from "./support.ts";

// A busy machine takes its time; none of it is waited for on purpose.
jest.setTimeout(60_000);

async function fill(w: World, count: number, from = 0): Promise<void> {
  await using producer = w.sluice.producer({ topic: "t", batchBytes: 1024 });
  const partitions = w.cluster.topic("t").length;
  await producer.sendMany(numbers(count, from).map((value, i) => ({ partition: i % partitions, value: value.padEnd(100) })));
}
const soon = (condition: () => boolean): Promise<void> => until(condition, 25_000);
const valueOf = (r: ConsumedRecord): number => Number(r.valueText());
const key = (p: { topic: string; partition: number }): string => `${p.topic}/${p.partition}`;
const subscribe = (sluice: Sluice, more: Partial<SubscribeOptions> = {}): GroupConsumer =>
  sluice.subscribe({ group: "g", topics: ["t"], ...more });
const committed = (w: World, partition: number): number | undefined => w.cluster.commits.get(`g/t/${partition}`)?.offset;
/** Another client, with an identity of its own. */
const another = (w: World, seed: number): Promise<Sluice> =>
  connect({ endpoints: w.proxies.map((p) => p.address), random: new SeededRandom(seed) });

describe("a member of a group", () => {
  test("reads everything once, commits at its end, and the next goes on there", async () => {
    await using w = await world({ partitions: 3 });
    await fill(w, 30);
    {
      await using member = subscribe(w.sluice);
      await member.ready();
      expect(member.assignment().map(key)).toEqual(["t/0", "t/1", "t/2"]);
      expect(member.memberEpoch).toBe(1);
      const got = await take(member, 12);
      expect(new Set(got.map(valueOf)).size).toBe(12);
      // The twelfth is in work: it is not committed unless the application says so.
      await member.commit();
    }
    expect([0, 1, 2].reduce((n, p) => n + (committed(w, p) ?? 0), 0)).toBe(12);
    expect(w.cluster.groups.members("g").size).toBe(0);
    await using next = subscribe(w.sluice, { autoCommit: { intervalMs: 10 } });
    const rest = await take(next, 18);
    expect(rest.every((r) => r.offset >= 0)).toBe(true);
    expect(next.positions().map((p) => p.offset)).toEqual([10, 10, 10]);
    await soon(() => [0, 1, 2].reduce((n, p) => n + (committed(w, p) ?? 0), 0) >= 29);
  });

  test("shares the partitions with others: gives back what it has finished, and nobody reads a record twice", async () => {
    await using w = await world({ partitions: 4 });
    await using second = await another(w, 2);
    await fill(w, 400);
    const seen: number[] = [];
    const told: string[] = [];
    const a = subscribe(w.sluice, {
      onAssigned: (ps) => void told.push(`+${ps.map((p) => p.partition).join("")}`),
      onRevoked: (ps, { lost }) => void told.push(`-${ps.map((p) => p.partition).join("")}${lost ? " lost" : ""}`),
    });
    const read = async (member: GroupConsumer): Promise<void> => {
      for await (const record of member) seen.push(valueOf(record));
    };
    const first = read(a);
    await soon(() => seen.length >= 40);
    const b = subscribe(second);
    const other = read(b);
    await soon(() => b.assignment().length === 2);
    await fill(w, 400, 400);
    await soon(() => seen.length >= 800);
    expect(seen.toSorted((x, y) => x - y)).toEqual(numbers(800).map(Number));
    expect(told).toEqual(["+0123", "-23"]);
    await b.close();
    await soon(() => a.assignment().length === 4);
    await fill(w, 40, 800);
    await soon(() => seen.length >= 840);
    await a.close();
    await Promise.all([first, other]);
    expect(seen).toHaveLength(840);
    expect([0, 1, 2, 3].map((p) => committed(w, p))).toEqual([210, 210, 210, 210]);
  });

  test("holds partitions that it gives back until the record in work is finished", async () => {
    await using w = await world({ partitions: 2 });
    await using second = await another(w, 2);
    await fill(w, 20);
    const member = subscribe(w.sluice);
    const records = member[Symbol.asyncIterator]();
    let last: ConsumedRecord;
    do last = (await records.next()).value as ConsumedRecord;
    while (last.partition !== 1);
    const other = subscribe(second);
    await other.ready();
    await soon(() => !member.assignment().some((p) => p.partition === 1));
    // In work: nothing is committed, and the other has nothing.
    const beats = w.cluster.groups.beats.length;
    await soon(() => w.cluster.groups.beats.length > beats + 6);
    expect([committed(w, 1), other.assignment()]).toEqual([undefined, []]);
    const next = records.next();
    await soon(() => other.assignment().length === 1);
    expect(committed(w, 1)).toBe(last.offset + 1);
    await fill(w, 20, 20);
    expect(((await next).value as ConsumedRecord).partition).toBe(0);
    const [record] = await take(other, 1);
    expect([record?.partition, record?.offset]).toEqual([1, last.offset + 1]);
    await Promise.all([member.close(), other.close()]);
  });

  test("that is told it is out begins again where the group was", async () => {
    const events: ClientEvent[] = [];
    await using w = await world({ partitions: 1, connect: { onEvent: (e) => void events.push(e) } });
    await fill(w, 20);
    const told: string[] = [];
    await using member = subscribe(w.sluice, {
      autoCommit: false,
      onRevoked: (ps, { lost, signal }) => void told.push(`${ps.length} ${lost} ${signal.aborted}`),
    });
    const got = (await take(member, 5)).map(valueOf);
    await member.commit();
    got.push(...(await take(member, 5)).map(valueOf));
    w.cluster.groups.expel("g", member.memberId);
    await soon(() => told.length === 1 && member.assignment().length === 1);
    expect(told).toEqual(["1 true true"]);
    expect(events.some((e) => e.type === "group_lost")).toBe(true);
    got.push(...(await take(member, 15)).map(valueOf));
    // What was not committed comes again, what was does not.
    expect(got).toEqual([...numbers(10), ...numbers(15, 5)].map(Number));
  });

  test("goes on through answers that are lost and coordinators that move", async () => {
    await using w = await world({ partitions: 2 });
    w.cluster.groups.refusals.push("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "OUTCOME_UNKNOWN");
    await using member = subscribe(w.sluice);
    await member.ready();
    const before = w.cluster.groups.beats.length;
    w.cluster.groups.refusals.push("OUTCOME_UNKNOWN", "TIMED_OUT", "NOT_COORDINATOR");
    await soon(() => w.cluster.groups.beats.length > before + 6);
    expect(member.assignment()).toHaveLength(2);
    expect(member.memberEpoch).toBe(1);
  });

  test("commits in the epoch of the moment, and not what is another's", async () => {
    await using w = await world({ partitions: 2 });
    await fill(w, 4);
    await using member = subscribe(w.sluice, { autoCommit: false });
    await take(member, 4);
    await member.commit([{ topic: "t", partition: 0, offset: 1, metadata: "half" }]);
    expect(w.cluster.commits.get("g/t/0")).toEqual({ offset: 1, metadata: "half" });
    // The group goes on to another epoch at the same time.
    w.cluster.create("later", 1);
    await member.commit();
    expect([0, 1].map((p) => committed(w, p))).toEqual([2, 2]);
    w.cluster.groups.expel("g", member.memberId);
    expect(await failure(member.commit([{ topic: "t", partition: 0, offset: 0 }]))).toBe("UNKNOWN_MEMBER");
    expect(committed(w, 0)).toBe(2);
  });

  test("closes in a bounded time when its servers are gone, also behind a commit that is not answered, and says that the last one failed", async () => {
    const events: ClientEvent[] = [];
    await using w = await world({ partitions: 1, connect: { onEvent: (e) => void events.push(e) } });
    await fill(w, 5);
    const member = subscribe(w.sluice, { autoCommit: { intervalMs: 50 } });
    const records = member[Symbol.asyncIterator]();
    for (let i = 0; i < 5; i++) await records.next();
    await w.proxies[0]!.server.stop();
    const pending = records.next();
    await new Promise((resolve) => setTimeout(resolve, 200));
    const startMs = performance.now();
    await member.close();
    expect((await pending).done).toBe(true);
    // 2 s for the commit, 2 s for the goodbye.
    expect(performance.now() - startMs).toBeLessThan(8_000);
    expect(events.filter((e) => e.type === "commit_failed" && e.last)).toMatchObject([{ group: "g" }]);
  });

  test("follows a pattern to topics that are made later", async () => {
    await using w = await world();
    await using member = w.sluice.subscribe({ group: "p", topicPattern: "t.*" });
    await member.ready();
    expect(member.assignment().map(key)).toEqual(["t/0"]);
    w.cluster.create("tea", 2);
    await soon(() => member.assignment().length === 3);
    await using producer = w.sluice.producer({ topic: "tea" });
    await producer.send({ partition: 1, value: "green" });
    const [record] = await take(member, 1);
    expect([record?.topic, record?.valueText()]).toEqual(["tea", "green"]);
  });

  test("reads batches, seeks, starts at the end when it is told to", async () => {
    await using w = await world({ partitions: 1 });
    await fill(w, 50);
    await using member = subscribe(w.sluice, { from: "latest", autoCommit: false });
    await member.ready();
    expect(member.positions()).toEqual([{ topic: "t", partition: 0, offset: 50 }]);
    await member.seek("t", 0, { offset: 20 });
    let count = 0;
    for await (const batch of member.batches()) {
      expect(batch.records[0]?.offset).toBe(20 + count);
      count += batch.records.length;
      if (count === 30) break;
    }
    await member.seek("t", 0, "earliest");
    expect((await take(member, 1)).map(valueOf)).toEqual([0]);
    expect(await failure(member.seek("t", 7, "earliest"))).toBe("UNKNOWN_PARTITION");
  });

  test("ends with its signal, with its client, and with what no retry helps", async () => {
    await using w = await world();
    const stop = new AbortController();
    const aborted = subscribe(w.sluice, { signal: stop.signal });
    await aborted.ready();
    const waits = failure(aborted[Symbol.asyncIterator]().next());
    stop.abort();
    expect(await waits).toBe("CANCELLED");
    await soon(() => w.cluster.groups.members("g").size === 0);

    w.cluster.groups.refusals.push("GROUP_LIMIT");
    const refused = subscribe(w.sluice);
    expect(await failure(refused.ready())).toBe("GROUP_LIMIT");
    expect(await failure(refused[Symbol.asyncIterator]().next())).toBe("GROUP_LIMIT");

    const last = subscribe(w.sluice);
    await last.ready();
    const over = last[Symbol.asyncIterator]().next();
    await w.sluice.close();
    expect(await over).toEqual({ done: true, value: undefined });
    expect(w.cluster.groups.members("g").size).toBe(0);
    expect(() => subscribe(w.sluice)).toThrow(expect.objectContaining({ code: "SHUTTING_DOWN" }));
  });

  test("static, that comes back under its name, gets its partitions again", async () => {
    await using w = await world({ partitions: 2 });
    await using second = await another(w, 2);
    const one = subscribe(w.sluice, { instanceId: "one" });
    await using two = subscribe(second, { instanceId: "two" });
    await soon(() => one.assignment().length === 1 && two.assignment().length === 1);
    const had = one.assignment().map(key);
    await one.close();
    expect(w.cluster.groups.members("g").size).toBe(2);
    await using again = subscribe(w.sluice, { instanceId: "one" });
    await again.ready();
    expect(again.assignment().map(key)).toEqual(had);
    expect(two.memberEpoch).toBe(2);
  });

  test("says what is wrong with what it is asked for", async () => {
    await using w = await world();
    const bad = (options: SubscribeOptions): unknown => {
      try {
        return w.sluice.subscribe(options);
      } catch (error) {
        return (error as { code: string }).code;
      }
    };
    expect(bad({ group: "", topics: ["t"] })).toBe("INVALID_GROUP");
    expect(bad({ group: "g" })).toBe("INVALID_ARGUMENT");
    expect(bad({ group: "g", topics: ["t"], autoCommit: { intervalMs: 0 } })).toBe("INVALID_ARGUMENT");
  });
});

describe("groups", () => {
  test("are listed, described and deleted", async () => {
    await using w = await world();
    expect((await w.sluice.groups.list()).map((g) => `${g.group} ${g.kind}`)).toEqual(["a classic", "b consumer", "c classic"]);
    expect(await failure(w.sluice.groups.describe("g"))).toBe("GROUP_NOT_FOUND");
    await using member = subscribe(w.sluice);
    await member.ready();
    const { members, ...found } = await w.sluice.groups.describe("g");
    expect(found).toMatchObject({ group: "g", kind: "consumer", state: "Stable", protocol: "uniform" });
    expect(members).toMatchObject([{ memberId: member.memberId, topics: ["t"], assigned: [{ topic: "t", partition: 0 }] }]);
    expect(await failure(w.sluice.groups.delete("g"))).toBe("NON_EMPTY_GROUP");
    await w.sluice.groups.delete("others");
    await w.sluice.groups.commit("others", [{ topic: "t", partition: 0, offset: 0 }]);
    await w.sluice.groups.deleteOffsets("others", [{ topic: "t", partitions: [0] }]);
    expect(await failure(w.sluice.groups.deleteOffsets("others", [{ topic: "t", partitions: [0] }]))).toBe("GROUP_SUBSCRIBED_TO_TOPIC");
  });
});
