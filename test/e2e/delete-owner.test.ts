import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import type { Sluice } from "@sluice/client";
import { createTopic, TestCluster, until } from "./support/cluster.ts";

describe("a topic is deleted while the owner of its partitions is dead", () => {
  let cluster: TestCluster;
  let client: Sluice;
  beforeAll(async () => {
    cluster = await TestCluster.start({ name: "delete", proxies: 1, stores: 3 });
    client = await cluster.connect();
  }, 120_000);
  afterAll(async () => {
    await client?.close();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  test("the next owner ends what the dead one held, without running in circles", async () => {
    await cluster.run(async () => {
      await createTopic(client, "t", 8);
      const producer = client.producer({ topic: "t" });
      await producer.sendMany(Array.from({ length: 80 }, (_, i) => ({ partition: i % 8, value: `${i}` })));
      await producer.close();
      const victim = (await client.admin.describeTopic("t", { includePartitions: true })).partitionDetails[0]!.owner;
      const other = victim === "broker-1" ? "broker-2" : "broker-1";
      await cluster.handle.kill(victim);
      await client.admin.deleteTopic("t");
      expect(await client.admin.listTopics()).toEqual([]);
      await until("nothing is left of the topic", 20_000, async () => {
        const logs = await Promise.all(cluster.handle.spec.controllers.map(({ id }) => cluster.log(id)));
        return logs.flat().some((line) => line.includes("topic removed"));
      });
      const log = await cluster.log(other);
      expect(log.filter((line) => line.includes("partition.stepped-down")).length).toBeLessThan(40);
      await createTopic(client, "t", 8);
      await cluster.handle.start(victim);
    });
  }, 90_000);
});
