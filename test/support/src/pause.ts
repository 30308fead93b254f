import { readdirSync, readFileSync } from "node:fs";

const cell = new Int32Array(new SharedArrayBuffer(4));
const STOP_MS_MAX = 5_000;

/**
 * SIGSTOP, and back only when every thread of the process stands still: on a busy machine the others run on for a while after the signal was
 * sent, and a "paused" server would still answer. Blocks the caller for that time.
 */
export function pauseProcess(pid: number): void {
  process.kill(pid, "SIGSTOP");
  for (let waitedMs = 0; waitedMs < STOP_MS_MAX; waitedMs += 1) {
    if (readdirSync(`/proc/${pid}/task`).every((task) => stateOf(pid, task) === "T")) return;
    Atomics.wait(cell, 0, 0, 1);
  }
  throw new Error(`process ${pid} does not stop`);
}
function stateOf(pid: number, task: string): string {
  try {
    const stat = readFileSync(`/proc/${pid}/task/${task}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3);
  } catch {
    // A thread that ended meanwhile.
    return "T";
  }
}
