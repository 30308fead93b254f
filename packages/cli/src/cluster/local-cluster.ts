import { typed } from "../command-line.ts";
import { CommandFailure } from "../exit.ts";
import { readSpec, withLock, writeSpec } from "./folder.ts";
import type { ClusterHandle, MemberStatus } from "./handle.ts";
import { awaitReady, launch, probe, type Probe } from "./launch.ts";
import { awaitState, processState, signalProcess, type ProcessRef } from "./pid.ts";
import { clusterKinds, membersOf, withProcess, type ClusterSpec, type Member } from "./spec.ts";

const READY_TIMEOUT_MS = 60_000;
/** A start that takes longer tells what it waits for. Of a whole cluster more is usual. */
const START_NOTE_AFTER_MS = 2_000;
const UP_NOTE_AFTER_MS = 10_000;
const STOP_TIMEOUT_MS = 30_000;
/** On the way down nobody waits for a neat end for long: what was acknowledged is on disk. */
const DOWN_TIMEOUT_MS = 12_000;
const KILL_TIMEOUT_MS = 10_000;
const PAUSE_TIMEOUT_MS = 2_000;

/** The processes of one folder. */
export class LocalCluster implements ClusterHandle {
  readonly dir: string;
  #spec: ClusterSpec;

  constructor(dir: string, spec: ClusterSpec) {
    this.dir = dir;
    this.#spec = spec;
  }
  get spec(): ClusterSpec {
    return this.#spec;
  }

  /** What this handle has started last under each id; also what was not written down any more because the next one failed. */
  readonly #started = new Map<string, ProcessRef>();
  /** etcd has served since this handle was made: there may be data. */
  #hadEtcd = false;
  get hadEtcd(): boolean {
    return this.#hadEtcd;
  }

