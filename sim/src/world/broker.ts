import type { BatchHeader } from "@sluice/core/log";
import { instanceId, memberId } from "@sluice/core/model";
import type { InstanceId, MemberId, PartitionId, Timers } from "@sluice/core/model";
import { brokenInvariant, brokenPipeline, createPartition, step } from "@sluice/core/partition";
import type {
  BarrierReplyEffect,
  CandidateNode,
  Effect,
  Input,
  Mutants,
  Partition,
  PartitionConfig,
  ReplyEffect,
} from "@sluice/core/partition";
import type { Metadata } from "./metadata.ts";
import type { Network } from "./network.ts";
import { Process } from "./process.ts";
import type { Rng } from "./random.ts";
import type { Scheduler } from "./scheduler.ts";
import type { StorageNode } from "./storage-node.ts";

export interface BrokerMutants extends Partial<Mutants> {
  /** Recovery fences one member and merely reads the others. */
  readonly M1?: boolean;
}
export interface BrokerOptions {
  readonly partition: PartitionId;
  readonly timers: Timers;
  readonly config: PartitionConfig;
  readonly mutants: BrokerMutants;
}
/** What the checkers are told of. */
export interface BrokerEvents {
  onEffect(broker: Broker, effect: Effect): void;
  onViolation(what: string): void;
}
export type AppendAsk = Pick<Extract<Input, { kind: "append" }>, "batch" | "run" | "expectedBaseOffset" | "fenceToken"> & {
  readonly header: BatchHeader;
  readonly waitMs: number;
};

/** A broker's host of one partition: the shipped machine; messages, timers and metadata are the simulator's. */
export class Broker {
  readonly process: Process;
  machine: Partition;
  instance: InstanceId;
  assigned = false;
  assignmentRevision = 0;
  #timer = 0;
  #requests = 0;
  readonly #replies = new Map<number, (reply: ReplyEffect) => void>();
  readonly #barriers = new Map<number, (reply: BarrierReplyEffect) => void>();
  readonly #options: BrokerOptions;
  readonly #scheduler: Scheduler;
  readonly #rng: Rng;
  readonly #network: Network;
  readonly #metadata: Metadata;
  readonly #nodes: readonly StorageNode[];
  readonly #events: BrokerEvents;
  #forceInstance: InstanceId | undefined;

  constructor(
    name: string,
    options: BrokerOptions,
    world: { scheduler: Scheduler; rng: Rng; network: Network; metadata: Metadata; nodes: readonly StorageNode[]; events: BrokerEvents },
  ) {
    this.process = new Process(name);
    this.#options = options;
    this.#scheduler = world.scheduler;
    this.#rng = world.rng;
    this.#network = world.network;
    this.#metadata = world.metadata;
    this.#nodes = world.nodes;
    this.#events = world.events;
    this.instance = instanceId("");
    this.machine = this.#boot();
  }
  get name(): string {
    return this.process.name;
  }
  get id(): MemberId {
    return memberId(this.name);
  }

