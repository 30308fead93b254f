import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { mkdtemp, readdir, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clusterFile, readSpec, withLock, writeSecret, writeSpec } from "../src/cluster/folder.ts";
import { allocatePorts } from "../src/cluster/ports.ts";
import { membersOf, specOf, withProcess, type ClusterOptions, type ProcessPlan } from "../src/cluster/spec.ts";

let dir = "";
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sluice-cli-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const options: ClusterOptions = {
  proxies: 1,
  brokers: 1,
  stores: 3,
  controllers: 1,
  coordinators: 1,
  zones: 3,
  objectStore: "/o",
  portBase: undefined,
  config: {},
};
const plan = (kind: ProcessPlan["kind"], id: string, addresses: Record<string, string>): ProcessPlan => ({
  kind,
  id,
  zone: kind === "etcd" ? "" : "a",
  addresses,
  command: "/bin/x",
  argv: ["--id", id],
  log: `/l/${id}.log`,
});
const plans = [
  plan("proxy", "proxy-1", { grpc: "127.0.0.1:1", kafka: "127.0.0.1:3", metrics: "127.0.0.1:2" }),
  plan("broker", "broker-1", { link: "127.0.0.1:3", rpc: "127.0.0.1:4", metrics: "127.0.0.1:5" }),
  plan("etcd", "etcd-1", { client: "127.0.0.1:6", peer: "127.0.0.1:7" }),
];

describe("cluster.json", () => {
  test("the form that other tools read", () => {
    const spec = specOf(options, plans, new Map([["proxy-1", { pid: 11, start: "s" }]]));
    expect(spec.proxies).toEqual([
      { id: "proxy-1", pid: 11, zone: "a", grpc: "127.0.0.1:1", kafka: "127.0.0.1:3", http: null, metrics: "127.0.0.1:2" },
    ]);
    expect(spec.brokers).toEqual([{ id: "broker-1", pid: 0, zone: "a", link: "127.0.0.1:3", rpc: "127.0.0.1:4", metrics: "127.0.0.1:5" }]);
    expect(spec.etcd).toEqual([{ id: "etcd-1", pid: 0, client: "127.0.0.1:6" }]);
    expect(membersOf(spec).map((member) => member.entry.id)).toEqual(["etcd-1", "broker-1", "proxy-1"]);
  });
  test("a process that was started again has another pid in both places, and the rest stays", async () => {
    const spec = withProcess(specOf(options, plans, new Map()), "broker-1", { pid: 42, start: "t" });
    expect(spec.brokers[0]?.pid).toBe(42);
    expect(spec.processes["broker-1"]).toEqual({
      pid: 42,
      start: "t",
      command: "/bin/x",
      argv: ["--id", "broker-1"],
      log: "/l/broker-1.log",
    });
    expect(spec.proxies[0]?.pid).toBe(0);
    await writeSpec(dir, spec);
    expect(await readSpec(dir)).toEqual(JSON.parse(JSON.stringify(spec)));
  });
  test("no file is no cluster, another file is refused", async () => {
    expect(await readSpec(dir)).toBeUndefined();
    await writeFile(clusterFile(dir), "{}");
    await expect(readSpec(dir)).rejects.toThrow("was not written by");
  });
});

describe("the folder's lock", () => {
  test("one at a time", async () => {
    let inside = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      most = Math.max(most, ++inside);
      await new Promise((resolve) => setTimeout(resolve, 5));
      inside--;
    };
    await Promise.all([withLock(dir, work), withLock(dir, work), withLock(dir, work)]);
    expect(most).toBe(1);
    expect(await readdir(dir)).toEqual([]);
  });
  test("the lock of a dead command is taken over, also one that died before it wrote its name", async () => {
    await writeFile(join(dir, "lock"), JSON.stringify({ pid: process.pid, start: "another time" }));
    expect(await withLock(dir, async () => "in")).toBe("in");
    await writeFile(join(dir, "lock"), "");
    await utimes(join(dir, "lock"), 1, 1);
    expect(await withLock(dir, async () => "in")).toBe("in");
  });
});

test("secrets are readable by the user alone", async () => {
  const path = await writeSecret(dir, "x", "secret");
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect((await stat(join(dir, "secrets"))).mode & 0o777).toBe(0o700);
});

test("ports: all different, in a row from a base, and a taken one is named", async () => {
  const free = await allocatePorts(20, undefined);
  expect(new Set(free).size).toBe(20);
  const base = free[0]!;
  expect(await allocatePorts(1, base)).toEqual([base]);
  const { createServer } = await import("node:net");
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(base, "127.0.0.1", resolve));
  await expect(allocatePorts(1, base)).rejects.toThrow(`port ${base} is in use`);
  await new Promise((resolve) => server.close(resolve));
});
