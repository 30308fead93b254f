import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { request } from "node:http";
import { systemClock } from "@sluice/runtime/clock";
import { CommandFailure } from "../exit.ts";
import { processStart, processState, type ProcessRef } from "./pid.ts";
import type { ClusterKind } from "./spec.ts";

/** Of the environment's SLUICE_ names none is passed on: a service refuses those it does not know, and all of ours go in as flags. */
function serviceEnvironment(): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) if (value !== undefined && !name.startsWith("SLUICE_")) out[name] = value;
  return out;
}

/** Starts a process that outlives this one, in a session of its own, writing to its log. */
export async function launch(command: string, argv: readonly string[], log: string): Promise<ProcessRef> {
  const fd = openSync(log, "a");
  try {
    const child = spawn(command, argv, { stdio: ["ignore", fd, fd], detached: true, env: serviceEnvironment() });
    await once(child, "spawn");
    child.unref();
    const pid = child.pid!;
    // Gone already: the empty start time matches no process.
    return { pid, start: (await processStart(pid)) ?? "" };
  } catch (cause) {
    throw new CommandFailure(`${command} cannot be started: ${(cause as Error).message}`, undefined, { cause });
  } finally {
    closeSync(fd);
  }
}

/** Where a process says that it serves. */
export interface Probe {
  readonly kind: ClusterKind;
  readonly id: string;
  readonly address: string;
  readonly ref: ProcessRef;
  readonly log: string;
}
const PROBE_TIMEOUT_MS = 1_000;
const PROBE_EVERY_MS = 50;

/** "ready", or the reason why not. */
export async function probe(kind: ClusterKind, address: string): Promise<string> {
  const answer = await get(`http://${address}${kind === "etcd" ? "/health" : "/readyz"}`);
  if (answer === undefined) return "no answer";
  if (kind === "etcd") return /"health":\s*"true"/.test(answer.body) ? "ready" : "not healthy";
  if (answer.status === 200) return "ready";
  try {
    const { checks } = JSON.parse(answer.body) as { checks: Record<string, string> };
    const failed = Object.entries(checks).filter(([, text]) => text !== "ok");
    return failed.map(([name, text]) => `${name}: ${text}`).join("; ") || `status ${answer.status}`;
  } catch {
    return `status ${answer.status}`;
  }
}
function get(url: string): Promise<{ status: number; body: string } | undefined> {
  return new Promise((resolve) => {
    const call = request(url, { agent: false, timeout: PROBE_TIMEOUT_MS }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (text: string) => void (body.length < 65_536 && (body += text)));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
      response.on("error", () => resolve(undefined));
    });
    call.on("timeout", () => call.destroy());
    call.on("error", () => resolve(undefined));
    call.end();
  });
}

/** Waits until the process serves. Throws when it ends, when the time is over, or with the signal's reason. */
export async function awaitReady(target: Probe, timeoutMs: number, signal?: AbortSignal): Promise<void> {
  const untilMs = systemClock.monotonicMs() + timeoutMs;
  for (;;) {
    signal?.throwIfAborted();
    const seen = await probe(target.kind, target.address);
    if (seen === "ready") return;
    if ((await processState(target.ref)) === "gone")
      throw new CommandFailure(`${target.id} ended while it started; the end of ${target.log}:\n${await tail(target.log)}`);
    if (systemClock.monotonicMs() >= untilMs)
      throw new CommandFailure(
        `${target.id} does not serve after ${timeoutMs / 1_000} s (${seen}); the end of ${target.log}:\n${await tail(target.log)}`,
      );
    await systemClock.sleep(PROBE_EVERY_MS, signal);
  }
}
const TAIL_LINES = 5;
const TAIL_CHARS_MAX = 2_000;
async function tail(path: string): Promise<string> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text.trimEnd().split("\n").slice(-TAIL_LINES).join("\n").slice(-TAIL_CHARS_MAX);
}
