import { mkdir, readdir, rm, rmdir } from "node:fs/promises";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { systemRandom } from "@sluice/runtime/random";
import { CommandFailure, UsageError } from "../exit.ts";
import { checkFolder, makeFolder } from "../folder-kind.ts";
import { findEtcd } from "./etcd-binary.ts";
import { clusterFile, readSecret, readSpec, withLock, writeSecret, writeSpec } from "./folder.ts";
import { awaitReady, launch, probe, type Probe } from "./launch.ts";
import { layOut } from "./layout.ts";
import { awaitState, processState, signalProcess, type ProcessRef, type ProcessState } from "./pid.ts";
import { allocatePorts } from "./ports.ts";
import {
  clusterKinds,
  defaultCounts,
  membersOf,
  specOf,
  withProcess,
  type ClusterKind,
  type ClusterOptions,
  type ClusterSpec,
  type Member,
} from "./spec.ts";

export interface ClusterUpOptions extends Partial<Omit<ClusterOptions, "objectStore">> {
  /** Everything of the cluster lies in this folder; it is made. */
  readonly dir: string;
  /** A folder or an s3 URL; default a folder within `dir`. */
  readonly objectStore?: string | undefined;
  /** Keys of an s3 store; kept in `dir`, readable by this user alone. */
  readonly credentials?: { readonly accessKey: string; readonly secretKey: string } | undefined;
  /** Default: the first `etcd` of the PATH. */
  readonly etcd?: string | undefined;
  readonly signal?: AbortSignal;
  /** Told what happens, a line each. */
  readonly progress?: (text: string) => void;
}
export interface MemberStatus {
  readonly id: string;
  readonly kind: ClusterKind;
  readonly pid: number;
  readonly zone: string | null;
  readonly state: ProcessState;
  readonly ready: boolean;
  /** Why it is not ready; empty when it is. */
  readonly reason: string;
  readonly address: string;
}
/** A cluster of processes on this machine. Every method takes ids such as "broker-1" and works from any process: the folder knows all. */
export interface ClusterHandle extends AsyncDisposable {
  readonly dir: string;
  /** As last read or written by this handle. */
  readonly spec: ClusterSpec;
  /** SIGKILL; resolves when the process is gone. */
  kill(id: string): Promise<void>;
  /** SIGTERM; resolves when the process is gone, which it is made to be after 30 s. */
  stop(id: string): Promise<void>;
  /** SIGSTOP: connections stay open and nothing answers. */
  pause(id: string): Promise<void>;
  /** SIGCONT. */
  resume(id: string): Promise<void>;
  /** Same program, flags, ports and data; resolves when it serves. Nothing to do when it runs. */
  start(id: string): Promise<void>;
  status(): Promise<MemberStatus[]>;
  /** Ends all processes of the cluster, clients' side first. The folder stays: `clusterUp` on it brings the same cluster back. */
  down(progress?: (text: string) => void): Promise<void>;
}

const READY_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 30_000;
/** On the way down nobody waits for a neat end for long: what was acknowledged is on disk. */
const DOWN_TIMEOUT_MS = 12_000;
const KILL_TIMEOUT_MS = 10_000;
const PAUSE_TIMEOUT_MS = 2_000;

/**
 * Starts a cluster and returns when all of it serves. On a folder that holds a stopped cluster of the same options, starts that one again
 * with its data. Throws when a process does not get ready, after it has ended what it had started; the logs stay.
 */
