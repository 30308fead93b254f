import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { spawn } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@sluice/runtime/clock";
import { clusterUp, openCluster, type ClusterUpOptions } from "../src/cluster/cluster.ts";
import { writeSecret, writeSpec } from "../src/cluster/folder.ts";
import { fillIn } from "../src/cluster/options.ts";
import { processStart } from "../src/cluster/pid.ts";
import { specOf, type ProcessPlan } from "../src/cluster/spec.ts";
import { exitCodes, explain } from "../src/exit.ts";

let parent = "";
let dir = "";
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), "sluice-cli-"));
  dir = join(parent, "new/folder");
});
afterEach(() => rm(parent, { recursive: true, force: true }));

/** A program that is taken for etcd, and that does this when it is started as one. */
async function etcdThat(does: string): Promise<string> {
  const path = join(parent, "etcd");
  await writeFile(path, `#!/bin/sh\nif [ "$1" = --version ]; then echo "etcd Version: 3.5.0"; exit 0; fi\n${does}\n`);
  await chmod(path, 0o755);
  return path;
}
const refused = (options: Partial<ClusterUpOptions>) =>
  clusterUp({ dir, ...options }).then(
    () => ({ text: "nothing was refused", exitCode: 0 }),
    (error: unknown) => explain(error),
  );

describe("what is refused leaves nothing behind", () => {
  test.each([
    ["no program", { etcd: "/nope" }, "--etcd /nope: not a program"],
    ["a program that is no etcd", { etcd: process.execPath }, `is no etcd: asked for --version, it printed "${process.version}"`],
    ["a key that nobody knows", { config: { nonsense: "1" } }, "no service has this key"],
    ["an object store of no kind", { objectStore: "ftp://x" }, "--object-store: object store ftp:: use a path"],
    ["an object store without keys", { objectStore: "s3://bucket" }, "--object-store: s3://bucket: credentials are needed"],
    ["an object store that is a file", { objectStore: process.execPath }, `--object-store ${process.execPath}: not a folder`],
    ["a value that does not fit", { config: { "timers.scalePercent": "x" } }, "timers.scalePercent"],
  ])("%s", async (_, options, reason) => {
    const etcd = await etcdThat("exit 1");
    expect(await refused({ etcd, ...options })).toEqual({ text: expect.stringContaining(reason), exitCode: exitCodes.usage });
    expect(await readdir(parent)).toEqual(["etcd"]);
    await mkdir(dir, { recursive: true });
    await refused({ etcd, ...options });
    expect(await readdir(dir)).toEqual([]);
  });
  test("a folder of a standalone is as it was", async () => {
    await mkdir(dir, { recursive: true });
    await writeFile(join(dir, "metadata.sqlite"), "");
    expect((await refused({})).text).toContain("holds the data of a standalone");
    expect(await readdir(dir)).toEqual(["metadata.sqlite"]);
  });
});

describe("an etcd that cannot start", () => {
  test("a silent one leaves no folder behind", async () => {
    expect((await refused({ etcd: await etcdThat("exit 3") })).text).toContain("etcd-1 ended while it started; it printed nothing");
    expect(await readdir(parent)).toEqual(["etcd"]);
  });
  test("what it printed is told and kept, and the next try takes the folder", async () => {
    const etcd = await etcdThat("echo 'the disk is on fire'; exit 1");
    for (const stores of [3, 4]) {
      expect((await refused({ etcd, stores })).text).toMatch(
        /etcd-1 ended while it started; the end of .*etcd-1\.log:\n(.*\n)?the disk is on fire$/,
      );
      expect(await readdir(dir)).toEqual(["logs"]);
      expect(await readdir(join(dir, "logs"))).toEqual(["etcd-1.log"]);
    }
  });
});

