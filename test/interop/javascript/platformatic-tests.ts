import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { run } from "@sluice/test-support";
import type { Outcome } from "../support/judge.ts";

/*
 * The own tests of @platformatic/kafka, file by file, in a copy of its checkout that reaches the brokers of this run.
 */
const repository = join(import.meta.dirname, "../../..");
const reporter = join(import.meta.dirname, "node-test-reporter.ts");

/** Those that talk to a broker, the longest first. */
export const FILES = [
  "clients/admin/admin",
  "clients/consumer/consumer",
  "clients/consumer/messages-stream",
  "clients/producer/producer",
  "clients/base/base",
  "clients/consumer/consumer-consumer-group-protocol",
  "clients/consumer/messages-stream-rebalance",
  "clients/producer/producer-stream",
  "clients/producer/partitioners",
  "issues/issue-309",
  "issues/gh-300",
] as const;
/*
 * Left out, beside what talks to no broker:
 *
 *   clients/producer/transactions                 transactions are not served
 *   clients/base/sasl*, network/connection        need brokers with SASL, one of them Kerberos
 *   registries/*                                  need a schema registry
 *   clients/consumer/*-backpressure-memory        measures the client's memory
 */

/** What the tests import, without what their benchmarks and SASL tests do, which has to be compiled. */
const TEST_PACKAGES = ["@watchable/unpromise", "prom-client"];
const INSTALL_MS = 240_000;
/** Confluent's number of the release: the tests choose what they try by it. */
const KAFKA_VERSION = "8.3.0";
const TEST_MS = 60_000;
/** Of a file; most of the time its tests wait. */
const FILE_MS = 480_000;
const CONCURRENCY = 4;

interface Manifest {
  readonly version: string;
  devDependencies: Record<string, string>;
}
const manifestOf = async (folder: string): Promise<Manifest> =>
  JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as Manifest;

/** A copy of the checkout in `folder` with its packages; the checkout stays as it is. */
export async function copyPlatformatic(checkout: string, folder: string): Promise<void> {
  await cp(checkout, folder, { recursive: true, filter: (path) => !["node_modules", ".git"].includes(basename(path)) });
  const manifest = await manifestOf(folder);
  const wanted = Object.entries(manifest.devDependencies).filter(([name]) => TEST_PACKAGES.includes(name));
  manifest.devDependencies = Object.fromEntries(wanted);
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
  // With fewer packages its lock file is not frozen, but the versions are taken from it.
  const pnpm = join(repository, "node_modules/pnpm/bin/pnpm.cjs");
  const flags = ["--no-frozen-lockfile", "--ignore-scripts", "--ignore-workspace"];
  await run(process.execPath, [pnpm, "install", ...flags], { cwd: folder, timeoutMs: INSTALL_MS });
}

/** The tests know their brokers by the ports of a composition of containers: three of a cluster, and one that is alone. */
async function pointTo(folder: string, [first = "", second = first, third = second]: readonly string[]): Promise<void> {
  const ports = { 9001: first, 9011: first, 9012: second, 9013: third };
  for (const file of ["helpers.ts", ...FILES.map((name) => `${name}.test.ts`)]) {
    const path = join(folder, "test", file);
    let text = await readFile(path, "utf8");
    for (const [port, address] of Object.entries(ports)) {
      const [host = "", own = ""] = address.split(":");
      text = text.replaceAll(`localhost:${port}`, address).replaceAll(`host: 'localhost', port: ${port}`, `host: '${host}', port: ${own}`);
    }
    await writeFile(path, text);
  }
}

export async function runPlatformaticTests(folder: string, addresses: readonly string[]): Promise<Outcome[]> {
  await pointTo(folder, addresses);
  const outcomes: Outcome[] = [];
  const queue = [...FILES];
  const worker = async (): Promise<void> => {
    for (let file = queue.shift(); file !== undefined; file = queue.shift()) outcomes.push(...(await runFile(folder, file)));
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  return outcomes;
}

/** Its exit code tells no more than what the reporter wrote. A file that did not come to its end lacks tests, which the verdict tells. */
async function runFile(folder: string, file: string): Promise<Outcome[]> {
  const reports = join(folder, "reports");
  await mkdir(reports, { recursive: true });
  const report = join(reports, `${file.replaceAll("/", "-")}.jsonl`);
  const flags = [`--test-timeout=${TEST_MS}`, "--test-force-exit", `--test-reporter=${reporter}`, `--test-reporter-destination=${report}`];
  const child = spawn(process.execPath, [...flags, join(folder, "test", `${file}.test.ts`)], {
    cwd: folder,
    env: { ...process.env, KAFKA_VERSION, NODE_OPTIONS: "" },
    stdio: "ignore",
    timeout: FILE_MS,
    killSignal: "SIGKILL",
  });
  await once(child, "exit");
  const lines = (await readFile(report, "utf8").catch(() => "")).split("\n").filter((line) => line !== "");
  return named(
    basename(file),
    lines.map((line) => JSON.parse(line) as Outcome),
  );
}

/** Some tests of a file have the same name: the second is told from the first. */
export function named(file: string, outcomes: readonly Outcome[]): Outcome[] {
  const seen = new Map<string, number>();
  return outcomes.map((outcome) => {
    const times = (seen.get(outcome.name) ?? 0) + 1;
    seen.set(outcome.name, times);
    return { ...outcome, name: `${file}: ${outcome.name}${times === 1 ? "" : ` (${times})`}` };
  });
}
