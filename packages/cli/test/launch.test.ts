import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { awaitReady, type Probe } from "../src/cluster/launch.ts";
import { processStart } from "../src/cluster/pid.ts";

let dir = "";
let server: Server;
/** What /readyz says; none is ready. */
let checks: Record<string, string> | undefined;
let target: Probe;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sluice-cli-"));
  server = createServer((_, response) => void response.writeHead(checks === undefined ? 200 : 503).end(JSON.stringify({ checks })));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const log = join(dir, "store-1.log");
  await writeFile(log, "one\ntwo\n");
  // This very process stands for the one that is waited for.
  const ref = { pid: process.pid, start: (await processStart(process.pid)) ?? "" };
  target = { kind: "store", id: "store-1", address: `127.0.0.1:${(server.address() as AddressInfo).port}`, ref, log };
});
afterEach(async () => {
  await new Promise((resolve) => server.close(resolve));
  await rm(dir, { recursive: true, force: true });
});

test("what is waited for is told after a while, and again when it changes", async () => {
  const told: string[] = [];
  checks = { disk: "ok", metadata: "etcd is away" };
  const ready = awaitReady(target, 20_000, {
    noteAfterMs: 100,
    progress(text) {
      told.push(text);
      checks = told.length === 1 ? { metadata: "reading" } : undefined;
    },
  });
  await ready;
  expect(told).toEqual([
    "store-1 does not serve yet: metadata: etcd is away (waiting 20 s at most)",
    "store-1 does not serve yet: metadata: reading (waiting 20 s at most)",
  ]);
});
test("where there is nothing to wait for it ends at once, with the reason", async () => {
  checks = { metadata: "etcd is away" };
  const wait = { noteAfterMs: 10_000, progress: () => undefined, hopeless: async () => "etcd-1 does not run" };
  await expect(awaitReady(target, 20_000, wait)).rejects.toThrow(
    `store-1 runs (pid ${process.pid}) and cannot serve (metadata: etcd is away): etcd-1 does not run`,
  );
});
test("when the time is over the log has the last word", async () => {
  checks = { metadata: "etcd is away" };
  await expect(awaitReady(target, 100, { noteAfterMs: 10_000, progress: () => undefined })).rejects.toThrow(
    `store-1 does not serve after 0.1 s (metadata: etcd is away); the end of ${target.log}:\none\ntwo`,
  );
});
