import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import type { Sluice } from "@sluice/client";
import { say } from "@sluice/test-support";
import { createTopic, TestCluster, until } from "./support/cluster.ts";
import { Inside } from "./support/inside.ts";
import { readAll } from "./support/reader.ts";
import { startWorkload } from "./support/workload.ts";

const PARTITIONS = 1_500;
const RATE_PER_PARTITION = 25;
/** Of any partition of another topic. */
const STALL_MS = 5_000;
/** From the request for a new topic to its first record, while all of the many are made, or deleted. */
const NEW_TOPIC_MS = 10_000;
const GONE_MS = 60_000;

describe("a topic of many partitions", () => {
  let cluster: TestCluster;
  let client: Sluice;
  let inside: Inside;
  beforeAll(async () => {
    cluster = await TestCluster.start({ name: "many", proxies: 1, stores: 3 });
    client = await cluster.connect();
    inside = await Inside.open(cluster);
  }, 120_000);
  afterAll(async () => {
    await inside?.[Symbol.asyncDispose]();
    await client?.close();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  test("is deleted while it is being opened: others are served meanwhile, and it comes to an end", async () => {
    await cluster.run(async () => {
      await createTopic(client, "other", 2);
      const workload = await startWorkload({
        endpoints: cluster.proxies,
        topic: "other",
        partitions: 2,
        producers: 1,
        ratePerPartition: RATE_PER_PARTITION,
      });
      const beganMs = performance.now();
      await client.admin.createTopic({ name: "many", partitions: PARTITIONS });
      await client.admin.deleteTopic("many");
      const tookMs = [await firstRecord("new-1"), await firstRecord("new-2")];
      await until("it is gone", GONE_MS, async () => (await inside.store.list(inside.keys.deleted)).entries.length === 0);
      const stall = workload.history.longestStall(beganMs, performance.now());
      await workload.stop();
      const took = tookMs.map((ms) => ms.toFixed(0)).join(" and ");
      say(
        `${PARTITIONS} partitions made and deleted: another topic stood for ${stall.ms.toFixed(0)} ms at most, new topics took ${took} ms\n`,
      );
      expect(stall.ms).toBeLessThanOrEqual(STALL_MS);
      expect(Math.max(...tookMs)).toBeLessThanOrEqual(NEW_TOPIC_MS);
      expect(workload.history.failures).toEqual([]);
      expect(workload.history.check(await readAll(cluster.proxies[0]!, "other"))).toEqual([]);
    });
  }, 180_000);

  async function firstRecord(topic: string): Promise<number> {
    const began = performance.now();
    await client.admin.createTopic({ name: topic, partitions: 1 });
    const producer = client.producer({ topic });
    await producer.send({ value: "x" });
    await producer.close();
    return performance.now() - began;
  }
});
