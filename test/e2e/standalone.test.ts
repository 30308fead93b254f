import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { freePort, tempDir, type TempDir } from "@sluice/test-support";
import { sluice, startSluice, type RunningCommand } from "./support/sluice-command.ts";

let temp: TempDir;
let data = "";
let base = 0;
let endpoint = "";
let server: RunningCommand;

async function start(): Promise<RunningCommand> {
  const running = startSluice(["standalone", "--data", data, "--port-base", String(base)]);
  await running.until("Sluice serves");
  return running;
}
async function ok(args: readonly string[], input?: string): Promise<string> {
  const result = await sluice(args, { endpoint, ...(input !== undefined && { input }) });
  expect({ args, ...result }).toMatchObject({ code: 0 });
  return result.out;
}
const run = (args: readonly string[], input?: string) => sluice(args, { endpoint, ...(input !== undefined && { input }) });

describe("standalone", () => {
  beforeAll(async () => {
    temp = await tempDir("standalone");
    data = join(temp.path, "data");
    base = await freePort();
    endpoint = `127.0.0.1:${base}`;
    server = await start();
  }, 60_000);
  afterAll(async () => {
    server?.child.kill("SIGKILL");
    await server?.done;
    await temp?.[Symbol.asyncDispose]();
  }, 30_000);

  test("tells its endpoints, says that one disk is not three, and what to try", () => {
    expect(server.out()).toContain(endpoint);
    expect(server.out()).toContain(`http://127.0.0.1:${base + 3}/metrics`);
    expect(server.out()).toContain("one disk");
    expect(server.out()).toContain(`bin/sluice topic create hello --partitions 2 --endpoint ${endpoint}`);
    expect(server.out()).toContain(`Kafka    127.0.0.1:${base + 1}`);
    // What is not served is not named.
    expect(server.out()).not.toContain(String(base + 2));
    expect(server.err()).toBe("");
  });
  test("a record goes round", async () => {
    await ok(["topic", "create", "hello", "--partitions", "2"]);
    await ok(["produce", "hello"], "first\n");
    expect(await ok(["consume", "hello", "--exit-on-end"])).toBe("first\n");
  }, 60_000);
  test("one health and metrics endpoint for all services", async () => {
    const ready = await fetch(`http://127.0.0.1:${base + 3}/readyz`);
    expect(ready.status).toBe(200);
    const { checks } = (await ready.json()) as { checks: Record<string, string> };
    for (const id of ["controller-1", "store-1", "store-2", "store-3", "broker-1", "coordinator-1", "proxy-1"])
      expect(Object.keys(checks).some((name) => name.startsWith(`${id}/`))).toBe(true);
    const metrics = await (await fetch(`http://127.0.0.1:${base + 3}/metrics`)).text();
    expect(metrics).toMatch(/sluice_store_\w+\{instance="store-3"/);
    expect(metrics).toMatch(/sluice_proxy_\w+/);
  }, 30_000);
  test("the folder belongs to one process", async () => {
    const other = await sluice(["standalone", "--data", data, "--port-base", String(await freePort())]);
    expect(other.code).toBe(5);
    expect(other.err).toContain(`FOLDER_IN_USE: ${data} is in use`);
    expect(other.err).toContain("--data DIR");
    expect(other.err).not.toContain("metadata");
    expect(other.err).toContain(String(server.child.pid));
  }, 60_000);
  test("a port that does not speak gRPC, and one where nobody listens, are named as such", async () => {
    // The Kafka port and the one of the metrics. Each command waits as long as a server may take to start: so all of them at once.
    const ports = [base + 1, base + 3];
    const [nobody, nobodyInEnvironment, ...wrong] = await Promise.all([
      sluice(["topic", "list", "--endpoint", "127.0.0.1:1"]),
      sluice(["topic", "list"], { endpoint: "127.0.0.1:1" }),
      ...ports.map((port) => sluice(["topic", "list", "--endpoint", `127.0.0.1:${port}`])),
    ]);
    const told = (text: string) => ({ code: 1, err: expect.stringContaining(text) });
    expect(wrong).toMatchObject(ports.map((port) => told(`127.0.0.1:${port}: the peer accepts connections but does not speak gRPC`)));
    for (const one of [nobody, nobodyInEnvironment]) expect(one).toMatchObject(told("127.0.0.1:1: does not accept connections"));
  }, 30_000);
  test("a record that is refused is told with the limit and the way to raise it; one that was alone is not said to be stored", async () => {
    await ok(["topic", "create", "strict", "--partitions", "1", "--config", "message.timestamp.before.max.ms=1000"]);
    const large = await run(["produce", "strict"], `${"x".repeat(2 * 1024 * 1024)}\n`);
    expect(large.code).toBe(3);
    expect(large.err).toMatch(
      /line 1: MESSAGE_TOO_LARGE: .*; reading stopped there\n.* topic alter strict --config max.message.bytes=BYTES/,
    );
    expect(large.err).not.toContain("may be stored");
    const old = await run(["produce", "strict", "--jsonl"], '{"value":"v","timestamp":5}\n');
    expect(old.code).toBe(3);
    expect(old.err).toContain(
      "line 1: INVALID_TIMESTAMP: timestamp 5 is too far from the broker's clock: the topic takes up to 1000 ms before it and 3600000 ms after it; reading stopped there\n",
    );
    const missing = await run(["produce", "strict", "--file", "/nope"]);
    expect(missing).toMatchObject({ code: 2, err: "sluice: --file /nope: no such file\n" });
    const typo = await run(["consume", "strct", "--exit-on-end"]);
    expect(typo).toMatchObject({ code: 1, err: expect.stringContaining("Did you mean strict? List them: ") });
    expect((await run(["group", "describe", "nope"])).err).toMatch(/GROUP_NOT_FOUND: .*\n {2}List them: \S+ group list\n$/);
  }, 60_000);
  test("other interfaces only when told so in writing", async () => {
    const open = await sluice([
      "standalone",
      "--data",
      join(temp.path, "other"),
      "--port-base",
      String(await freePort()),
      "--listen",
      "0.0.0.0",
    ]);
    expect(open.code).toBe(2);
    expect(open.err).toContain("without authentication");
    await expect(access(join(temp.path, "other"))).rejects.toMatchObject({ code: "ENOENT" });
  }, 60_000);
  test("what was acknowledged survives kill -9 and a restart, and goes on after it", async () => {
    const lines = Array.from({ length: 500 }, (_, i) => `record ${i}`);
    await ok(["produce", "hello", "--key-separator", " "], `${lines.join("\n")}\n`);
    server.child.kill("SIGKILL");
    expect((await server.done).code).toBe("SIGKILL");
    server = await start();
    const after = (await ok(["consume", "hello", "--exit-on-end"])).trimEnd().split("\n");
    expect(after.toSorted()).toEqual(["first", ...lines.map((line) => line.slice("record ".length))].toSorted());
    await ok(["produce", "hello"], "again\n");
    expect(await ok(["consume", "hello", "--exit-on-end"])).toContain("again\n");
  }, 120_000);
  test("SIGTERM drains and ends with 0, and the next start finds everything", async () => {
    server.child.kill("SIGTERM");
    expect((await server.done).code).toBe(0);
    server = await start();
    expect((await ok(["consume", "hello", "--exit-on-end"])).trimEnd().split("\n")).toHaveLength(502);
  }, 120_000);
});
