import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { aptInstall, findProgram } from "./tools.ts";

/** Debian's kcat on Debian's librdkafka: the oldest Kafka client that has to work. Throws with what to do when it cannot be installed. */
export async function ensureKcat(): Promise<string> {
  const more = ["/usr/bin"];
  if (findProgram("kcat", more) === undefined) await aptInstall(["kcat"]);
  const path = findProgram("kcat", more);
  if (path === undefined) throw new Error("kcat is not on PATH after its installation");
  return path;
}

export interface KcatResult {
  readonly code: number | string;
  readonly out: string;
  readonly err: string;
}
export interface RunningKcat {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly done: Promise<KcatResult>;
  /** Standard output so far. */
  readonly out: () => string;
}
const TIMEOUT_MS = 60_000;

export async function startKcat(args: readonly string[], timeoutMs: number = TIMEOUT_MS): Promise<RunningKcat> {
  const child = spawn(await ensureKcat(), [...args], { stdio: ["pipe", "pipe", "pipe"], timeout: timeoutMs, killSignal: "SIGKILL" });
  const text = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (data: string) => void (text.out += data));
  child.stderr.setEncoding("utf8").on("data", (data: string) => void (text.err += data));
  child.stdin.on("error", () => undefined);
  const done = once(child, "close").then(([code, signal]) => ({ code: (code ?? signal) as number | string, ...text }));
  return { child, done, out: () => text.out };
}
/** kcat with `input` on its standard input, to its end. */
export async function kcat(args: readonly string[], input = ""): Promise<KcatResult> {
  const { child, done } = await startKcat(args);
  child.stdin.end(input);
  return done;
}
