import { describe, expect, test } from "@jest/globals";
import { faultyObjectStore, memoryObjectStore } from "@sluice/object-store";
import { systemClock } from "@sluice/runtime";
import { SeededRandom } from "@sluice/runtime/testing";
import { until, World } from "./support/world.ts";

const after = { records: 5, bytes: 1 << 30, pauseMs: 0 };

/** Commits until the register names a snapshot at or behind `offset`. */
async function untilSnapshot(world: World, host: Parameters<World["commit"]>[0], offset: number): Promise<void> {
  let n = 0;
  await until(`a snapshot at ${offset} or later`, async () => {
    await world.commit(host, ++n, { partition: n % 3 });
    return ((await world.register())?.snapshotOffset ?? -1) >= offset;
  });
}

describe("snapshots", () => {
  test("bound the replay: the log below may be gone", async () => {
    await using world = new World();
    world.withObjects();
    world.policy = after;
    const a = await world.take("a");
    await untilSnapshot(world, a, 10);
    await until("the log start follows", async () => (await world.logStart()) >= 10);
    const before = await world.fetch(a);
    a.shard.stop();
    world.partition.start = await world.logStart();
    const b = await world.take("b");
    expect(await world.fetch(b)).toEqual(before);
    const register = await world.register();
    expect(register?.coordinator).toBe("b");
    expect(register?.snapshotOffset).toBeGreaterThanOrEqual(10);
    expect(await world.logStart()).toBeLessThanOrEqual(world.partition.records.length);
  });

  test("replace each other: one object stays", async () => {
    await using world = new World();
    world.withObjects();
    world.policy = after;
    const a = await world.take("a");
    await untilSnapshot(world, a, 20);
    a.shard.stop();
    await until("one object stays", async () => (await world.snapshotKeys()).length === 1);
    expect(await world.snapshotKeys()).toEqual([(await world.register())?.snapshotKey]);
  });

  test("that the store kept by half are never named", async () => {
    await using world = new World();
    const rules = [{ fault: "half-stored" as const, probability: 1 }];
    const store = faultyObjectStore(memoryObjectStore({ clock: systemClock }), { clock: systemClock, random: new SeededRandom(1), rules });
    world.withObjects(store);
    world.policy = after;
    const a = await world.take("a");
    let n = 0;
    await until("a snapshot failed", async () => {
      await world.commit(a, ++n);
      return a.lines.find("shard snapshot failed") !== undefined;
    });
    expect((await world.register())?.snapshotKey).toBeUndefined();
    expect(await world.logStart()).toBe(0);
    store.setRules([]);
    await untilSnapshot(world, a, 1);
    a.shard.stop();
    const b = await world.take("b");
    expect(Object.keys(await world.fetch(b)).length).toBeGreaterThan(0);
  });

  test("of a coordinator that lost the shard are not named and trim nothing", async () => {
    await using world = new World();
    const objects = world.withObjects();
    world.policy = after;
    const a = await world.take("a");
    await world.commit(a, 1);
    // The put of a's snapshot waits until b has taken the shard.
    const put = objects.put.bind(objects);
    let go = (): void => undefined;
    const waits = new Promise<void>((resolve) => (go = resolve));
    let putting = 0;
    objects.put = async (...args) => {
      putting += 1;
      await waits;
      return put(...args);
    };
    let n = 1;
    await until("a writes a snapshot", async () => {
      await world.commit(a, ++n);
      return putting > 0;
    });
    world.policy = { records: 1_000_000, bytes: 1 << 30, pauseMs: 0 };
    const b = await world.take("b");
    go();
    await until("a's snapshot is stored", async () => (await world.snapshotKeys()).length > 0);
    await systemClock.sleep(20);
    expect(await world.register()).toMatchObject({ coordinator: "b", epoch: 2 });
    expect((await world.register())?.snapshotKey).toBeUndefined();
    expect(await world.logStart()).toBe(0);
    expect(await world.fetch(b)).toEqual({ "orders/0": n });
  });

  test("that cannot be read keep the shard from being served", async () => {
    await using world = new World();
    const objects = world.withObjects();
    world.policy = after;
    const a = await world.take("a");
    await untilSnapshot(world, a, 5);
    a.shard.stop();
    for (const key of await world.snapshotKeys()) await objects.delete(key);
    const b = world.open("b");
    await until("b says why", () => b.lines.find("shard replay interrupted") !== undefined);
    expect(b.shard.phase).toBe("replaying");
    expect(b.lines.find("shard replay interrupted")?.fields["code"]).toBe("OBJECT_NOT_FOUND");
  });
});
