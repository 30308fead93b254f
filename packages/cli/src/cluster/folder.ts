import { chmod, mkdir, open, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "@sluice/runtime/clock";
import { CommandFailure } from "../exit.ts";
import { processStart, processState } from "./pid.ts";
import type { ClusterSpec } from "./spec.ts";

/**
 *   DIR/cluster.json     the processes: endpoints, pids, how to start each again
 *   DIR/logs/<id>.log    what each wrote
 *   DIR/data/<id>/       what each keeps
 *   DIR/secrets/         mode 0600: the cluster's secret, keys of the object store
 *   DIR/lock             held while cluster.json changes
 */
export const clusterFile = (dir: string): string => join(dir, "cluster.json");

export async function readSpec(dir: string): Promise<ClusterSpec | undefined> {
  let text: string;
  try {
    text = await readFile(clusterFile(dir), "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  const spec = JSON.parse(text) as Partial<ClusterSpec>;
  if (typeof spec.processes !== "object" || typeof spec.options !== "object")
    throw new CommandFailure(`${clusterFile(dir)} was not written by sluice cluster up`);
  return spec as ClusterSpec;
}
/** Readers see the old file or the new one, never half of one. */
export async function writeSpec(dir: string, spec: ClusterSpec): Promise<void> {
  const next = `${clusterFile(dir)}.next`;
  await writeFile(next, `${JSON.stringify(spec, undefined, 2)}\n`);
  await rename(next, clusterFile(dir));
}

/** Writes a secret that only this user can read; gives the path back. */
export async function writeSecret(dir: string, name: string, value: string): Promise<string> {
  const folder = join(dir, "secrets");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await chmod(folder, 0o700);
  const path = join(folder, name);
  await writeFile(path, value, { mode: 0o600 });
  await chmod(path, 0o600);
  return path;
}
export async function readSecret(dir: string, name: string): Promise<string | undefined> {
  return readFile(join(dir, "secrets", name), "utf8").catch(() => undefined);
}

const LOCK_WAIT_MS = 30_000;
const LOCK_LOOK_MS = 20;
const LOCK_EMPTY_MS = 2_000;

/** One command at a time changes the folder. A lock whose holder has died is taken over. */
export async function withLock<T>(dir: string, work: () => Promise<T>): Promise<T> {
  const path = join(dir, "lock");
  const start = (await processStart(process.pid)) ?? "";
  const untilMs = systemClock.monotonicMs() + LOCK_WAIT_MS;
  for (;;) {
    try {
      const file = await open(path, "wx");
      await file.writeFile(JSON.stringify({ pid: process.pid, start }));
      await file.close();
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    if (systemClock.monotonicMs() >= untilMs) throw new CommandFailure(`another command holds ${path}`);
    if (await holderIsGone(path)) await rm(path, { force: true });
    else await systemClock.sleep(LOCK_LOOK_MS);
  }
  try {
    return await work();
  } finally {
    await rm(path, { force: true });
  }
}
async function holderIsGone(path: string): Promise<boolean> {
  try {
    const holder = JSON.parse(await readFile(path, "utf8")) as { pid: number; start: string };
    return (await processState(holder)) === "gone";
  } catch {
    // Gone already, or not written yet; not written for long: its maker died between the two steps.
    const made = await stat(path).catch(() => undefined);
    return made !== undefined && systemClock.wallMs() - made.mtimeMs > LOCK_EMPTY_MS;
  }
}
