import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { setTimeout as sleep } from "node:timers/promises";
import type { ConsumedRecord, GroupConsumer, Sluice } from "@sluice/client";
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
});

async function until(what: string, withinMs: number, check: () => boolean): Promise<void> {
  const endsAtMs = performance.now() + withinMs;
  while (!check()) {
    if (performance.now() > endsAtMs) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(20);
  }
}
