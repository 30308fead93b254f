import type { ClusterView, ViewChange } from "@sluice/catalog";
import {
  parsePartitionKey,
  partitionKey,
  topicSettings,
  type InstanceId,
  type MemberId,
  type PartitionId,
  type PartitionKey,
  type Timers,
  type TopicRecord,
} from "@sluice/core/model";
import type { CandidateNode, PartitionConfig, StepDownEffect } from "@sluice/core/partition";
import type { Logger, Random } from "@sluice/runtime";
import { PartitionHost, type HostEnvironment } from "./partition-host.ts";
import { Subscriptions } from "./subscriptions.ts";
import { TransitionQueue, transitionRanks } from "./transition-queue.ts";

const PRODUCER_EXPIRY_MS = 7 * 24 * 3_600_000;
/** Pause before a partition that slipped away is taken again while the assignment still names this broker, ms. */
const REACQUIRE_MS = 200;
/** Partitions that are taken or deleted at a time, and how long a slow one counts among them, ms. */
const TRANSITIONS_MAX = 32;
const TRANSITION_SLOT_MS = 1_000;

type LinkDown = "refused" | "timeout" | "reset" | "none";

export interface OwnershipOptions {
  readonly self: MemberId;
  readonly instance: InstanceId;
  readonly generation: number;
  readonly timers: Timers;
  readonly random: Random;
  readonly logger: Logger;
  readonly view: ClusterView;
  readonly environment: Omit<HostEnvironment, "steppedDown" | "opened">;
}

/**
 * Follows the assignments: one host for each partition that is assigned here or still being handed over. The assignment only says who
 * should try; the register and the storage nodes decide.
 */
export class Ownership {
  readonly #options: OwnershipOptions;
  readonly #hosts = new Map<PartitionKey, PartitionHost>();
  readonly #environment: HostEnvironment;
  readonly #unsubscribe: () => void;
  readonly #transitions: TransitionQueue;
  readonly #idleWaiters = new Set<() => void>();
  #suspects: ReadonlySet<string> = new Set();
  /** Storage nodes whose link is down, and why: a partition that is taken later is told as well. */
  readonly #unlinked = new Map<MemberId, LinkDown>();
  #nodes: readonly CandidateNode[] = [];
  #draining = false;
  #closed = false;