  /**
   * Starts what does not run: etcd first; the rest together, since each waits for what it needs. Resolves when all serve, those too that ran
   * before. One that is paused can neither serve nor be started: then nothing is.
   */
  async startAll(progress: (text: string) => void, signal: AbortSignal | undefined): Promise<void> {
    const members = membersOf(this.#spec);
    await this.#refusePaused(members);
    const etcd = members.filter((member) => member.kind === "etcd");
    const others = members.filter((member) => member.kind !== "etcd");
    for (const group of [etcd, others]) {
      await withLock(this.dir, async () => {
        // In one lock: a start that another command makes meanwhile must not be lost from the file.
        this.#spec = (await readSpec(this.dir)) ?? this.#spec;
        for (const { entry } of group) {
          const ref = this.#ref(entry.id);
          if ((await processState(ref)) === "gone") await this.#launch(entry.id);
          else progress(`${entry.id} runs already (pid ${ref.pid})`);
        }
        await writeSpec(this.dir, this.#spec);
      });
      const waits = group.map(async (member) => {
        const { id } = member.entry;
        // Whatever ends here ends all that was started: there is no way on to be told.
        const hopeless = member.kind === "etcd" ? undefined : async () => (await this.#lacksEtcd())?.what;
        await awaitReady(this.#probe(id), READY_TIMEOUT_MS, { progress, noteAfterMs: UP_NOTE_AFTER_MS, signal, hopeless });
        // Of those that ran before it has been told.
        if (this.#started.has(id)) progress(`${id} serves`);
      });
      await Promise.all(waits);
      this.#hadEtcd = true;
    }
  }
  async #refusePaused(members: readonly Member[]): Promise<void> {
    const paused: string[] = [];
    for (const { entry } of members) if ((await processState(this.#ref(entry.id))) === "paused") paused.push(entry.id);
    if (paused.length === 0) return;
    const which = paused.map((id) => `${id} (pid ${this.#ref(id).pid})`).join(", ");
    throw new CommandFailure(
      `${which} of ${this.dir} ${paused.length === 1 ? "is" : "are"} paused, and nothing was started\n` +
        `  Let go on: ${this.#typed("resume", ...paused)}; or end all: ${this.#typed("down")}`,
    );
  }
  /** Ends what this handle has started, and nothing else. */
  async endStarted(progress: (text: string) => void): Promise<void> {
    await this.#endAll(this.#started, () => undefined);
    for (const { entry } of membersOf(this.#spec)) {
      const ref = this.#ref(entry.id);
      if (!this.#started.has(entry.id) && (await processState(ref)) !== "gone") progress(`${entry.id} is left running (pid ${ref.pid})`);
    }
  }
  async start(id: string, progress: (text: string) => void = () => undefined): Promise<void> {
    const { kind } = this.#member(id);
    await withLock(this.dir, async () => {
      this.#spec = (await readSpec(this.dir)) ?? this.#spec;
      const state = await processState(this.#ref(id));
      if (state === "paused")
        throw new CommandFailure(
          `${id} (pid ${this.#ref(id).pid}) is paused, and it was not started\n  Let go on: ${this.#typed("resume", id)}`,
        );
      if (state !== "gone") return progress(`${id} runs already (pid ${this.#ref(id).pid})`);
      const lacks = kind === "etcd" ? undefined : await this.#lacksEtcd();
      if (lacks !== undefined) throw new CommandFailure(`${id} was not started: ${lacks.what}\n  ${lacks.way}`);
      await this.#launch(id);
      await writeSpec(this.dir, this.#spec);
    });
    const hopeless = async (): Promise<string | undefined> => {
      const lacks = await this.#lacksEtcd();
      return lacks && `${lacks.what}\n  ${lacks.way}`;
    };
    const wait = { progress, noteAfterMs: START_NOTE_AFTER_MS, ...(kind !== "etcd" && { hopeless }) };
    await awaitReady(this.#probe(id), READY_TIMEOUT_MS, wait);
  }
  /** Why nothing can serve for lack of etcd, and what to do. */
  async #lacksEtcd(): Promise<{ readonly what: string; readonly way: string } | undefined> {
    const all = membersOf(this.#spec).filter((member) => member.kind === "etcd");
    const states = await Promise.all(all.map(({ entry }) => processState(this.#ref(entry.id))));
    if (all.length === 0 || states.includes("running")) return undefined;
    const { id } = all[0]!.entry;
    const isPaused = states[0] === "paused";
    return {
      what: `${id} ${isPaused ? "is paused" : "does not run"}, and all others keep their metadata there`,
      way: `First: ${this.#typed(isPaused ? "resume" : "start", id)}`,
    };
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
        const seen = state === "running" ? await probe(kind, entry.metrics ?? entry.client ?? "") : { ready: false, reason: state };
        return {
          id: entry.id,
          kind,
          pid: entry.pid,
          zone: entry.zone ?? null,
          state,
          ready: seen.ready,
          reason: seen.reason,
          address: entry.grpc ?? entry.rpc ?? entry.client ?? "",
        };
      }),
    );
  }
  async down(progress: (text: string) => void = () => undefined): Promise<void> {
    this.#spec = (await readSpec(this.dir)) ?? this.#spec;
    await this.#endAll(new Map(Object.entries(this.#spec.processes)), progress);
  }
  async #endAll(refs: ReadonlyMap<string, ProcessRef>, progress: (text: string) => void): Promise<void> {
    const members = membersOf(this.#spec);
    // Clients' side first, what the others stand on last. Coordinators before brokers: their last writes go through them.
    for (const kind of clusterKinds.toReversed()) {
      await Promise.all(
        members
          .filter((member) => member.kind === kind)
          .map(async ({ entry: { id } }) => {
            const ref = refs.get(id);
            const how = ref === undefined ? "gone" : await this.#end(id, ref, DOWN_TIMEOUT_MS);
            if (how !== "gone") progress(`${id} ${how}`);
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
    const ref = await launch(record.command, record.argv, record.log);
    this.#started.set(id, ref);
    this.#spec = withProcess(this.#spec, id, ref);
  }
  #typed(verb: string, ...ids: readonly string[]): string {
    return typed("cluster", verb, "--dir", this.dir, ...ids);
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
