import { describe, expect, test } from "@jest/globals";
import { layOut, type LayoutInput } from "../src/cluster/layout.ts";
import type { ClusterOptions, ProcessPlan } from "../src/cluster/spec.ts";

const options: ClusterOptions = {
  proxies: 2,
  brokers: 2,
  stores: 4,
  controllers: 1,
  coordinators: 1,
  zones: 3,
  objectStore: "/d/objects",
  portBase: undefined,
  config: {},
};
const input = (change: Partial<ClusterOptions> = {}): LayoutInput => ({
  dir: "/d",
  options: { ...options, ...change },
  etcdBinary: "/usr/bin/etcd",
  secretFiles: { "cluster.secret": import.meta.filename },
});
async function plansOf(change: Partial<ClusterOptions> = {}): Promise<Map<string, ProcessPlan>> {
  const layout = await layOut(input(change));
  const plans = layout.plan(Array.from({ length: layout.portCount }, (_, i) => 20_000 + i));
  return new Map(plans.map((plan) => [plan.id, plan]));
}

describe("the processes of a cluster", () => {
  test("ports in a row: each proxy as a standalone, then the nodes, etcd last", async () => {
    const plans = await plansOf();
    const ports = (id: string) => Object.entries(plans.get(id)!.addresses).map(([name, address]) => `${name} ${address.split(":")[1]}`);
    expect(ports("proxy-1")).toEqual(["grpc 20000", "kafka 20001", "http 20002", "metrics 20003"]);
    expect(ports("proxy-2")).toEqual(["grpc 20004", "kafka 20005", "http 20006", "metrics 20007"]);
    expect(ports("broker-1")).toEqual(["link 20008", "rpc 20009", "metrics 20010"]);
    expect(ports("store-1")).toEqual(["link 20014", "rpc 20015", "metrics 20016"]);
    expect(ports("controller-1")).toEqual(["rpc 20026", "metrics 20027"]);
    expect(ports("coordinator-1")).toEqual(["rpc 20028", "metrics 20029"]);
    expect(ports("etcd-1")).toEqual(["client 20030", "peer 20031"]);
  });
  test("zones in turn; three storage nodes are in three", async () => {
    const plans = await plansOf({ stores: 3 });
    expect(new Set(["store-1", "store-2", "store-3"].map((id) => plans.get(id)!.zone))).toEqual(new Set(["a", "b", "c"]));
    expect(plans.get("proxy-1")!.zone).toBe("a");
    expect(plans.get("broker-1")!.zone).toBe("b");
  });
  test("a key goes to the services that know it, and to no other", async () => {
    const plans = await plansOf({ config: { "timers.scalePercent": "50", "cluster.shards": "3" } });
    const has = (id: string, flag: string) => plans.get(id)!.argv.includes(flag);
    for (const id of ["proxy-1", "broker-2", "store-4", "controller-1", "coordinator-1"])
      expect(has(id, "--timers.scalePercent=50")).toBe(true);
    expect(has("controller-1", "--cluster.shards=3")).toBe(true);
    expect(has("broker-1", "--cluster.shards=3")).toBe(false);
    expect(has("store-2", "--data.folder=/d/data/store-2")).toBe(true);
    expect(has("broker-1", "--metadata.endpoints=127.0.0.1:20030")).toBe(true);
  });
  test("secrets are named by their files", async () => {
    const flags = [...(await plansOf()).values()].flatMap((plan) => plan.argv.filter((flag) => /secret|accessKey/i.test(flag)));
    expect(new Set(flags)).toEqual(new Set([`--cluster.secret=file:${import.meta.filename}`]));
  });
  test.each([
    [{ "no.such.key": "1" }, "no service has this key"],
    [{ id: "x" }, "set by cluster up itself"],
    [{ "listener.grpc.bind": "0.0.0.0:1" }, "set by cluster up itself"],
    [{ "timers.scalePercent": "0" }, "timers.scalePercent"],
  ])("%j is refused before anything runs", async (config, reason) => {
    await expect(plansOf({ config })).rejects.toThrow(reason);
  });
});
