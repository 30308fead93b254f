import { describe, expect, test } from "@jest/globals";
import { systemClock } from "@sluice/runtime";
import { SeededRandom } from "@sluice/runtime/testing";
import { holds } from "../src/shard-log.ts";
import type { Fate } from "./support/fake-log.ts";
import { until, World, type Host } from "./support/world.ts";

const code = (name: string) => expect.objectContaining({ code: name }) as unknown as Error;

describe("a shard", () => {
  test("stores commits behind its owner record and reads them back", async () => {
    await using world = new World();
    const a = await world.take("a");
    await world.commit(a, 5);
    await world.commit(a, 7, { partition: 1 });
    expect(world.partition.lines).toEqual(["0 owner a@1", "1 readers orders/0=5", "2 readers orders/1=7"]);
    expect(await world.fetch(a)).toEqual({ "orders/0": 5, "orders/1": 7 });
    expect(await world.fetch(a, "others")).toEqual({});
    expect(a.lines.events().filter((e) => e.startsWith("shard"))).toEqual([
      "shard taking",
      "shard fencing",
      "shard replaying",
      "shard active",
    ]);
  });

  test("answers nothing before the append is stored, and joins what waits meanwhile in one append", async () => {
    await using world = new World();
    const a = await world.take("a");
    a.log.fates.push("held");
    let answered = 0;
    const done = (p: Promise<unknown>): Promise<unknown> => p.then(() => (answered += 1));
    const first = done(world.commit(a, 1));
    await until("the append waits", () => a.log.held);
    const rest = Promise.all([2, 3, 4].map((n) => done(world.commit(a, n))));
    const read = world.fetch(a);
    await systemClock.sleep(10);
    expect(answered).toBe(0);
    const before = a.log.appends;
    a.log.release();
    await Promise.all([first, rest]);
    expect(await read).toEqual({ "orders/0": 4 });
    expect(a.log.appends).toBe(before + 1);
  });

  test("is replayed by the next coordinator after a kill", async () => {
    await using world = new World();
    const a = await world.take("a");
    for (let n = 1; n <= 10; n += 1) await world.commit(a, n, { partition: n % 4 });
    a.shard.stop();
    const b = await world.take("b");
    expect(await world.fetch(b)).toEqual({ "orders/0": 8, "orders/1": 9, "orders/2": 10, "orders/3": 7 });
    expect((await world.register())?.epoch).toBe(2);
  });

  test("takes requests while it loads and answers them when it serves", async () => {
    await using world = new World();
    const a = world.open("a", (log) => log.fates.push("held"));
    const commit = world.commit(a, 3);
    const read = world.fetch(a);
    await until("the fence waits", () => a.log.held);
    expect(a.shard.phase).toBe("fencing");
    a.log.release();
    await commit;
    expect(Object.keys(await read).length).toBeLessThanOrEqual(1);
    expect(await world.fetch(a)).toEqual({ "orders/0": 3 });
  });
});

