import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { setTimeout as sleep } from "node:timers/promises";
import { isSluiceError, type ConsumedRecord, type GroupConsumer, type Sluice } from "@sluice/client";
import { say } from "@sluice/test-support";
import { createTopic, TestCluster } from "./support/cluster.ts";
import { sluice } from "./support/sluice-command.ts";

const PARTITIONS = 12;
const SESSION_MS = 5_000;
const RATE_MS = 4;
/** A coordinator's death costs a group no more. */
const STALL_MS_MAX = 5_000;
/** A loaded machine measures itself as well: a stall that a repeated try does not show was not the coordinator's. */
const TRIES = 2;
const COMMITTED_PARTITIONS = 4;
const GROUPS = 16;
const RECORDS = 6_000;

interface Member {
  readonly name: string;
  readonly consumer: GroupConsumer;
  readonly client: Sluice;
  readonly done: Promise<void>;
  /** Ends without a word: no commit, no goodbye. */
  readonly die: () => Promise<void>;
}

describe("a group of consumers", () => {
  let cluster: TestCluster;
  let client: Sluice;
  beforeAll(async () => {
    cluster = await TestCluster.start({
      name: "groups",
      coordinators: 2,
      config: {
        "group.consumer.session.timeout.ms": String(SESSION_MS),
        "group.consumer.heartbeat.interval.ms": "300",
        "group.min.session.timeout.ms": "1000",
      },
    });
    client = await cluster.connect();
    await createTopic(client, "work", PARTITIONS);
  }, 120_000);
  afterAll(async () => {
    await client?.close();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  test("of three: one dies, then the coordinators one after the other, under load; nothing is lost, what was committed stays", async () => {
    await cluster.run(async () => {
      /** When each value was seen, by whom, in order. */
      const seen = new Map<string, string[]>();
      const lastHeard = new Map<string, number>();
      const commits = new Map<number, number>();
      let refused = 0;
      const member = async (name: string): Promise<Member> => {
        const abort = new AbortController();
        const own = await cluster.connect({ signal: abort.signal });
        const consumer = own.subscribe({ group: "workers", topics: ["work"], autoCommit: false });
        let alive = true;
        const run = async (): Promise<void> => {
          for await (const batch of consumer.batches()) {
            if (!alive) return;
            for (const record of batch.records) note(name, record);
            try {
              await consumer.commit([{ topic: "work", partition: batch.partition, offset: batch.nextOffset }]);
              lastHeard.set(name, performance.now());
              commits.set(batch.partition, Math.max(commits.get(batch.partition) ?? 0, batch.nextOffset));
            } catch (error) {
              // Its partitions may be another's by now: that one reads the records again.
              if (
                !["UNKNOWN_MEMBER", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH", "OUTCOME_UNKNOWN"].includes(
                  (error as { code: string }).code,
                )
              )
                throw error;
              refused++;
            }
          }
        };
        const done = run();
        const die = async (): Promise<void> => {
          alive = false;
          abort.abort();
          await done.catch(() => undefined);
        };
        return { name, consumer, client: own, done, die };
      };
      const note = (name: string, record: ConsumedRecord): void => {
        const value = record.valueText() as string;
        const by = seen.get(value);
        if (by === undefined) seen.set(value, [name]);
        else by.push(name);
      };

      let sent = 0;
      const stop = new AbortController();
      const producing = (async () => {
        await using producer = client.producer({ topic: "work" });
        const open: Promise<unknown>[] = [];
        while (!stop.signal.aborted) {
          open.push(producer.send({ partition: sent % PARTITIONS, value: String(sent) }));
          sent++;
          await sleep(RATE_MS);
        }
        await Promise.all(open);
      })();
      // Its end is told where it is awaited.
      producing.catch(() => undefined);

      const members = [await member("a"), await member("b"), await member("c")];
      const settled = (of: readonly Member[]): boolean => {
        const counts = of.map((m) => m.consumer.assignment().length);
        return counts.reduce((x, y) => x + y, 0) === PARTITIONS && Math.max(...counts) - Math.min(...counts) <= 1;
      };
      await until("three share twelve partitions", 15_000, () => settled(members));
      expect(members.map((m) => m.consumer.assignment().length)).toEqual([4, 4, 4]);

      // One leaves: the others get what it had.
      const killedAtMs = performance.now();
      const [a, b, c] = members as [Member, Member, Member];
      await c.die();
      const rest = [a, b];
      await until("two share twelve partitions", SESSION_MS + 10_000, () => settled(rest));
      say(`member gone, its partitions read again after ${Math.round(performance.now() - killedAtMs)} ms`);

      for (const victim of ["coordinator-1", "coordinator-2"]) {
        let stallMs = Infinity;
        let isKept = false;
        for (let tries = 0; tries < TRIES && (stallMs > STALL_MS_MAX || !isKept); tries++) {
          await until("the group is settled", 20_000, () => settled(rest));
          const epochs = rest.map((m) => m.consumer.memberEpoch);
          const before = performance.now();
          await cluster.handle.kill(victim);
          // Each of them must have committed again.
          await until("commits go on", 30_000, () => rest.every((m) => (lastHeard.get(m.name) ?? 0) > before + 50));
          stallMs = Math.max(...rest.map((m) => (lastHeard.get(m.name) as number) - before));
          say(`${victim} killed: commits again after ${Math.round(stallMs)} ms at most`);
          // The members did not have to begin again.
          isKept = settled(rest) && rest.every((m, i) => m.consumer.memberEpoch === epochs[i]);
          const stored = new Map((await client.groups.fetch("workers")).map((o) => [o.partition, o.offset]));
          for (const [partition, offset] of commits)
            expect(stored.get(partition)).toBeGreaterThanOrEqual(Math.min(offset, stored.get(partition) ?? -1));
          await cluster.handle.start(victim);
        }
        expect(stallMs).toBeLessThanOrEqual(STALL_MS_MAX);
        expect(isKept).toBe(true);
      }

      stop.abort();
      await producing;
      await until("everything is read", 20_000, () => seen.size === sent);
      await until("everything is committed", 10_000, () => [...commits.values()].reduce((x, y) => x + y, 0) === sent);
      const again = [...seen.values()].filter((by) => by.length > 1).length;
      say(`${sent} records, none lost, ${again} read again, ${refused} commits refused`);
      // Only what was in work when somebody died may come twice.
      expect(again).toBeLessThan(sent / 2);

      const described = await client.groups.describe("workers");
      expect(described.state).toBe("Stable");
      for (const m of rest) await m.consumer.close();
      await Promise.all(rest.map((m) => m.done));
      for (const m of rest) await m.client.close();
      const stored = await client.groups.fetch("workers");
      expect(stored.reduce((n, o) => n + o.offset, 0)).toBe(sent);
      expect((await client.groups.list()).map((g) => `${g.group} ${g.kind} ${g.state}`)).toEqual(["workers consumer Empty"]);
      await client.groups.delete("workers");
      expect(await client.groups.fetch("workers")).toEqual([]);
    });
  }, 150_000);

  test("of the command line: reads on where it was, is described, reset and deleted", async () => {
    await cluster.run(async () => {
      const endpoint = cluster.proxies[0]!;
      const ok = async (...args: string[]): Promise<string> => {
        const result = await sluice(args, { endpoint });
        expect({ args, ...result }).toMatchObject({ code: 0 });
        return result.out;
      };
      await createTopic(client, "letters", 2);
      const producer = client.producer({ topic: "letters" });
      await producer.sendMany("abcdef".split("").map((value, i) => ({ partition: i % 2, value })));
      const read = async (): Promise<string> =>
        (await ok("consume", "letters", "--group", "readers", "--exit-on-end")).split("\n").toSorted().join("");
      expect(await read()).toBe("abcdef");
      await producer.sendMany([{ partition: 0, value: "g" }]);
      await producer.close();
      expect(await read()).toBe("g");
      expect(await ok("group", "list", "--state", "Empty")).toContain("readers");
      const described = JSON.parse(await ok("group", "describe", "readers", "-o", "json")) as {
        offsets: { committed: number; lag: number }[];
      };
      expect(described.offsets.map((o) => [o.committed, o.lag])).toEqual([
        [4, 0],
        [3, 0],
      ]);
      const reset = ["group", "reset", "readers", "-o", "json"];
      const rows = async (...args: string[]): Promise<(number | null)[][]> =>
        (JSON.parse(await ok(...reset, ...args)) as { from: number; to: number }[]).map((r) => [r.from, r.to]);
      expect(await rows("--to", "earliest", "--dry-run")).toEqual([
        [4, 0],
        [3, 0],
      ]);
      expect(await rows("--to", "99", "--partition", "1")).toEqual([[3, 3]]);
      expect(await rows("--to", "@1", "--topic", "letters", "--partition", "1")).toEqual([[3, 0]]);
      expect(await read()).toBe("bdf");
      const member = client.subscribe({ group: "readers", topics: ["letters"] });
      await member.ready();
      const busy = await sluice([...reset, "--to", "earliest"], { endpoint });
      expect(busy).toMatchObject({ code: 1 });
      expect(busy.err).toContain("NON_EMPTY_GROUP");
      // A group of no offsets: what it says to type works as it is, but for the topic.
      const nothing = await sluice(["group", "reset", "nobody", "--to", "2", "--partition", "1"], { endpoint });
      expect([nothing.code, nothing.err]).toEqual([2, expect.stringContaining("group reset nobody --to 2 --topic TOPIC --partition 1")]);
      await ok(..."group reset nobody --to 2 --topic letters --partition 1".split(" "));
      await member.close();
      // What a member reads is shown before anything of it was committed, and with the topic what nobody reads yet.
      const fresh = client.subscribe({ group: "fresh", topics: ["letters"], autoCommit: false });
      await fresh.ready();
      const { offsets } = JSON.parse(await ok("group", "describe", "fresh", "-o", "json")) as {
        offsets: { committed: number | null; end: number; lag: number | null; memberId: string }[];
      };
      expect(offsets.map((o) => [o.committed, o.end, o.lag, o.memberId])).toEqual([
        [null, 4, null, fresh.memberId],
        [null, 3, null, fresh.memberId],
      ]);
      await fresh.close();
      await ok("group", "delete", "readers");
      expect((await sluice(["group", "describe", "readers"], { endpoint })).err).toContain("GROUP_NOT_FOUND");
    });
  }, 90_000);

  describe("committed offsets", () => {
    beforeAll(async () => {
      await createTopic(client, "t", COMMITTED_PARTITIONS);
      // Nobody can commit an offset that does not exist.
      const producer = client.producer({ topic: "t" });
      await producer.sendMany(
        Array.from({ length: COMMITTED_PARTITIONS * RECORDS }, (_, i) => ({ partition: i % COMMITTED_PARTITIONS, value: `${i}` })),
      );
      await producer.close();
    }, 60_000);

    const groups = Array.from({ length: GROUPS }, (_, i) => `group-${i}`);
    const partitions = Array.from({ length: COMMITTED_PARTITIONS }, (_, i) => i);
    const commitAll = (through: Sluice, group: string, offset: number) =>
      through.groups.commit(
        group,
        partitions.map((partition) => ({ topic: "t", partition, offset: offset + partition, metadata: `${group}/${offset}` })),
      );
    const offsetsOf = async (through: Sluice, group: string) => {
      const found = await through.groups.fetch(group);
      return found
        .map(({ topic, partition, offset, metadata }) => ({ topic, partition, offset, metadata }))
        .sort((a, b) => a.partition - b.partition);
    };
    const expected = (group: string, offset: number) =>
      partitions.map((partition) => ({ topic: "t", partition, offset: offset + partition, metadata: `${group}/${offset}` }));

    test("each coordinator in turn killed: the other, and the same one started again, answer the same", async () => {
      await cluster.run(async () => {
        for (const group of groups) await commitAll(client, group, 100);
        for (const victim of ["coordinator-1", "coordinator-2"]) {
          await cluster.handle.kill(victim);
          await using other = await cluster.connect({ endpoints: [cluster.proxies[1]!] });
          for (const group of groups) expect(await offsetsOf(other, group)).toEqual(expected(group, 100));
          await cluster.handle.start(victim);
        }
        for (const group of groups) expect(await offsetsOf(client, group)).toEqual(expected(group, 100));
        // Offsets of one group only, and none of a group that nobody knows.
        expect(await client.groups.fetch("of-nobody")).toEqual([]);
        expect(await client.groups.fetch(groups[0]!, [{ topic: "t", partitions: [2] }])).toHaveLength(1);
      });
    }, 120_000);

    test("all coordinators killed and started again: nothing that was answered is lost", async () => {
      await cluster.run(async () => {
        for (const group of groups) await commitAll(client, group, 200);
        await Promise.all(["coordinator-1", "coordinator-2"].map((id) => cluster.handle.kill(id)));
        await Promise.all(["coordinator-1", "coordinator-2"].map((id) => cluster.handle.start(id)));
        for (const group of groups) expect(await offsetsOf(client, group)).toEqual(expected(group, 200));
      });
    }, 120_000);

    test("commits during a kill are answered or may be tried again, and never lost after the answer", async () => {
      await cluster.run(async () => {
        const answered = new Map<string, number>();
        const tried = new Map<string, number>();
        const codes = new Set<string>();
        const stop = new AbortController();
        // Committers do not try again by themselves here: what the server says is what is tested.
        const commit = async (group: string) => {
          for (let offset = 1_000; !stop.signal.aborted && offset < RECORDS; offset++) {
            tried.set(group, offset);
            try {
              await client.groups.commit(group, [{ topic: "t", partition: 0, offset }], { timeoutMs: 3_000 });
              answered.set(group, offset);
            } catch (error) {
              if (!isSluiceError(error)) throw error;
              codes.add(error.code);
              expect({ code: error.code, retriable: error.retriable }).toMatchObject({ retriable: true });
            }
            await sleep(5);
          }
        };
        const loops = Promise.all(groups.map(commit));
        for (const victim of ["coordinator-1", "coordinator-2"]) {
          await sleep(1_000);
          await cluster.handle.kill(victim);
          await sleep(1_500);
          await cluster.handle.start(victim);
        }
        await sleep(1_000);
        stop.abort();
        await loops;
        for (const group of groups) {
          const [first] = await client.groups.fetch(group, [{ topic: "t", partitions: [0] }]);
          expect(first?.offset).toBeGreaterThanOrEqual(answered.get(group)!);
          expect(first?.offset).toBeLessThanOrEqual(tried.get(group)!);
          // It went on after the kills.
          expect(answered.get(group)).toBeGreaterThan(1_020);
        }
      });
    }, 120_000);
  });
});

async function until(what: string, withinMs: number, check: () => boolean): Promise<void> {
  const endsAtMs = performance.now() + withinMs;
  while (!check()) {
    if (performance.now() > endsAtMs) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(20);
  }
}
