import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import type { Sluice } from "@sluice/client";
import { say } from "@sluice/test-support";
import { createTopic, TestCluster, until } from "./support/cluster.ts";
import { Inside } from "./support/inside.ts";

const PARTITIONS = 1_500;
/** Of another topic, at a record every 20 ms. */
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
      const stalls = load("other");
      await client.admin.createTopic({ name: "many", partitions: PARTITIONS });
      await client.admin.deleteTopic("many");
      const tookMs = [await firstRecord("new-1"), await firstRecord("new-2")];
      await until("it is gone", GONE_MS, async () => (await inside.store.list(inside.keys.deleted)).entries.length === 0);
      const stallMs = await stalls.end();
      const took = tookMs.map((ms) => ms.toFixed(0)).join(" and ");
      say(`${PARTITIONS} partitions made and deleted: another topic's slowest record ${stallMs.toFixed(0)} ms, new topics ${took} ms\n`);
      expect(stallMs).toBeLessThanOrEqual(STALL_MS);
      expect(Math.max(...tookMs)).toBeLessThanOrEqual(NEW_TOPIC_MS);
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
  /** `end`: the longest that a record has waited for its acknowledgement, in ms. */
  function load(topic: string): { end(): Promise<number> } {
    const producer = client.producer({ topic });
    const ending = new AbortController();
    let longest = 0;
    const sent: Promise<void>[] = [];
    const running = (async () => {
      for (let n = 0; !ending.signal.aborted; n += 1) {
        const began = performance.now();
        sent.push(
          producer.send({ partition: n % 2, value: "x" }).then(() => {
            longest = Math.max(longest, performance.now() - began);
          }),
        );
        await sleep(20);
      }
      await Promise.all(sent);
      await producer.close();
    })();
    return {
      end: async () => {
        ending.abort();
        await running;
        return longest;
      },
    };
  }
});