export async function clusterUp(options: ClusterUpOptions): Promise<ClusterHandle> {
  const dir = resolve(options.dir);
  await checkFolder(dir, "cluster", "--dir");
  const uppermost = await makeFolder(dir, "--dir");
  const before = new Set(await readdir(dir));
  const wanted = fillIn(dir, options);
  let isNew = false;
  let handle: LocalCluster;
  try {
    handle = await withLock(dir, async () => {
      const known = await readSpec(dir);
      isNew = known === undefined;
      const spec = known === undefined ? await newSpec(dir, wanted, options) : await knownSpec(dir, known, wanted);
      for (const name of ["logs", "data"]) await mkdir(join(dir, name), { recursive: true });
      return new LocalCluster(dir, spec);
    });
  } catch (error) {
    // Refused before anything was started: the folder is as it was.
    if (isNew && !before.has("secrets")) await rm(join(dir, "secrets"), { recursive: true, force: true });
    if (uppermost !== undefined) await removeEmpty(dir, uppermost);
    throw error;
  }
  try {
    await handle.startAll(options.progress ?? (() => undefined), options.signal);
  } catch (error) {
    await handle.down();
    // What never served binds nobody: the next try may have other options.
    if (isNew) await rm(clusterFile(dir), { force: true });
    throw error;
  }
  return handle;
}
/** The cluster of a folder, running or not. */
export async function openCluster(dir: string): Promise<ClusterHandle> {
  const spec = await readSpec(resolve(dir));
  if (spec === undefined) throw new CommandFailure(`${dir} holds no cluster; start one: sluice cluster up --dir ${dir}`);
  return new LocalCluster(resolve(dir), spec);
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

/** Segments stay on the storage nodes. */
const NO_OBJECT_STORE = "none";

function fillIn(dir: string, options: ClusterUpOptions): ClusterOptions {
  const { objectStore } = options;
  const isUrl = objectStore !== undefined && /^[A-Za-z][A-Za-z0-9+.-]*:/.test(objectStore);
  const count = (name: keyof typeof defaultCounts): number => options[name] ?? defaultCounts[name];
  return {
    proxies: count("proxies"),
    brokers: count("brokers"),
    stores: count("stores"),
    controllers: count("controllers"),
    coordinators: count("coordinators"),
    zones: count("zones"),
    objectStore:
      objectStore === undefined
        ? join(dir, "data", "objects")
        : isUrl || isAbsolute(objectStore) || objectStore === NO_OBJECT_STORE
          ? objectStore
          : resolve(objectStore),
    portBase: options.portBase,
    config: options.config ?? {},
  };
}
async function newSpec(dir: string, wanted: ClusterOptions, options: ClusterUpOptions): Promise<ClusterSpec> {
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
async function knownSpec(dir: string, known: ClusterSpec, wanted: ClusterOptions): Promise<ClusterSpec> {
  for (const [id, ref] of Object.entries(known.processes)) {
    if ((await processState(ref)) !== "gone")
      throw new CommandFailure(`${id} of ${dir} runs already (pid ${ref.pid}); end it first: sluice cluster down --dir ${dir}`);
  }
  const { "cluster.secret": _, ...config } = wanted.config;
  if (canonical({ ...wanted, config }) !== canonical(known.options))
    throw new UsageError(`${dir} holds a cluster of other options; take them from cluster.json, or use another folder`);
  return known;
}
/** The same text for the same options, in whatever order they were given. */
const canonical = (options: ClusterOptions): string => {
  const byName = (object: object): [string, unknown][] =>
    Object.entries(object)
      .filter(([, value]) => value !== undefined)
      .toSorted(([a], [b]) => a.localeCompare(b));
  return JSON.stringify([byName({ ...options, config: undefined }), byName(options.config)]);
};

class LocalCluster implements ClusterHandle {
  readonly dir: string;
  #spec: ClusterSpec;

  constructor(dir: string, spec: ClusterSpec) {
    this.dir = dir;
    this.#spec = spec;
  }
  get spec(): ClusterSpec {
    return this.#spec;
  }

  /** etcd first; the rest together, since each waits for what it needs. */
  async startAll(progress: (text: string) => void, signal: AbortSignal | undefined): Promise<void> {
    const members = membersOf(this.#spec);
    const etcd = members.filter((member) => member.kind === "etcd");
    const others = members.filter((member) => member.kind !== "etcd");
    for (const group of [etcd, others]) {
      await withLock(this.dir, async () => {
        // In one lock: a start that another command makes meanwhile must not be lost from the file.
        this.#spec = (await readSpec(this.dir)) ?? this.#spec;
        for (const { entry } of group) await this.#launch(entry.id);
        await writeSpec(this.dir, this.#spec);
      });
      const waits = group.map(async (member) => {
        await awaitReady(this.#probe(member.entry.id), READY_TIMEOUT_MS, signal);
        progress(`${member.entry.id} serves`);
      });
      await Promise.all(waits);
    }
  }
  async start(id: string): Promise<void> {
    this.#member(id);
    await withLock(this.dir, async () => {
      this.#spec = (await readSpec(this.dir)) ?? this.#spec;
      if ((await processState(this.#ref(id))) !== "gone") return;
      await this.#launch(id);
      await writeSpec(this.dir, this.#spec);
    });
    await awaitReady(this.#probe(id), READY_TIMEOUT_MS);
  }
  async kill(id: string): Promise<void> {
    const ref = await this.#fresh(id);
    if (await signalProcess(ref, "SIGKILL")) await this.#awaitGone(id, ref, KILL_TIMEOUT_MS);
  }
  async stop(id: string): Promise<void> {
    await this.#end(id, await this.#fresh(id), STOP_TIMEOUT_MS);
  }
  async pause(id: string): Promise<void> {
    const ref = await this.#fresh(id);
    if (!(await signalProcess(ref, "SIGSTOP"))) throw new CommandFailure(`${id} does not run`);
    if (!(await awaitState(ref, "paused", PAUSE_TIMEOUT_MS))) throw new CommandFailure(`${id} (pid ${ref.pid}) did not stop`);
  }
  async resume(id: string): Promise<void> {
    const ref = await this.#fresh(id);
    if (!(await signalProcess(ref, "SIGCONT"))) throw new CommandFailure(`${id} does not run`);
  }

  async status(): Promise<MemberStatus[]> {
    this.#spec = (await readSpec(this.dir)) ?? this.#spec;
    return Promise.all(
      membersOf(this.#spec).map(async ({ kind, entry }) => {
        const state = await processState(this.#ref(entry.id));
        const seen = state === "running" ? await probe(kind, entry.metrics ?? entry.client ?? "") : state;
        return {
          id: entry.id,
          kind,
          pid: entry.pid,
          zone: entry.zone ?? null,
          state,
          ready: seen === "ready",
          reason: seen === "ready" ? "" : seen,
          address: entry.grpc ?? entry.rpc ?? entry.client ?? "",
        };
      }),
    );
  }
  async down(progress: (text: string) => void = () => undefined): Promise<void> {
    this.#spec = (await readSpec(this.dir)) ?? this.#spec;
    const members = membersOf(this.#spec);
    // Clients' side first, what the others stand on last. Coordinators before brokers: their last writes go through them.
    for (const kind of clusterKinds.toReversed()) {
      await Promise.all(
        members
          .filter((member) => member.kind === kind)
          .map(async ({ entry }) => {
            const how = await this.#end(entry.id, this.#ref(entry.id), DOWN_TIMEOUT_MS);
            if (how !== "gone") progress(`${entry.id} ${how}`);
          }),
      );
    }
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.down();
  }

  /** SIGTERM, and SIGKILL when the time is over. A paused process is woken up, since it could not hear otherwise. */
  async #end(id: string, ref: ProcessRef, timeoutMs: number): Promise<"gone" | "stopped" | "killed"> {
    if (!(await signalProcess(ref, "SIGTERM"))) return "gone";
    await signalProcess(ref, "SIGCONT");
    if (await awaitState(ref, "gone", timeoutMs)) return "stopped";
    await signalProcess(ref, "SIGKILL");
    await this.#awaitGone(id, ref, KILL_TIMEOUT_MS);
    return "killed";
  }
  async #awaitGone(id: string, ref: ProcessRef, timeoutMs: number): Promise<void> {
    if (!(await awaitState(ref, "gone", timeoutMs))) throw new CommandFailure(`${id} (pid ${ref.pid}) does not end`);
  }
  async #launch(id: string): Promise<void> {
    const record = this.#spec.processes[id]!;
    this.#spec = withProcess(this.#spec, id, await launch(record.command, record.argv, record.log));
  }
  async #fresh(id: string): Promise<ProcessRef> {
    this.#spec = (await readSpec(this.dir)) ?? this.#spec;
    return this.#ref(id);
  }
  #ref(id: string): ProcessRef {
    const record = this.#spec.processes[id];
    if (record === undefined) {
      const ids = Object.keys(this.#spec.processes).join(", ");
      throw new CommandFailure(`${this.dir} has no ${id}; it has ${ids}`);
    }
    return record;
  }
  #member(id: string): Member {
    this.#ref(id);
    return membersOf(this.#spec).find((member) => member.entry.id === id)!;
  }
  #probe(id: string): Probe {
    const { kind, entry } = this.#member(id);
    const record = this.#spec.processes[id]!;
    return { kind, id, address: entry.metrics ?? entry.client ?? "", ref: record, log: record.log };
  }
}
