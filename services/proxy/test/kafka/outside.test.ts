import { describe, expect, test } from "@jest/globals";
import { allowAll } from "@sluice/rpc";
import { apis } from "@sluice/kafka-wire";
import { FakeCluster } from "../support/fake-cluster.ts";
import { eventually, startProxy } from "../support/proxy.ts";

const at = ({ host, port }: { readonly host: string; readonly port: number }): string => `${host}:${port}`;

describe("clients inside and outside of the cluster's network", () => {
  test("are told the addresses of the listener that they came through, in every answer that has addresses", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using first = await startProxy(cluster, "proxy-1", allowAll, "one.example.com:0");
    await using second = await startProxy(cluster, "proxy-2", allowAll, "two.example.com:0");
    await using inside = await first.kafka();
    await using outside = await first.kafkaOutside();
    await eventually(async () => (await inside.call(apis.Metadata, 12, {})).brokers.length === 2, "both proxies");
    await using other = await second.kafka();
    const named: number[] = [];
    for (const [client, endpoint] of [
      [inside, "kafka"],
      [outside, "kafkaOutside"],
      [other, "kafka"],
    ] as const) {
      const addresses = [first, second].map((p) => p.proxy.endpoints()[endpoint]);
      expect((await client.call(apis.Metadata, 12, {})).brokers.map(at)).toEqual(addresses);
      expect((await client.call(apis.DescribeCluster, 1, {})).brokers.map(at)).toEqual(addresses);
      const { coordinators } = await client.call(apis.FindCoordinator, 4, { keyType: 0, coordinatorKeys: ["g"] });
      expect(coordinators).toHaveLength(1);
      named.push(...coordinators.map((one) => addresses.indexOf(at(one))));
    }
    // The same proxy whoever is asked, by the address that the asker can reach.
    expect(named).toEqual(named.map(() => named[0]));
    expect([0, 1]).toContain(named[0]);
    expect(first.proxy.endpoints()["kafkaOutside"]).toMatch(/^one\.example\.com:[1-9]\d*$/);
  });

  test("outside, only the proxies that can be reached from there are told, and lead", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using first = await startProxy(cluster, "proxy-1", allowAll, "one.example.com:0");
    await using second = await startProxy(cluster, "proxy-2");
    await cluster.topic("t", 4);
    await using inside = await first.kafka();
    await using outside = await first.kafkaOutside();
    await eventually(async () => (await inside.call(apis.Metadata, 12, {})).brokers.length === 2, "both proxies");
    const told = await outside.call(apis.Metadata, 12, { topics: [{ name: "t" }] });
    expect(told.brokers.map(({ host }) => host)).toEqual(["one.example.com"]);
    expect(new Set(told.topics[0]?.partitions.map(({ leaderId }) => leaderId))).toEqual(new Set([1]));
    expect(second.proxy.endpoints()["kafkaOutside"]).toBeUndefined();
  });
});
