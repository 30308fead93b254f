import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { say, type LibrdkafkaTests } from "@sluice/test-support";
import type { Outcome } from "../support/judge.ts";

/*
 * librdkafka's test program. It ends as a whole when one test runs out of time, so each number gets a process of its own.
 */
export interface Job {
  /** Four digits; a number may have several tests. */
  readonly number: string;
  /** Full names of those that are looked at. */
  readonly names: readonly string[];
  /** Part of the names of the subtests that run; default all. */
  readonly subtest?: string;
  /** Runs all of it; else what librdkafka's own quick run does: fewer messages, fewer subtests. */
  readonly whole?: boolean;
}
export interface RunOptions {
  readonly bootstrap: string;
  readonly folder: string;
  readonly jobs: readonly Job[];
  /** How many at the same time: most of the time most of them wait. */
  readonly concurrency: number;
  /** Of each. */
  readonly timeoutMs: number;
}
/** The tests choose what they try by the broker's version; 4.2 and up would mean share groups. */
const BROKER_VERSION = "4.0.0";
/** On a machine that is busy with other tests at the same time. */
const TIME_FACTOR = 3;
const STATES: Readonly<Record<string, Outcome["status"]>> = { PASSED: "passed", SKIPPED: "skipped" };
const DETAIL_CHARS = 3_000;
const SLOWEST = 30;

/** Of a whole run; in the order in which they end. */
export async function runLibrdkafkaTests(tests: LibrdkafkaTests, options: RunOptions): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const took: Array<readonly [title: string, seconds: number]> = [];
  const queue = [...options.jobs];
  const worker = async (): Promise<void> => {
    for (let job = queue.shift(); job !== undefined; job = queue.shift()) {
      const startMs = performance.now();
      outcomes.push(...(await runJob(tests, options, job)));
      took.push([titleOf(job), Math.round((performance.now() - startMs) / 1_000)]);
    }
  };
  await Promise.all(Array.from({ length: options.concurrency }, worker));
  const slowest = took.toSorted((a, b) => b[1] - a[1]).slice(0, SLOWEST);
  say(`slowest: ${slowest.map(([title, seconds]) => `${title} ${seconds} s`).join(", ")}`);
  return outcomes;
}

const titleOf = (job: Job): string => (job.subtest === undefined ? job.number : `${job.number}-${job.subtest.replaceAll(/\W+/g, "-")}`);

async function runJob(tests: LibrdkafkaTests, { bootstrap, folder, timeoutMs }: RunOptions, job: Job): Promise<Outcome[]> {
  const title = titleOf(job);
  const home = join(folder, title);
  await mkdir(home);
  const config = join(home, "test.conf");
  const report = join(home, "report.json");
  const output = join(home, "output.txt");
  // A prefix of its own: some tests look at all topics that have theirs.
  const lines = [`bootstrap.servers=${bootstrap}`, `test.topic.prefix=t${title}`, `test.timeout.multiplier=${TIME_FACTOR}`];
  await writeFile(config, `${lines.join("\n")}\n`);
  const { CI: _, ...environment } = process.env;
  const env = {
    ...environment,
    TESTS: job.number,
    ...(job.subtest === undefined ? {} : { SUBTESTS: job.subtest }),
    TEST_KAFKA_VERSION: BROKER_VERSION,
    TEST_REPORT: report,
    RDKAFKA_TEST_CONF: config,
    LD_LIBRARY_PATH: tests.libraries,
  };
  // One at a time, none that needs no broker, none that needs a network that it spoils.
  const args = ["-p1", "-L", "-E", ...(job.whole === true ? [] : ["-Q"])];
  const file = await open(output, "w");
  try {
    const child = spawn(tests.program, args, {
      cwd: tests.folder,
      env,
      stdio: ["ignore", file.fd, file.fd],
      timeout: timeoutMs,
      killSignal: "SIGKILL",
    });
    await once(child, "exit");
  } finally {
    await file.close();
  }
  const states = statesOf(await readFile(report, "utf8").catch(() => ""));
  const text = await readFile(output, "utf8");
  return job.names.map((test): Outcome => {
    const name = job.subtest === undefined ? test : `${test}: ${job.subtest}`;
    const status = STATES[states.get(test) ?? ""] ?? "failed";
    return status === "failed" ? { name, status, detail: wordsOf(text) } : { name, status };
  });
}

/** Its report is not always JSON: what a test adds is not escaped. */
export const statesOf = (report: string): Map<string, string> =>
  new Map([...report.matchAll(/"name": "([^"]+)", "state": "([A-Z]+)"/g)].map(([, name = "", state = ""]) => [name, state]));

/** What it says of failures, or else its last lines. */
function wordsOf(output: string): string {
  // oxlint-disable-next-line no-control-regex -- the program colours what it prints
  const lines = output.replaceAll(/\u001B\[\d+m/g, "").split("\n");
  const failed = lines.flatMap((line, i) => (line.startsWith("### Test") ? [line, lines[i + 1] ?? ""] : []));
  return (failed.length > 0 ? failed : lines.slice(-12)).join("\n").slice(0, DETAIL_CHARS);
}
