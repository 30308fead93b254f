import { expect, test } from "@jest/globals";
import { isSluiceError } from "@sluice/core/model";
import { faultyMetadata, type FaultyMetadata } from "@sluice/metadata";
import { systemClock } from "@sluice/runtime";
import { SeededRandom } from "@sluice/runtime/testing";
import { TestCluster } from "./support/cluster.ts";

const call = { timeoutMs: 5_000 };

/** A client that tries again what may be tried again, and takes the answer that its first try was done for success. */
async function insist(work: () => Promise<unknown>, doneCode: string): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      await work();
      return;
    } catch (error) {
      if (attempt > 0 && isSluiceError(error) && error.code === doneCode) return;
      if (attempt > 50 || !isSluiceError(error) || !error.retriable) throw error;
      await systemClock.sleep(5);
    }
  }
}

test.each([1, 2, 3])("lost, late and refused answers of the metadata store change nothing in the end (seed %i)", async (seed) => {
  await using cluster = new TestCluster();
  const stores: FaultyMetadata[] = [];
  cluster.wrap = (store) => {
    const faults = { unavailable: 0.05, unknownApplied: 0.25, unknownNotApplied: 0.15, unknownLate: 0.25, lateMsMax: 20 };
    const faulty = faultyMetadata(store, { random: new SeededRandom(seed), clock: systemClock, ...faults });
    stores.push(faulty);
    return faulty;
  };
  const c = await cluster.controller("c-1", { plannedMovesMax: 5 });
  await cluster.until("leader", () => c.controller.leading);
  const one = await cluster.broker("b-1");
  await cluster.broker("b-2", "b");
  const names = Array.from({ length: 6 }, (_, i) => `t-${i}`);
  for (const name of names) await insist(() => c.client.createTopic({ name, partitions: 7 }, call), "TOPIC_EXISTS");
  await insist(() => c.client.updateTopicConfig({ name: "t-1", set: { "segment.ms": "5000" } }, call), "never");
  await insist(() => c.client.deleteTopic({ name: "t-0" }, call), "UNKNOWN_TOPIC");
  await one.leave();
  await cluster.broker("b-3", "c");
  await cluster.until("t-0 gone", async () => (await cluster.topicOf("t-0")) === undefined, 10_000);
  const settled = (): boolean => {
    let partitions = 0;
    for (const p of cluster.view.partitions.values()) {
      const state = p.state?.record;
      if (state?.phase !== "OPEN" || state.owner !== p.assigned?.record.broker) return false;
      partitions += 1;
    }
    const counts = Object.values(cluster.counts());
    return partitions === 5 * 7 + 2 && counts.length === 2 && Math.abs((counts[0] as number) - (counts[1] as number)) <= 1;
  };
  await cluster.until("all served, evenly, by those that live", settled, 10_000);
  expect((await cluster.topicOf("t-1"))?.config).toEqual({ "segment.ms": "5000" });
  expect([...cluster.view.topics.keys()].filter((k) => k.includes("/t-")).sort()).toEqual(names.slice(1).map((n) => `default/${n}`));
  const injected = stores[0]?.injected;
  expect((injected?.unknownApplied ?? 0) + (injected?.unknownLate ?? 0) + (injected?.unknownNotApplied ?? 0)).toBeGreaterThan(5);
  for (const s of stores) s.calm();
});
