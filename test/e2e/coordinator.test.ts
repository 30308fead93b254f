import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { setTimeout as sleep } from "node:timers/promises";
import { isSluiceError, type Sluice } from "@sluice/client";
import { createTopic, TestCluster } from "./support/cluster.ts";

const PARTITIONS = 4;
const GROUPS = 16;
const RECORDS = 6_000;

describe("committed offsets", () => {
  let cluster: TestCluster;
  let client: Sluice;
  beforeAll(async () => {
    cluster = await TestCluster.start({ name: "coordinator", coordinators: 2 });
    client = await cluster.connect();
    await createTopic(client, "t", PARTITIONS);
    // Nobody can commit an offset that does not exist.
    const producer = client.producer({ topic: "t" });
    await producer.sendMany(Array.from({ length: PARTITIONS * RECORDS }, (_, i) => ({ partition: i % PARTITIONS, value: `${i}` })));
    await producer.close();
  }, 120_000);
  afterAll(async () => {
    await client?.close();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  const groups = Array.from({ length: GROUPS }, (_, i) => `group-${i}`);
  const partitions = Array.from({ length: PARTITIONS }, (_, i) => i);
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
      expect(await client.groups.fetch("nobody")).toEqual([]);
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
