import { describe, expect, test } from "@jest/globals";
import { GROUPS_TOPIC } from "@sluice/core/model";
import { TestCluster } from "./support/cluster.ts";

describe("controller", () => {
  test("leads, makes the cluster and the group topic, and assigns its shards to the first broker", async () => {
    await using cluster = new TestCluster();
    const { controller, health } = await cluster.controller("c-1");
    await cluster.until("group topic", () => cluster.topic(GROUPS_TOPIC));
    expect(controller.leading).toBe(true);
    expect(cluster.view.cluster?.shardCount).toBe(2);
    await cluster.broker("b-1");
    await cluster.until("shards assigned and open", () => {
      const all = [...cluster.view.partitions.values()];
      return all.length === 2 && all.every((p) => p.state?.record.phase === "OPEN" && p.state.record.owner === "b-1");
    });
    expect((await health.report("ready")).ok).toBe(true);
  });
});
