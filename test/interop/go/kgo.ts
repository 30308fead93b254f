import { spawn } from "node:child_process";
import { once } from "node:events";
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { KgoTests } from "@sluice/test-support";
import type { Outcome } from "../support/judge.ts";

/*
 * A program that `go test -c` has built, run to its end, and what it wrote as the events of `go test -json`.
 */
export interface GoTestOptions {
  /** For what it writes. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  /** Of `go test`, without `-test.`. */
  readonly flags: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}
/** One line of `go test -json`. */
interface TestEvent {
  readonly Action: "run" | "pause" | "cont" | "pass" | "fail" | "skip" | "output" | "start" | "bench" | "attr";
  readonly Test?: string;
  readonly Output?: string;
}
const STATUS = { pass: "passed", fail: "failed", skip: "skipped" } as const;
/** The program ends by itself at its time-out and says where each test stood; this much later it is killed. */
const GRACE_MS = 10_000;
/** Of what a test wrote. */
const DETAIL_CHARS = 4_000;

export async function runGoTests({ tests, folder, test2json }: KgoTests, options: GoTestOptions): Promise<Outcome[]> {
  const written = join(options.folder, "written.txt");
  const events = join(options.folder, "events.json");
  const flags = { v: "test2json", timeout: `${options.timeoutMs}ms`, ...options.flags };
  const args = Object.entries(flags).map(([flag, value]) => `-test.${flag}=${value}`);
  await toFile(tests, args, { cwd: folder, env: options.env, to: written, timeoutMs: options.timeoutMs + GRACE_MS });
  await toFile(test2json, [], { cwd: folder, env: {}, from: written, to: events, timeoutMs: GRACE_MS });
  const file = await open(events);
  try {
    const lines: TestEvent[] = [];
    for await (const line of file.readLines()) lines.push(JSON.parse(line) as TestEvent);
    return outcomesOf(lines);
  } finally {
    await file.close();
  }
}

/** A test that began and did not end has failed. */
export function outcomesOf(events: Iterable<TestEvent>): Outcome[] {
  const outcomes = new Map<string, Outcome>();
  const text = new Map<string, string>();
  for (const { Action: action, Test: name, Output: output } of events) {
    if (name === undefined) continue;
    if (action === "run") outcomes.set(name, { name, status: "failed", detail: "did not end" });
    else if (action === "output") text.set(name, ((text.get(name) ?? "") + (output ?? "")).slice(-DETAIL_CHARS));
    else if (action === "pass" || action === "fail" || action === "skip")
      outcomes.set(name, { name, status: STATUS[action], ...(action === "fail" ? { detail: text.get(name) ?? "" } : {}) });
  }
  return [...outcomes.values()];
}

interface ToFile {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly from?: string;
  readonly to: string;
  readonly timeoutMs: number;
}
/** Runs a program to its end, whatever its exit code: that of tests tells no more than their outcomes. */
async function toFile(program: string, args: readonly string[], { cwd, env, from, to, timeoutMs }: ToFile): Promise<void> {
  const input = from === undefined ? undefined : await open(from);
  const output = await open(to, "w");
  try {
    const stdio = [input?.fd ?? "ignore", output.fd, output.fd] as const;
    const child = spawn(program, [...args], {
      cwd,
      env: { ...process.env, ...env },
      stdio: [...stdio],
      timeout: timeoutMs,
      killSignal: "SIGKILL",
    });
    await once(child, "exit");
  } finally {
    await input?.close();
    await output.close();
  }
}
