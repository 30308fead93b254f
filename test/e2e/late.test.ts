import { spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { ensureEtcd34, freePort, freePorts, startEtcd, tempDir, type EtcdServer, type TempDir } from "@sluice/test-support";
import { until } from "./support/cluster.ts";
import { compileCache } from "./support/environment.ts";

const root = join(import.meta.dirname, "../..");
const services = ["proxy", "broker", "segment-store", "controller", "coordinator"] as const;

interface Process {
  readonly service: string;
  readonly health: string;
  readonly child: ChildProcess;
  log: string;
}
const probe = async (process: Process, path: string): Promise<{ status: number; text: string }> => {
  const answer = await fetch(`http://${process.health}${path}`);
  return { status: answer.status, text: await answer.text() };
};

/** Everything starts while etcd and the object store are not there. An orchestrator asks the probes, and must find no reason to restart. */
describe("dependencies that come late", () => {
  let temp: TempDir;
  let etcd: EtcdServer | undefined;
  let etcdPort = 0;
  const processes: Process[] = [];

  beforeAll(async () => {
    await ensureEtcd34();
    temp = await tempDir("late");
    etcdPort = await freePort();
    const s3Port = await freePort();
    for (const service of services) processes.push(await start(service, s3Port));
  }, 60_000);
  afterAll(async () => {
    for (const { child } of processes) child.kill("SIGKILL");
    await etcd?.[Symbol.asyncDispose]();
    await temp?.[Symbol.asyncDispose]();
  }, 30_000);

  async function start(service: string, s3Port: number): Promise<Process> {
    const [health, rpc, link, grpc, kafka] = await freePorts(5);
    const flags: Record<string, string> = {
      id: `${service}-1`,
      "metadata.endpoints": `127.0.0.1:${etcdPort}`,
      "objectStore.url": `s3://late?endpoint=http://127.0.0.1:${s3Port}`,
      "objectStore.createBucket": "true",
      "listener.health.bind": `127.0.0.1:${health}`,
      ...(service === "proxy"
        ? { "listener.grpc.bind": `127.0.0.1:${grpc}`, "listener.kafka.bind": `127.0.0.1:${kafka}` }
        : { "listener.rpc.bind": `127.0.0.1:${rpc}` }),
      ...(service === "broker" || service === "segment-store" ? { "listener.link.bind": `127.0.0.1:${link}` } : {}),
      ...(service === "segment-store" ? { "data.folder": join(temp.path, "data") } : {}),
    };
    const argv = Object.entries(flags).map(([key, value]) => `--${key}=${value}`);
    // A service refuses names of SLUICE_ that it does not know, and tests have some.
    const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SLUICE_")));
    const env = {
      ...own,
      NODE_COMPILE_CACHE: compileCache(),
      SLUICE_OBJECT_STORE_ACCESS_KEY: "late",
      SLUICE_OBJECT_STORE_SECRET_KEY: "late",
    };
    const child = spawn(process.execPath, [join(root, `services/${service}/src/main.ts`), ...argv], {
      stdio: ["ignore", "ignore", "pipe"],
      env,
    });
    const started: Process = { service, health: `127.0.0.1:${health}`, child, log: "" };
    child.stderr.on("data", (chunk: Buffer) => void (started.log = (started.log + chunk.toString()).slice(-4_000)));
    return started;
  }
  const everyProbe = async (path: string, status: number): Promise<true | string> => {
    for (const one of processes) {
      if (one.child.exitCode !== null) throw new Error(`${one.service} ended with ${one.child.exitCode}: ${one.log}`);
      const seen = await probe(one, path);
      if (seen.status !== status) return `${one.service}${path}: ${seen.status} ${seen.text}`;
    }
    return true;
  };

  test("while etcd is away: live, started, not ready, and told why", async () => {
    await until("all health endpoints answer", 30_000, () => everyProbe("/livez", 200));
    await until("all say that they wait", 10_000, () => everyProbe("/startupz", 200));
    expect(await everyProbe("/readyz", 503)).toBe(true);
    for (const one of processes) expect((await probe(one, "/readyz")).text).toContain("waiting for the metadata store");
  }, 60_000);

  test("a stop while it waits is a stop in order", async () => {
    const waiting = await start("proxy", 1);
    await until("it waits", 30_000, async () => (await probe(waiting, "/startupz")).status === 200);
    const ended = new Promise((resolve) => waiting.child.once("exit", (code) => resolve(code)));
    waiting.child.kill("SIGTERM");
    expect({ code: await ended, log: waiting.log }).toMatchObject({ code: 0 });
  }, 60_000);

  test("once etcd is there, without a restart and without the object store: ready", async () => {
    etcd = await startEtcd({ port: etcdPort });
    await until("all are ready", 30_000, () => everyProbe("/readyz", 200));
  }, 60_000);
});