  #boot(): Partition {
    this.instance = instanceId(`${this.name}-i${this.process.life}`);
    this.#replies.clear();
    this.#barriers.clear();
    this.assigned = false;
    const machine = createPartition({
      partition: this.#options.partition,
      self: this.id,
      instance: this.instance,
      generation: 0,
      noncePrefix: this.instance,
      seed: this.#rng.uint32(),
      timers: this.#options.timers,
      config: this.#options.config,
      mutants: this.#options.mutants,
    });
    this.machine = machine;
    this.#metadata.members.set(this.name, this.instance);
    this.#renewLater(this.#scheduler.now);
    this.#listNodesLater();
    return machine;
  }
  crash(): void {
    this.process.die();
    const { instance } = this;
    const { memberLeaseTtlMs } = this.#options.timers;
    this.#scheduler.after(this.#rng.between(0.5, 2) * memberLeaseTtlMs, () => this.#expire(instance));
  }
  start(): void {
    this.process.up = true;
    this.#boot();
  }
  #expire(instance: InstanceId): void {
    if (this.#metadata.members.get(this.name) === instance) this.#metadata.members.delete(this.name);
  }

  /** The lease: confirmed from the time of sending; a store that is away or cut off confirms nothing, and lets it expire at last. */
  #renewLater(sentMs: number): void {
    const { memberLeaseTtlMs } = this.#options.timers;
    this.feed({ kind: "lease", confirmedUntilMs: sentMs + memberLeaseTtlMs * 0.8 });
    const { instance } = this;
    const renew = this.process.inThisLife(() => {
      const reachable = !this.#metadata.away && !this.#network.isCut(this.name, "metadata");
      if (reachable) {
        if (!this.#metadata.members.has(this.name)) this.#metadata.members.set(this.name, instance);
        this.#renewLater(this.#scheduler.now);
      } else this.#scheduler.after(memberLeaseTtlMs / 4, renew);
    });
    this.#scheduler.after(memberLeaseTtlMs / 3, renew);
    const { life } = this.process;
    this.#scheduler.after(memberLeaseTtlMs * this.#rng.between(0.9, 2), () => {
      if (this.process.life === life && this.machine.leaseUntilMs < this.#scheduler.now) this.#expire(instance);
    });
  }
  #listNodesLater(): void {
    this.feed({ kind: "nodes", nodes: this.#nodes.map((n) => this.#candidate(n)) });
    this.#scheduler.after(
      this.#rng.between(0.5, 1.5) * this.#options.timers.replicaLagMs,
      this.process.inThisLife(() => this.#listNodesLater()),
    );
  }
  #candidate(n: StorageNode): CandidateNode {
    return { node: memberId(n.name), incarnation: n.incarnation, zone: n.zone, freeBytes: 100, suspect: !n.process.up || n.failed };
  }

  assign(revision: number, forceInstance: InstanceId | undefined): void {
    this.assigned = true;
    this.assignmentRevision = revision;
    this.#forceInstance = forceInstance;
    this.#acquire();
  }
  unassign(target: MemberId | undefined): void {
    this.assigned = false;
    this.feed({ kind: "release", ...(target === undefined ? {} : { target }) });
  }
  #acquire(): void {
    this.feed({
      kind: "acquire",
      assignmentRevision: this.assignmentRevision,
      ...(this.#forceInstance === undefined ? {} : { forceInstance: this.#forceInstance }),
      wallMs: this.#scheduler.now,
    });
  }

  append(ask: AppendAsk, reply: (reply: ReplyEffect) => void): void {
    const requestId = ++this.#requests;
    this.#replies.set(requestId, reply);
    const { waitMs, ...asked } = ask;
    const { now } = this.#scheduler;
    this.feed({ kind: "append", requestId, ...asked, handle: ask.batch, deadlineMs: now + waitMs, wallMs: now });
  }

  latest(waitMs: number, reply: (reply: BarrierReplyEffect) => void): void {
    const requestId = ++this.#requests;
    this.#barriers.set(requestId, reply);
    this.feed({ kind: "barrier", requestId, deadlineMs: this.#scheduler.now + waitMs });
  }

  feed(input: Input): void {
    const out: Effect[] = [];
    step(this.machine, input, this.#scheduler.now, out);
    const broken = brokenInvariant(this.machine) ?? brokenPipeline(this.machine);
    if (broken !== undefined) this.#events.onViolation(`${this.name}: ${broken}`);
    for (const e of out) this.#perform(e);
  }

  #perform(e: Effect): void {
    this.#events.onEffect(this, e);
    switch (e.kind) {
      case "metaGet":
        return this.#metadata.get(this.process, e.call, (input) => this.feed(input));
      case "metaTxn":
        return this.#metadata.txn(this.process, e, (input) => this.feed(input));
      case "control":
        return this.#control(e);
      case "sendAppend":
        return this.#send(e);
      case "armTimer":
        return this.#arm(e.atMs);
      case "reply": {
        const reply = this.#replies.get(e.requestId);
        this.#replies.delete(e.requestId);
        if (reply === undefined) this.#events.onViolation(`${this.name}: request ${e.requestId} is answered twice or was never asked`);
        return reply?.(e);
      }
      case "barrierReply": {
        const reply = this.#barriers.get(e.requestId);
        this.#barriers.delete(e.requestId);
        if (reply === undefined) this.#events.onViolation(`${this.name}: question ${e.requestId} is answered twice or was never asked`);
        return reply?.(e);
      }
      case "released":
        // The real host reads other frames into this memory.
        for (const batch of e.handles) (batch as Uint8Array).fill(0xdb);
        return;
      case "stepDown":
        return this.#scheduler.after(
          this.#rng.between(5, 30),
          this.process.inThisLife(() => this.#tryAgain()),
        );
      case "readProducers":
        return this.feed({ kind: "producersRead", call: e.call, producers: undefined });
      default:
        return;
    }
  }
  #tryAgain(): void {
    if (this.assigned && this.machine.role.kind === "idle") this.#acquire();
  }
  #arm(atMs: number): void {
    const timer = ++this.#timer;
    this.#scheduler.at(
      atMs,
      this.process.inThisLife(() => {
        if (timer === this.#timer) this.feed({ kind: "tick", wallMs: this.#scheduler.now });
      }),
    );
  }

  #control(e: Extract<Effect, { kind: "control" }>): void {
    const node = this.#nodes.find((n) => n.name === e.to.node);
    if (node === undefined) return;
    let answered = false;
    const answer = (result: Extract<Input, { kind: "control" }>["result"]): void => {
      if (answered) return;
      answered = true;
      this.feed({ kind: "control", call: e.call, result });
    };
    this.#scheduler.after(
      e.timeoutMs,
      this.process.inThisLife(() => answer({ kind: "failed", failure: "timeout", sent: true })),
    );
    if (!node.process.up && this.#rng.chance(0.7)) {
      this.#scheduler.after(
        this.#rng.between(0.2, 2),
        this.process.inThisLife(() => answer({ kind: "failed", failure: "refused", sent: false })),
      );
      return;
    }
    const back = this.process.life;
    const reply = (result: Parameters<typeof answer>[0]): void =>
      this.#network.send(node.name, this.process, () => {
        if (this.process.life === back) answer(result);
      });
    const { body } = e;
    const peeks = this.#options.mutants.M1 === true && body.kind === "fence" && this.#peeks(e);
    this.#network.send(this.name, node.process, () => {
      if (peeks && body.kind === "fence") node.peek(body, reply);
      else node.control(body, reply);
    });
  }
  /** M1: the first member alone is fenced. */
  #peeks(e: Extract<Effect, { kind: "control" }>): boolean {
    const { role } = this.machine;
    return role.kind === "recovering" && role.recovery.members[0]?.replica.node !== e.to.node;
  }

  #send(e: Extract<Effect, { kind: "sendAppend" }>): void {
    const { epoch, base, firstOffset, lastOffset, lac, barrier, appendMs, payload } = e;
    const { life } = this.process;
    for (const t of e.targets) {
      const node = this.#nodes.find((n) => n.name === t.replica.node);
      if (node === undefined) continue;
      // A link holds the memory until the bytes have left: from here on they are the node's own.
      const request = {
        segmentNumber: t.segmentNumber,
        epoch,
        base,
        firstOffset,
        lastOffset,
        lac,
        barrier,
        appendMs,
        payload: payload.slice(),
      };
      this.#network.send(this.name, node.process, () =>
        node.append(request, (a) =>
          this.#network.send(node.name, this.process, () => {
            if (this.process.life !== life) return;
            this.feed({ kind: "appended", node: t.replica.node, ...a });
          }),
        ),
      );
    }
  }
  link(node: string, up: boolean): void {
    this.feed({ kind: "link", node: memberId(node), up, reason: up ? "none" : "reset" });
  }
}