describe("an append with an unknown outcome", () => {
  test.each<[Fate]>([["applied"], ["lost"], ["late"], ["refused"]])("that was %s is stored once and answered", async (fate) => {
    await using world = new World();
    const a = await world.take("a");
    await world.commit(a, 1);
    a.log.fates.push(fate);
    await world.commit(a, 2);
    await world.commit(a, 3);
    expect(world.partition.lines).toEqual(["0 owner a@1", "1 readers orders/0=1", "2 readers orders/0=2", "3 readers orders/0=3"]);
    expect(await world.fetch(a)).toEqual({ "orders/0": 3 });
  });

  test("that nobody can settle in time is told as unknown; one that was never taken is not", async () => {
    await using world = new World();
    const a = await world.take("a");
    a.log.fates.push("lost");
    a.log.unreadable = true;
    await expect(world.commit(a, 2, { withinMs: 60 })).rejects.toThrow(code("OUTCOME_UNKNOWN"));
    // The shard still settles the first: this one waits behind it.
    await expect(world.commit(a, 3, { withinMs: 60 })).rejects.toThrow(code("COORDINATOR_NOT_AVAILABLE"));
    await expect(world.fetch(a, "readers", 60)).rejects.toThrow(code("COORDINATOR_NOT_AVAILABLE"));
    a.log.unreadable = false;
    await world.commit(a, 4);
    expect(world.partition.lines.slice(1)).toEqual(["1 readers orders/0=4"]);
  });

  test("that held several and lands late is found whole", async () => {
    await using world = new World();
    const a = await world.take("a");
    a.log.fates.push("held");
    const first = world.commit(a, 1);
    await until("the append waits", () => a.log.held);
    const short = world.commit(a, 2, { group: "first" });
    const long = world.commit(a, 3, { group: "second" });
    a.log.fates.push("late", "refused");
    a.log.release();
    await Promise.all([first, short, long]);
    // The late attempt held both; what came after found them there and stored nothing twice.
    expect(world.partition.lines.slice(2)).toEqual(["2 first orders/0=2", "3 second orders/0=3"]);
  });

  test("is found wherever an earlier attempt had put it", () => {
    const record = (n: number) => ({ key: Uint8Array.of(1, n), value: Uint8Array.of(n) });
    const log = [1, 2, 3, 2, 4].map((n, offset) => ({ offset, ...record(n) }));
    expect(holds(log, [record(2), record(4)])).toBe(true);
    expect(holds(log, [record(1)])).toBe(true);
    expect(holds(log, [record(3), record(4)])).toBe(false);
    expect(holds(log, [record(4), record(1)])).toBe(false);
    expect(holds(log, [{ key: Uint8Array.of(1, 1), value: null }])).toBe(false);
  });

  test("of the fence leaves two owner records at most, and one owner", async () => {
    await using world = new World();
    const a = await world.take("a", (log) => log.fates.push("applied", "lost"));
    await world.commit(a, 1);
    expect(world.partition.lines).toEqual(["0 owner a@1", "1 owner a@1", "2 readers orders/0=1"]);
  });
});

describe("a coordinator that was paused", () => {
  for (const forgets of [false, true]) {
    test(`changes nothing with its late append${forgets ? ", even when the broker forgot the tokens" : ""}`, async () => {
      await using world = new World();
      const a = await world.take("a");
      await world.commit(a, 1);
      a.log.fates.push("held");
      const late = world.commit(a, 2);
      late.catch(() => undefined);
      await until("the append of a waits", () => a.log.held);
      const b = await world.take("b");
      await world.commit(b, 9);
      const before = world.partition.lines;
      if (forgets) world.partition.moveToAnotherBroker();
      a.log.release();
      await expect(late).rejects.toThrow(code("NOT_COORDINATOR"));
      await a.shard.ended;
      expect(a.lines.find("shard lost")?.fields["reason"]).toBe(forgets ? "log" : "fenced");
      expect(world.partition.lines).toEqual(before);
      expect(await world.fetch(b)).toEqual({ "orders/0": 9 });
      await expect(world.commit(a, 3)).rejects.toThrow(code("NOT_COORDINATOR"));
    });
  }

  test("does not answer reads from its old state", async () => {
    await using world = new World();
    const a = await world.take("a");
    await world.commit(a, 1);
    const b = await world.take("b");
    await world.commit(b, 2);
    await expect(world.fetch(a)).rejects.toThrow(code("NOT_COORDINATOR"));
  });

  test("and whose append got in before the fence is heard by the next", async () => {
    await using world = new World();
    const a = await world.take("a");
    a.log.fates.push("applied");
    a.log.unreadable = true;
    const commit = world.commit(a, 4);
    commit.catch(() => undefined);
    await until("it is stored", () => world.partition.records.length === 2);
    const b = await world.take("b");
    expect(await world.fetch(b)).toEqual({ "orders/0": 4 });
    a.log.unreadable = false;
    // It is in the log, before the newer owner: a has lost the shard, and its answer is true all the same.
    await commit;
    await a.shard.ended;
    expect(a.lines.find("shard lost")?.fields["reason"]).toBe("log");
  });

  test("while it took the shard disturbs the newer owner for a moment only", async () => {
    await using world = new World();
    const a = world.open("a", (log) => log.fates.push("held"));
    await until("the fence of a waits", () => a.log.held);
    const b = await world.take("b");
    await world.commit(b, 1);
    world.partition.moveToAnotherBroker();
    a.log.release();
    await a.shard.ended;
    await world.commit(b, 2);
    expect(world.partition.lines).toEqual(["0 owner b@2", "1 readers orders/0=1", "2 owner a@1", "3 readers orders/0=2"]);
    expect(b.shard.phase).toBe("active");
  });

  test("steps down at once when the register shows a newer owner", async () => {
    await using world = new World();
    const a = await world.take("a");
    a.log.fates.push("held");
    const open = world.commit(a, 2);
    open.catch(() => undefined);
    await until("the append of a waits", () => a.log.held);
    const queued = world.commit(a, 3);
    queued.catch(() => undefined);
    await world.take("b");
    a.shard.registerChanged({ ...((await world.register()) as NonNullable<Awaited<ReturnType<World["register"]>>>) });
    await expect(open).rejects.toThrow(code("OUTCOME_UNKNOWN"));
    await expect(queued).rejects.toThrow(code("NOT_COORDINATOR"));
    expect(a.shard.phase).toBe("lost");
  });
});