  constructor(options: OwnershipOptions) {
    this.#options = options;
    this.#environment = {
      ...options.environment,
      opened: (host) => {
        // One that is open only to be deleted is under way until it is.
        if (host.machine.release === undefined) this.#transitions.ended(host.key);
      },
      steppedDown: (host, effect) => {
        this.#transitions.ended(host.key);
        this.#steppedDown(host, effect);
      },
    };
    this.#transitions = new TransitionQueue({
      clock: options.environment.clock,
      runningMax: TRANSITIONS_MAX,
      slotMs: TRANSITION_SLOT_MS,
      begin: (key) => this.#begin(key),
    });
    this.#unsubscribe = options.view.onChange((changes) => this.#apply(changes));
  }

  start(): void {
    this.#nodes = this.#candidates();
    for (const key of this.#options.view.partitions.keys()) this.#reconcile(parsePartitionKey(key));
  }
  /** Waits until every partition was handed over or `signal` aborts. Nothing new is taken any more. */
  async drain(signal: AbortSignal): Promise<void> {
    this.#draining = true;
    for (const host of this.#hosts.values()) host.input({ kind: "release" });
    this.#dropIdle();
    if (this.#hosts.size === 0 || signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#idleWaiters.add(resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
  close(): void {
    this.#closed = true;
    this.#unsubscribe();
    this.#transitions.close();
    for (const host of this.#hosts.values()) host.close();
    this.#hosts.clear();
  }

  get hosts(): Iterable<PartitionHost> {
    return this.#hosts.values();
  }
  get size(): number {
    return this.#hosts.size;
  }
  /** Of those, how many wait for others to be taken or deleted first. */
  get waiting(): number {
    return this.#transitions.waiting;
  }
  host(p: PartitionId): PartitionHost | undefined {
    return this.#hosts.get(partitionKey(p));
  }
  hostByKey(key: PartitionKey): PartitionHost | undefined {
    return this.#hosts.get(key);
  }
  /** Who should be asked instead, as far as the copy of the metadata knows. */
  assignedTo(key: PartitionKey): MemberId | undefined {
    return this.#options.view.partitions.get(key)?.assigned?.record.broker;
  }

  setSuspects(suspects: ReadonlySet<string>): void {
    if (suspects.size === this.#suspects.size && [...suspects].every((s) => this.#suspects.has(s))) return;
    this.#suspects = suspects;
    this.#tellNodes();
  }
  nodeLink(node: MemberId, up: boolean, reason: LinkDown): void {
    if (up) this.#unlinked.delete(node);
    else this.#unlinked.set(node, reason);
    for (const host of this.#hosts.values()) host.input({ kind: "link", node, up, reason });
  }

  #apply(changes: readonly ViewChange[]): void {
    if (this.#closed) return;
    const touched = new Set<PartitionKey>();
    let nodes = false;
    for (const change of changes) {
      if (change.kind === "assigned" || change.kind === "state") touched.add(partitionKey(change.partition));
      else if (change.kind === "start") this.#logStart(change.partition);
      else if (change.kind === "topic") this.#topicChanged(change.after ?? change.before, touched);
      else if (change.kind === "node") nodes = true;
      else if (change.kind === "member") {
        if (change.service === "segment-store") nodes = true;
        else if (change.service === "broker") this.#hintWaiting();
      }
    }
    if (nodes) this.#tellNodes();
    for (const key of touched) this.#reconcile(parsePartitionKey(key));
  }

  #reconcile(p: PartitionId): void {
    const { view, self } = this.#options;
    const key = partitionKey(p);
    const known = view.partitions.get(key);
    const assigned = known?.assigned?.record;
    const topic = view.topicsById.get(p.topicId);
    let host = this.#hosts.get(key);
    const mine = assigned?.broker === self && topic !== undefined && !this.#draining;
    if (!mine) {
      if (host === undefined) return;
      host.input({ kind: "release", ...(assigned === undefined ? {} : { target: assigned.broker }) });
      this.#dropIdle();
      return;
    }
    const deleting = topic.phase === "DELETING";
    if (deleting && known?.state?.record.phase === "DELETED") {
      if (host?.idle === true) this.#drop(host);
      return;
    }
    host ??= this.#create(p, topic);
    if (host.idle || (deleting && host.serving && host.machine.release === undefined)) {
      const { existing, fresh, deleted } = transitionRanks;
      return this.#transitions.add(key, deleting ? deleted : known?.state === undefined ? fresh : existing);
    }
    if (host.machine.assignmentRevision !== assigned.revision) this.#acquire(host);
    else host.input({ kind: "hint" });
    if (deleting) host.input({ kind: "release", forever: true });
  }
  /** Its turn has come. */
  #begin(key: PartitionKey): boolean {
    const host = this.#hosts.get(key);
    if (host === undefined || this.#closed || this.#draining || this.assignedTo(key) !== this.#options.self) return false;
    if (host.idle) this.#acquire(host);
    if (host.topic.phase === "DELETING") host.input({ kind: "release", forever: true });
    return true;
  }
  #drop(host: PartitionHost): void {
    this.#transitions.ended(host.key);
    host.close();
    this.#hosts.delete(host.key);
    this.#wake();
  }

  #acquire(host: PartitionHost): void {
    const assigned = this.#options.view.partitions.get(host.key)?.assigned?.record;
    if (assigned === undefined || assigned.broker !== this.#options.self) return;
    host.input({
      kind: "acquire",
      assignmentRevision: assigned.revision,
      ...(assigned.forceInstance === undefined ? {} : { forceInstance: assigned.forceInstance }),
      wallMs: this.#environment.clock.wallMs(),
    });
  }

  #create(p: PartitionId, topic: TopicRecord): PartitionHost {
    const { self, instance, generation, timers, random } = this.#options;
    const host = new PartitionHost(
      {
        partition: p,
        self,
        instance,
        generation,
        noncePrefix: random.uuid(),
        seed: random.int(0x7fff_ffff),
        timers,
        config: partitionConfig(topic),
      },
      topic,
      new Subscriptions(this.#environment.metrics),
      this.#environment,
    );
    this.#hosts.set(host.key, host);
    for (const [node, reason] of this.#unlinked) host.input({ kind: "link", node, up: false, reason });
    host.input({ kind: "nodes", nodes: this.#nodes });
    host.input({ kind: "lease", confirmedUntilMs: this.#environment.leaseConfirmedUntilMs() });
    return host;
  }

  #steppedDown(host: PartitionHost, effect: StepDownEffect): void {
    const { clock } = this.#environment;
    if (effect.reason === "invariant") {
      this.#hosts.delete(host.key);
      clock.setTimer(REACQUIRE_MS, () => this.#closed || this.#reconcile(host.id), { unref: true });
      this.#wake();
      return;
    }
    clock.setTimer(
      effect.reason === "released" ? 0 : REACQUIRE_MS,
      () => {
        if (this.#closed || this.#hosts.get(host.key) !== host) return;
        this.#reconcile(host.id);
        this.#dropIdle();
      },
      { unref: true },
    );
  }

  /** Hosts with nothing to do any more, whose partition is not ours. */
  #dropIdle(): void {
    for (const [key, host] of this.#hosts) {
      const mine = this.assignedTo(key) === this.#options.self && !this.#draining;
      if (host.idle && !mine) {
        host.close();
        this.#hosts.delete(key);
      }
    }
    this.#wake();
  }
  #wake(): void {
    if (this.#hosts.size > 0) return;
    for (const resolve of this.#idleWaiters) resolve();
    this.#idleWaiters.clear();
  }

  #topicChanged(topic: TopicRecord | undefined, touched: Set<PartitionKey>): void {
    if (topic === undefined) return;
    for (let n = 0; n < topic.partitions; n += 1) {
      const key = partitionKey({ topicId: topic.topicId, partition: n });
      const host = this.#hosts.get(key);
      if (host !== undefined) {
        host.topic = topic;
        host.input({ kind: "config", config: partitionConfig(topic) });
      }
      touched.add(key);
    }
  }
  #logStart(p: PartitionId): void {
    const logStart = this.#options.view.partition(p)?.startOffset;
    if (logStart !== undefined) this.host(p)?.input({ kind: "logStart", logStart });
  }
  /** A broker came or went: those that wait for its lease look again. */
  #hintWaiting(): void {
    for (const host of this.#hosts.values()) if (host.machine.role.kind === "reading") host.input({ kind: "hint" });
  }

  #tellNodes(): void {
    this.#nodes = this.#candidates();
    for (const node of this.#unlinked.keys()) if (!this.#nodes.some((n) => n.node === node)) this.#unlinked.delete(node);
    for (const host of this.#hosts.values()) host.input({ kind: "nodes", nodes: this.#nodes });
  }
  #candidates(): CandidateNode[] {
    const out: CandidateNode[] = [];
    for (const member of this.#options.view.membersOf("segment-store")) {
      if (member.draining || member.incarnation === undefined) continue;
      out.push({
        node: member.id,
        incarnation: member.incarnation,
        zone: member.zone,
        freeBytes: member.capacityBytes ?? 1,
        // Without room it would refuse. It may be asked all the same when there are too few others.
        suspect: this.#suspects.has(member.id) || member.diskFull === true,
      });
    }
    return out;
  }
}

function partitionConfig(topic: TopicRecord): PartitionConfig {
  const settings = topicSettings(topic.config);
  return {
    segmentBytes: settings.segmentBytes,
    segmentMs: settings.segmentMs,
    strictThreeCopies: settings.strictThreeCopies,
    producerExpiryMs: PRODUCER_EXPIRY_MS,
  };
}
