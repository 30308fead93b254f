import { mkdir, readdir, readFile, rm, rmdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { systemRandom } from "@sluice/runtime/random";
import { typed } from "../command-line.ts";
import { CommandFailure, UsageError } from "../exit.ts";
import { checkFolder, makeFolder } from "../folder-kind.ts";
import { etcdPath, findEtcd, isProgram } from "./etcd-binary.ts";
import { clusterFile, readSecret, readSpec, withLock, writeSecret, writeSpec } from "./folder.ts";
import type { ClusterHandle } from "./handle.ts";
import { layOut } from "./layout.ts";
import { LocalCluster } from "./local-cluster.ts";
import { checkObjectStore } from "./object-store.ts";
import { contradiction, fillIn, type Contradiction, type GivenOptions } from "./options.ts";
import { allocatePorts } from "./ports.ts";
import { specOf, type ClusterOptions, type ClusterSpec } from "./spec.ts";

export interface ClusterUpOptions extends GivenOptions {
  /** Everything of the cluster lies in this folder; it is made. */
  readonly dir: string;
  /** Keys of an s3 store; kept in `dir`, readable by this user alone. */
  readonly credentials?: { readonly accessKey: string; readonly secretKey: string } | undefined;
  /** Default: the first `etcd` of the PATH. */
  readonly etcd?: string | undefined;
  readonly signal?: AbortSignal;
  /** Told what happens, a line each. */
  readonly progress?: (text: string) => void;
}

/**
 * Starts a cluster and returns when all of it serves. On a folder that holds one, starts what does not run of it, with its data: options that
 * are left out are those of the folder, others than those are refused. Throws when a process does not get ready, after it has ended what it had
 * started, and nothing else; the logs stay.
 */
export async function clusterUp(options: ClusterUpOptions): Promise<ClusterHandle> {
  const dir = resolve(options.dir);
  await checkFolder(dir, "cluster", "--dir");
  const uppermost = await makeFolder(dir, "--dir");
  const before = new Set(await readdir(dir));
  const progress = options.progress ?? (() => undefined);
  let isNew = false;
  let handle: LocalCluster;
  try {
    handle = await withLock(dir, async () => {
      const known = await readSpec(dir);
      isNew = known === undefined;
      const spec = known === undefined ? await newSpec(dir, options) : await knownSpec(dir, known, options);
      for (const name of ["logs", "data"]) await mkdir(join(dir, name), { recursive: true });
      return new LocalCluster(dir, spec);
    });
  } catch (error) {
    // Refused before anything was started: the folder is as it was.
    if (isNew) await removeMade(dir, before, uppermost);
    throw error;
  }
  try {
    await handle.startAll(progress, options.signal);
  } catch (error) {
    await handle.endStarted(progress);
    // What never served binds nobody: the next try may have other options. Without etcd there is nothing to be kept at all.
    if (isNew && handle.hadEtcd) await rm(clusterFile(dir), { force: true });
    else if (isNew) await removeMade(dir, before, uppermost);
    throw error;
  }
  return handle;
}
/** The cluster of a folder, running or not. */
export async function openCluster(dir: string): Promise<ClusterHandle> {
  const spec = await readSpec(resolve(dir));
  if (spec === undefined) throw new CommandFailure(`${dir} holds no cluster; start one: ${typed("cluster", "up", "--dir", dir)}`);
  return new LocalCluster(resolve(dir), spec);
}

/** Removes what was not there `before`, but for logs that say something, and the folders that were made for it while they are empty. */
async function removeMade(dir: string, before: ReadonlySet<string>, uppermost: string | undefined): Promise<void> {
  for (const name of ["cluster.json", "cluster.json.next", "data", "secrets"])
    if (!before.has(name)) await rm(join(dir, name), { recursive: true, force: true });
  if (!before.has("logs")) {
    const logs = join(dir, "logs");
    for (const name of await readdir(logs).catch(() => [])) if ((await stat(join(logs, name))).size === 0) await rm(join(logs, name));
    await removeEmpty(logs, logs);
  }
  if (uppermost !== undefined) await removeEmpty(dir, uppermost);
}
/** Removes `dir` and the folders above it, up to `uppermost`, while they are empty. */
async function removeEmpty(dir: string, uppermost: string): Promise<void> {
  for (let at = dir; at.startsWith(uppermost); at = dirname(at))
    if (
      await rmdir(at).then(
        () => false,
        () => true,
      )
    )
      return;
}

async function newSpec(dir: string, options: ClusterUpOptions): Promise<ClusterSpec> {
  const wanted: ClusterOptions = fillIn(dir, options);
  await checkObjectStore(wanted.objectStore, options.credentials);
  const etcdBinary = await findEtcd(options.etcd, process.env["PATH"]);
  const { "cluster.secret": given, ...config } = wanted.config;
  const secret = given ?? (await readSecret(dir, "cluster.secret")) ?? Buffer.from(systemRandom.bytes(24)).toString("base64url");
  const secretFiles: Record<string, string> = {
    // A file that the user named stays where it is.
    "cluster.secret": secret.startsWith("file:") ? resolve(secret.slice("file:".length)) : await writeSecret(dir, "cluster.secret", secret),
  };
  if (options.credentials !== undefined) {
    secretFiles["objectStore.accessKey"] = await writeSecret(dir, "objectStore.accessKey", options.credentials.accessKey);
    secretFiles["objectStore.secretKey"] = await writeSecret(dir, "objectStore.secretKey", options.credentials.secretKey);
  }
  const kept = { ...wanted, config };
  const layout = await layOut({ dir, options: kept, etcdBinary, secretFiles });
  const plans = layout.plan(await allocatePorts(layout.portCount, wanted.portBase));
  const spec = specOf(kept, plans, new Map());
  await writeSpec(dir, spec);
  return spec;
}

/** The cluster of the folder, if nothing that was asked for speaks against it. */
async function knownSpec(dir: string, known: ClusterSpec, options: ClusterUpOptions): Promise<ClusterSpec> {
  const { "cluster.secret": secret, ...config } = options.config ?? {};
  const other = contradiction({ ...options, config }, known.options);
  if (other !== undefined) throw contradicted(dir, other);
  if (secret !== undefined) await checkSecret(dir, known, secret);
  const etcd = Object.entries(known.processes).filter(([id]) => id.startsWith("etcd-"));
  const held = etcd[0]?.[1].command;
  if (held === undefined) return known;
  const isThere = await isProgram(held);
  if (isThere && options.etcd !== undefined && etcdPath(options.etcd) !== held)
    throw contradicted(dir, { flag: "--etcd", given: options.etcd, held });
  if (isThere) return known;
  // It was removed, or lies elsewhere now.
  const command = await findEtcd(options.etcd, process.env["PATH"]);
  const moved = Object.fromEntries(etcd.map(([id, record]) => [id, { ...record, command }]));
  const spec = { ...known, processes: { ...known.processes, ...moved } };
  await writeSpec(dir, spec);
  return spec;
}
const contradicted = (dir: string, { flag, given, held }: Contradiction): UsageError =>
  new UsageError(
    `${flag} is ${given}, and the cluster in ${dir} was made with ${held}; nothing was changed\n` +
      `  Start it as it is: ${typed("cluster", "up", "--dir", dir)}; or choose another folder`,
  );
/** Neither of the two is told: they are secrets. */
async function checkSecret(dir: string, known: ClusterSpec, given: string): Promise<void> {
  const FLAG = "--cluster.secret=file:";
  const flags = Object.values(known.processes).flatMap(({ argv }) => argv.filter((flag) => flag.startsWith(FLAG)));
  const file = flags[0]?.slice(FLAG.length);
  if (file === undefined) return;
  const isSame = given.startsWith("file:")
    ? resolve(given.slice("file:".length)) === file
    : given === (await readFile(file, "utf8").catch(() => undefined));
  if (!isSame)
    throw new UsageError(`--config cluster.secret is another one than that of the cluster in ${dir} (${file}); nothing was changed`);
}
