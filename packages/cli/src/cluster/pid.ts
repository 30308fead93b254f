import { readFile } from "node:fs/promises";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { systemClock } from "@sluice/runtime/clock";

/**
 * A process id alone names nobody: after the process has gone, the system gives the number to a stranger. So a process is remembered
 * with its start time, and is signalled only while both agree. (Between the look and the signal lie some microseconds; a number
 * is not given out again that soon, since systems count up.)
 */
export interface ProcessRef {
  readonly pid: number;
  /** As `processStart` told it right after the process was made. */
  readonly start: string;
}
export type ProcessState = "running" | "paused" | "gone";

const run = promisify(execFile);

/**
 * When a process started, as text to be compared and not to be read; undefined when there is none (a zombie is none).
 * Linux: `<boot id>/<clock ticks since boot>`; elsewhere the start time that `ps` prints.
 */
export async function processStart(pid: number): Promise<string | undefined> {
  return (await look(pid))?.start;
}
export async function processState(ref: ProcessRef): Promise<ProcessState> {
  const seen = await look(ref.pid);
  if (seen === undefined || seen.start !== ref.start) return "gone";
  return seen.paused ? "paused" : "running";
}

/** Sends the signal if the process is still the one that was meant; false when it is gone. */
export async function signalProcess(ref: ProcessRef, signal: "SIGTERM" | "SIGKILL" | "SIGSTOP" | "SIGCONT"): Promise<boolean> {
  if ((await processState(ref)) === "gone") return false;
  try {
    process.kill(ref.pid, signal);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw error;
  }
}

const LOOK_EVERY_MS = 20;

/** True when the process got into the state within the time. */
export async function awaitState(ref: ProcessRef, wanted: ProcessState, timeoutMs: number): Promise<boolean> {
  const untilMs = systemClock.monotonicMs() + timeoutMs;
  for (;;) {
    const state = await processState(ref);
    if (state === wanted) return true;
    if (state === "gone" || systemClock.monotonicMs() >= untilMs) return false;
    await systemClock.sleep(LOOK_EVERY_MS);
  }
}

let bootId: Promise<string> | undefined;

interface Look {
  readonly start: string;
  readonly paused: boolean;
}
async function look(pid: number): Promise<Look | undefined> {
  if (!Number.isSafeInteger(pid) || pid < 2) return undefined;
  if (process.platform !== "linux") return lookWithPs(pid);
  let stat: string;
  try {
    stat = await readFile(`/proc/${pid}/stat`, "utf8");
  } catch {
    return undefined;
  }
  // "pid (name) state ppid ...": the name may hold spaces and brackets, so fields are counted from the last bracket.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const state = fields[0];
  const ticks = fields[19];
  if (ticks === undefined || state === "Z" || state === "X") return undefined;
  bootId ??= readFile("/proc/sys/kernel/random/boot_id", "utf8").then(
    (text) => text.trim(),
    () => "unknown",
  );
  return { start: `${await bootId}/${ticks}`, paused: state === "T" || state === "t" };
}
async function lookWithPs(pid: number): Promise<Look | undefined> {
  try {
    const { stdout } = await run("ps", ["-o", "state=,lstart=", "-p", String(pid)], { env: { PATH: process.env["PATH"], LC_ALL: "C" } });
    const match = /^\s*(\S+)\s+(.+?)\s*$/.exec(stdout);
    if (match === null || match[1]!.startsWith("Z")) return undefined;
    return { start: match[2]!, paused: match[1]!.startsWith("T") };
  } catch {
    return undefined;
  }
}