describe("limits", () => {
  test("a full queue refuses with a time to wait", async () => {
    await using world = new World();
    const a = await world.take("a");
    a.log.fates.push("held");
    const metadata = new Uint8Array(4_096);
    const big = Array.from({ length: 100 }, (_, partition) => ({ topicId: "t", partition, offset: 1, leaderEpoch: -1, metadata }));
    const request = { kind: "commit", tenant: "default", group: "g", offsets: big } as const;
    const soon = (): number => systemClock.monotonicMs() + 5_000;
    const all = Array.from({ length: 60 }, () => a.shard.submit(request, soon()).catch((error: unknown) => error));
    await until("the append waits", () => a.log.held);
    a.log.release();
    const answers = await Promise.all(all);
    const refused = answers.filter((x) => (x as { code?: string }).code === "OVERLOADED") as { throttleMs: number }[];
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.length).toBeLessThan(60);
    expect(refused[0]?.throttleMs).toBeGreaterThan(0);
  });
});

/** Coordinators with faults in turns, one client that commits rising offsets and goes on after every error. */
async function story(seed: number): Promise<void> {
  await using world = new World();
  const random = new SeededRandom(seed);
  const hosts: Host[] = [await world.take("c0")];
  const fates: Fate[] = ["lost", "applied", "late", "refused"];
  let acknowledged = 0;
  for (let n = 1; n <= 40; n += 1) {
    if (random.int(8) === 0) hosts.push(await world.take(`c${hosts.length}`));
    if (random.int(4) === 0) world.partition.moveToAnotherBroker();
    // Now and then an old coordinator is asked: it must refuse, or at least never overwrite.
    const host = (random.int(5) === 0 ? hosts[random.int(hosts.length)] : hosts.at(-1)) as Host;
    for (let i = random.int(3); i > 0; i -= 1) host.log.fates.push(fates[random.int(fates.length)] as Fate);
    try {
      await world.commit(host, n);
      acknowledged = n;
    } catch (error) {
      expect(["NOT_COORDINATOR", "OUTCOME_UNKNOWN", "COORDINATOR_NOT_AVAILABLE"]).toContain((error as { code: string }).code);
    }
    const seen = (await world.fetch(hosts.at(-1) as Host))["orders/0"] ?? 0;
    expect(seen).toBeGreaterThanOrEqual(acknowledged);
    expect(seen).toBeLessThanOrEqual(n);
  }
  const last = await world.take("last");
  const end = (await world.fetch(last))["orders/0"] ?? 0;
  expect(end).toBeGreaterThanOrEqual(acknowledged);
}
describe("whatever happens", () => {
  for (const seed of [1, 2, 3, 4]) {
    test(`no acknowledged commit is lost or taken back (seed ${seed})`, () => story(seed), 20_000);
  }
});