describe("a folder that holds a cluster", () => {
  const plan = (kind: ProcessPlan["kind"], command: string, ...argv: string[]): ProcessPlan => ({
    kind,
    id: `${kind}-1`,
    zone: kind === "etcd" ? "" : "a",
    addresses: {},
    command,
    argv,
    log: join(dir, "logs", `${kind}-1.log`),
  });
  /** Nothing of it runs, and its etcd cannot. */
  async function stopped(options: Partial<ClusterUpOptions> = {}): Promise<string> {
    await mkdir(dir, { recursive: true });
    const etcd = await etcdThat("echo started as it was; exit 1");
    const secret = await writeSecret(dir, "cluster.secret", "s3cret");
    const plans = [plan("etcd", etcd), plan("broker", "/bin/false", `--cluster.secret=file:${secret}`)];
    await writeSpec(dir, specOf(fillIn(dir, options), plans, new Map()));
    return etcd;
  }
  const held = { stores: 3, objectStore: "none", portBase: 20_000, config: { "timers.scalePercent": "50" } };

  test.each<Partial<ClusterUpOptions>>([
    {},
    { stores: 3 },
    { ...held, proxies: 2, config: { ...held.config, "cluster.secret": "s3cret" } },
  ])("starts as it was made when the flags are left out or say the same: %j", async (options) => {
    const etcd = await stopped(held);
    expect((await refused({ ...options, ...(options.proxies === 2 && { etcd }) })).text).toContain("started as it was");
    // It is a cluster that may have served: it stays.
    expect(await readdir(dir)).toEqual(expect.arrayContaining(["cluster.json", "data", "logs", "secrets"]));
  });
  test.each<[Partial<ClusterUpOptions>, string]>([
    [{ stores: 4 }, "--stores is 4, and the cluster in DIR was made with 3"],
    [{ proxies: 1 }, "--proxies is 1, and the cluster in DIR was made with 2"],
    [{ objectStore: "/o" }, "--object-store is /o, and the cluster in DIR was made with none"],
    [{ portBase: 21_000 }, "--port-base is 21000, and the cluster in DIR was made with 20000"],
    [{ config: { "timers.scalePercent": "60" } }, "--config timers.scalePercent is 60, and the cluster in DIR was made with 50"],
    [{ config: { "cluster.shards": "9" } }, "--config cluster.shards is 9, and the cluster in DIR was made with its default"],
    [{ etcd: "/bin/other" }, "--etcd is /bin/other, and the cluster in DIR was made with ETCD"],
    [{ config: { "cluster.secret": "another" } }, "--config cluster.secret is another one than that of the cluster in DIR"],
  ])("%j is refused, and both values are named", async (options, reason) => {
    const etcd = await stopped(held);
    const before = await readFile(join(dir, "cluster.json"), "utf8");
    const { text, exitCode } = await refused(options);
    expect(text.replaceAll(dir, "DIR").replaceAll(etcd, "ETCD")).toContain(reason);
    expect(exitCode).toBe(exitCodes.usage);
    expect(text).not.toContain("s3cret");
    expect(await readFile(join(dir, "cluster.json"), "utf8")).toBe(before);
  });
  test("an etcd that is not there any more is looked for again", async () => {
    const etcd = await stopped();
    const moved = join(parent, "moved");
    await writeFile(moved, await readFile(etcd, "utf8"), { mode: 0o755 });
    await rm(etcd);
    expect((await refused({ etcd: moved })).text).toContain("started as it was");
  });
  test("what was started before one that cannot be is ended, what ran before is not", async () => {
    await mkdir(join(dir, "logs"), { recursive: true });
    const pidFile = join(parent, "pid");
    const sleeper = plan("store", "/bin/sh", "-c", `echo $$ > ${pidFile}; exec sleep 60`);
    const ran = spawn("sleep", ["60"], { stdio: "ignore" });
    try {
      const refs = new Map([["etcd-1", { pid: ran.pid!, start: (await processStart(ran.pid!)) ?? "" }]]);
      const health = createServer((_, response) => void response.end('{"health":"true"}'));
      await new Promise<void>((resolve) => health.listen(0, "127.0.0.1", resolve));
      const client = `127.0.0.1:${(health.address() as AddressInfo).port}`;
      const etcd = { ...plan("etcd", await etcdThat("exit 1")), addresses: { client } };
      await writeSpec(dir, specOf(fillIn(dir, {}), [etcd, sleeper, plan("broker", join(parent, "nothing"))], refs));
      const told: string[] = [];
      expect((await refused({ progress: (text) => void told.push(text) })).text).toContain("nothing cannot be started");
      expect(told).toEqual([`etcd-1 runs already (pid ${ran.pid})`, `etcd-1 is left running (pid ${ran.pid})`]);
      expect(ran.exitCode ?? ran.signalCode).toBeNull();
      // It may have been ended before it wrote its number; one that was left alive would write it soon.
      let pid = 0;
      for (let i = 0; i < 30 && pid === 0; i++) {
        pid = Number(await readFile(pidFile, "utf8").catch(() => "0"));
        if (pid === 0) await systemClock.sleep(10);
      }
      expect(await processStart(pid)).toBeUndefined();
      await new Promise((resolve) => health.close(resolve));
    } finally {
      ran.kill("SIGKILL");
    }
  });
  test("no member is started without etcd, and the way to it is told at once", async () => {
    await stopped();
    const cluster = await openCluster(dir);
    const failed = await cluster.start("broker-1").then(String, (error: unknown) => explain(error).text);
    expect(failed).toContain("broker-1 was not started: etcd-1 does not run");
    expect(failed).toContain(`sluice cluster start --dir ${dir} etcd-1`);
    expect(await readdir(dir)).not.toContain("logs");
  });
});
