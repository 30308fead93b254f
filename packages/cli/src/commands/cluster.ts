import { isAbsolute, resolve } from "node:path";
import { clusterUp, openCluster, type ClusterUpOptions } from "../cluster/cluster.ts";
import { typed } from "../command-line.ts";
import { CommandFailure, exitCodes, UsageError } from "../exit.ts";
import { type Column, formatTable, type OutputFormat, printRows } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { clusterFile, readSpec } from "../cluster/folder.ts";
import type { ClusterHandle, MemberStatus } from "../cluster/handle.ts";

export type UpOptions = Omit<ClusterUpOptions, "credentials" | "signal" | "progress">;

const ACCESS_KEY = "SLUICE_OBJECT_STORE_ACCESS_KEY";
const SECRET_KEY = "SLUICE_OBJECT_STORE_SECRET_KEY";

export async function up(options: UpOptions, terminal: Terminal): Promise<number> {
  const { env } = terminal;
  const accessKey = env[ACCESS_KEY];
  const secretKey = env[SECRET_KEY];
  const { objectStore } = options;
  // A cluster that is there keeps its own.
  const isNew = (await readSpec(resolve(options.dir)).catch(() => undefined)) === undefined;
  if (isNew && objectStore?.startsWith("s3:") === true && (accessKey === undefined || secretKey === undefined))
    throw new UsageError(`--object-store ${objectStore}: its keys come from the environment, ${ACCESS_KEY} and ${SECRET_KEY}`);
  if (objectStore !== undefined && !isAbsolute(objectStore) && objectStore.startsWith("memory:"))
    throw new UsageError("--object-store memory: is of one process, and a cluster has many");
  const signal = terminal.interrupts();
  let handle: ClusterHandle;
  try {
    handle = await clusterUp({
      ...options,
      ...(accessKey !== undefined && secretKey !== undefined && { credentials: { accessKey, secretKey } }),
      signal,
      progress: (text) => terminal.note(text),
    });
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new CommandFailure("interrupted: the processes that had been started were ended", exitCodes.interrupted, { cause: error });
  }
  const { proxies } = handle.spec;
  const endpoints = proxies.map((proxy) => proxy.grpc).join(",");
  const kafka = proxies.map((proxy) => proxy.kafka).join(",");
  await terminal.out(`${clusterFile(handle.dir)}\n`);
  terminal.note(
    `The cluster serves. Try:\n  export SLUICE_ENDPOINT=${endpoints}\n  ${typed("status")}\n  ${typed("cluster", "down", "--dir", options.dir)}\nKafka clients: ${kafka}`,
  );
  return exitCodes.ok;
}

const statusColumns: readonly Column<MemberStatus>[] = [
  { title: "id", text: (member) => member.id },
  { title: "pid", text: (member) => member.pid },
  { title: "zone", text: (member) => member.zone },
  { title: "state", text: (member) => member.state },
  { title: "ready", text: (member) => (member.ready ? "yes" : "no") },
  { title: "address", text: (member) => member.address },
  { title: "reason", text: (member) => member.reason },
];
export async function clusterStatus(options: { readonly dir: string; readonly output: OutputFormat }, terminal: Terminal): Promise<number> {
  const cluster = await openCluster(options.dir);
  const members = await cluster.status();
  if (options.output === "table") await terminal.out(formatTable(members, statusColumns));
  else await printRows(terminal, options.output, members, statusColumns);
  return exitCodes.ok;
}
export async function down(options: { readonly dir: string }, terminal: Terminal): Promise<number> {
  const cluster = await openCluster(options.dir);
  let ended = 0;
  await cluster.down((text) => {
    ended++;
    terminal.note(text);
  });
  if (ended === 0) terminal.note(`no process of ${options.dir} ran`);
  return exitCodes.ok;
}

export type ProcessVerb = "kill" | "pause" | "resume" | "start" | "stop";
const DONE: Readonly<Record<ProcessVerb, string>> = {
  kill: "killed",
  pause: "paused",
  resume: "resumed",
  start: "serves",
  stop: "stopped",
};

/** All ids are looked at before the first signal is sent; then the processes are handled together. */
export async function each(
  verb: ProcessVerb,
  ids: readonly string[],
  options: { readonly dir: string },
  terminal: Terminal,
): Promise<number> {
  const cluster: ClusterHandle = await openCluster(options.dir);
  const unknown = ids.find((id) => !Object.hasOwn(cluster.spec.processes, id));
  if (unknown !== undefined)
    throw new UsageError(`${options.dir} has no ${unknown}; it has ${Object.keys(cluster.spec.processes).join(", ")}`);
  const known = [...new Set(ids)];
  const handle = (some: readonly string[]): Promise<PromiseSettledResult<void>[]> =>
    Promise.allSettled(
      some.map(async (id) => {
        await cluster[verb](id, (text) => terminal.note(text));
        terminal.note(`${id} ${DONE[verb]}`);
      }),
    );
  // All others need etcd to start.
  const etcd = verb === "start" ? known.filter((id) => cluster.spec.etcd.some((entry) => entry.id === id)) : [];
  const outcomes = [...(await handle(etcd)), ...(await handle(known.filter((id) => !etcd.includes(id))))];
  const failed = outcomes.find((outcome) => outcome.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  return exitCodes.ok;
}
