/** Runs one command of a check or test stage within a time budget, its output passed on; the whole process group ends with it. */
import { spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";

export const root = join(import.meta.dirname, "..");
const bin = join(root, "node_modules/.bin");
export const environment: NodeJS.ProcessEnv = { ...process.env, PATH: `${bin}:${process.env["PATH"] ?? ""}` };

const running = new Set<ChildProcess>();
function endGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // The group is gone already.
  }
}
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => {
    for (const child of running) endGroup(child);
    process.exit(1);
  });
}

export interface RunResult {
  readonly ok: boolean;
  readonly timedOut: boolean;
  readonly seconds: number;
  readonly lastLine: string;
}

export interface RunOptions {
  readonly budgetSeconds: number;
  /** Shows the output only when the command fails. */
  readonly quiet?: boolean;
  /** Beside the program's own environment. */
  readonly environment?: NodeJS.ProcessEnv;
}

/** `args[0]` is found in node_modules/.bin first. `budgetSeconds` is a hard stop. */
export function run(args: readonly string[], options: RunOptions): Promise<RunResult> {
  const started = Date.now();
  return new Promise((resolve) => {
    const child = spawn(args[0] as string, args.slice(1), {
      cwd: root,
      env: { ...environment, ...options.environment },
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    running.add(child);
    let tail = "";
    let output = "";
    let timedOut = false;
    const take = (chunk: Buffer): void => {
      const text = chunk.toString("utf8");
      tail = (tail + text).slice(-2000);
      if (options.quiet === true) output = (output + text).slice(-200_000);
      else process.stdout.write(chunk);
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    const timer = setTimeout(() => {
      timedOut = true;
      endGroup(child);
    }, options.budgetSeconds * 1000);
    const finish = (ok: boolean): void => {
      clearTimeout(timer);
      running.delete(child);
      endGroup(child);
      if (!ok && options.quiet === true) process.stdout.write(output);
      const lines = tail.trimEnd().split("\n");
      resolve({ ok, timedOut, seconds: (Date.now() - started) / 1000, lastLine: lines.at(-1) ?? "" });
    };
    child.once("error", (error) => {
      process.stdout.write(`${error.message}\n`);
      finish(false);
    });
    child.once("close", (code) => finish(code === 0 && !timedOut));
  });
}
