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

export interface ProbeResult {
  readonly ready: boolean;
  /** Why it is not; or what it warns of although it is. */
  readonly reason: string;
}
const notReady = (reason: string): ProbeResult => ({ ready: false, reason });

export async function probe(kind: ClusterKind, address: string): Promise<ProbeResult> {
  const answer = await get(`http://${address}${kind === "etcd" ? "/health" : "/readyz"}`);
  if (answer === undefined) return notReady("no answer");
  if (kind === "etcd") return /"health":\s*"true"/.test(answer.body) ? { ready: true, reason: "" } : notReady("not healthy");
  const ready = answer.status === 200;
  const told = toldBy(answer.body, ready ? "warnings" : "checks");
  return { ready, reason: told === "" && !ready ? `status ${answer.status}` : told };
}
function toldBy(body: string, part: "checks" | "warnings"): string {
  try {
    const texts = (JSON.parse(body) as Partial<Record<typeof part, Record<string, string>>>)[part] ?? {};
    return Object.entries(texts)
      .filter(([, text]) => text !== "ok")
      .map(([name, text]) => `${name}: ${text}`)
      .join("; ");
  } catch {
    return "";
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

/** What happens while a process is waited for. */
interface Wait {
  readonly signal?: AbortSignal | undefined;
  /** Told what is waited for once it has taken `noteAfterMs`, and when that changes. */
  readonly progress: (text: string) => void;
  readonly noteAfterMs: number;
  /** Why there is nothing to wait for, when it is so. */
  readonly hopeless?: (() => Promise<string | undefined>) | undefined;
}
/** Waits until the process serves. Throws when it ends, when it cannot serve, when the time is over, or with the signal's reason. */
export async function awaitReady(target: Probe, timeoutMs: number, { signal, progress, noteAfterMs, hopeless }: Wait): Promise<void> {
  const { id, log } = target;
  const startMs = systemClock.monotonicMs();
  let told: string | undefined;
  for (;;) {
    signal?.throwIfAborted();
    const { ready, reason: seen } = await probe(target.kind, target.address);
    if (ready) return;
    if ((await processState(target.ref)) === "gone") throw new CommandFailure(`${id} ended while it started; ${await endOf(log)}`);
    const passedMs = systemClock.monotonicMs() - startMs;
    const lacks = await hopeless?.();
    if (lacks !== undefined) throw new CommandFailure(`${id} runs (pid ${target.ref.pid}) and cannot serve (${seen}): ${lacks}`);
    if (passedMs >= timeoutMs) throw new CommandFailure(`${id} does not serve after ${timeoutMs / 1_000} s (${seen}); ${await endOf(log)}`);
    if (passedMs >= noteAfterMs && seen !== told) {
      progress(`${id} does not serve yet: ${seen} (waiting ${timeoutMs / 1_000} s at most)`);
      told = seen;
    }
    await systemClock.sleep(PROBE_EVERY_MS, signal);
  }
}
const TAIL_LINES = 10;
const TAIL_CHARS_MAX = 4_000;
async function endOf(log: string): Promise<string> {
  const text = (await readFile(log, "utf8").catch(() => "")).trimEnd();
  if (text === "") return "it printed nothing";
  return `the end of ${log}:\n${text.split("\n").slice(-TAIL_LINES).join("\n").slice(-TAIL_CHARS_MAX)}`;
}
