import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { describe, expect, test } from "@jest/globals";
import { memberCodec } from "@sluice/catalog";
import { shardOwner } from "@sluice/core/group";
import { instanceId, memberId } from "@sluice/core/model";
import { SHARDS, TestCluster } from "./support/cluster.ts";
import { until } from "./support/world.ts";

const all = Array.from({ length: SHARDS }, (_, n) => n);
/** A name that wins some of the shards. */
const dead = Array.from({ length: 100 }, (_, i) => `coordinator-${i + 2}`).find((id) =>
  all.some((n) => shardOwner(["coordinator-1", id], n) === id),
) as string;

async function withOther(cluster: TestCluster, address: string): Promise<void> {
  const record = {
    service: "coordinator" as const,
    id: memberId(dead),
    instance: instanceId("99999999-9999-4999-8999-999999999999"),
    endpoints: { rpc: address },
    zone: "b",
    version: "test",
    draining: false,
    numericId: 9,
  };
  await cluster.put(cluster.keys.member("coordinator", memberId(dead)), memberCodec.encode(record));
}

describe("a coordinator whose key is still there", () => {
  test("is followed at once when nobody listens at its address", async () => {
    await using cluster = new TestCluster();
    await cluster.start();
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    await withOther(cluster, address);
    const one = await cluster.coordinator("coordinator-1");
    const own = all.filter((n) => shardOwner(["coordinator-1", dead], n) === "coordinator-1");
    await until("the own shards are served", () => cluster.serves(one, own));
    // It lives: its shards are left to it, however long it takes.
    await until("it was looked at", () => one.coordinator.ownership.shards.size === own.length);
    expect(own.length).toBeLessThan(SHARDS);
    server.close();
    await once(server, "close");
    await until("all shards are served", () => cluster.serves(one, all));
    expect(one.lines.find("coordinator gone")?.fields["member"]).toBe(dead);
  });
});
