import { codeOf, errorNumber, partitionKey, type PartitionId, type PartitionKey, type TopicRecord } from "@sluice/core/model";
import {
  createPartition,
  starvation,
  step,
  type AppendInput,
  type ControlAnswer,
  type ControlRequest,
  type Effect,
  type Input,
  type MarkTailEffect,
  type Partition,
  type PartitionOptions,
  type ReplyEffect,
  type SendAppendEffect,
  type StepDownEffect,
  type TailMark,
} from "@sluice/core/partition";
import type { ReplicaId, MemberId } from "@sluice/core/model";
import type { Hold } from "@sluice/link";
import type { Clock, Logger, Timer } from "@sluice/runtime";
import type { MetadataCalls } from "./metadata-calls.ts";
import type { BrokerMetrics } from "./metrics.ts";
import type { Subscriptions } from "./subscriptions.ts";

/** What a partition's host needs of the process around it. */
export interface HostEnvironment {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: BrokerMetrics;
  readonly metadata: MetadataCalls;
  /** Never rejects: failures are answers of kind `failed`. */
  control(to: ReplicaId, timeoutMs: number, body: ControlRequest): Promise<ControlAnswer>;
  sendAppend(host: PartitionHost, effect: SendAppendEffect): void;
  /** Producer snapshot of an uploaded segment; undefined = it could not be read. */
  readProducers(object: { readonly key: string; readonly at: number; readonly length: number }): Promise<Uint8Array | undefined>;
  reportSuspect(node: MemberId, reason: string): void;
  /** It serves; called again whenever its tail moves on to another segment. */
  opened(host: PartitionHost): void;
  steppedDown(host: PartitionHost, effect: StepDownEffect): void;
  leaseConfirmedUntilMs(): number;
}

export interface AppendOutcome {
  /** 0 or a number of the error catalogue. */
  readonly code: number;
  readonly baseOffset: number;
  readonly logStart: number;
  readonly throttleMs: number;
  readonly target: MemberId | undefined;
  /** TIMED_OUT: number of what the batch waited for; 0 = not known. */
  readonly cause?: number;
}
export interface BarrierOutcome {
  readonly code: number;
  readonly committed: number;
  readonly logStart: number;
}

/**
 * The one stateful shell around a partition machine: takes inputs, calls `step`, performs the effects in order. Inputs that arise while
 * effects are performed (an answer that comes at once) wait in a queue, so that a step never runs inside another.
 */
export class PartitionHost {
  readonly id: PartitionId;
  readonly key: PartitionKey;
  topic: TopicRecord;
  readonly subscriptions: Subscriptions;
  readonly #machine: Partition;
  readonly #env: HostEnvironment;
  readonly #log: Logger;
  readonly #effects: Effect[] = [];
  readonly #queue: Input[] = [];
  readonly #replies = new Map<number, (outcome: AppendOutcome) => void>();
  readonly #barriers = new Map<number, (outcome: BarrierOutcome) => void>();
  #requestId = 0;
  #running = false;
  #timer: Timer | undefined;
  #mark: TailMark | undefined;
  #closed = false;

  constructor(options: PartitionOptions, topic: TopicRecord, subscriptions: Subscriptions, env: HostEnvironment) {
    this.id = options.partition;
    this.key = partitionKey(options.partition);
    this.topic = topic;
    this.subscriptions = subscriptions;
    this.#env = env;
    this.#log = env.logger.child({ topicName: topic.name });
    this.#machine = createPartition(options);
  }

  /** For status pages and decisions of the host; never changed from outside. */
  get machine(): Readonly<Partition> {
    return this.#machine;
  }
  get serving(): boolean {
    return this.#machine.role.kind === "serving";
  }
  /** It has too few storage nodes to store anything. */
  get starved(): boolean {
    return starvation(this.#machine) !== undefined;
  }
  get idle(): boolean {
    return this.#machine.role.kind === "idle" && this.#machine.txn === undefined;
  }
  get mark(): TailMark | undefined {
    return this.#mark;
  }

  /** `done` is called once, when the batch is durable on two nodes, or with the reason why not. */
  append(input: Omit<AppendInput, "kind" | "requestId"> & { readonly handle?: Hold }, done: (outcome: AppendOutcome) => void): void {
    const requestId = ++this.#requestId;
    this.#replies.set(requestId, done);
    this.input({ kind: "append", requestId, ...input });
  }
  /** The latest offset, confirmed by two storage nodes after this call. */
  barrier(deadlineMs: number, done: (outcome: BarrierOutcome) => void): void {
    const requestId = ++this.#requestId;
    this.#barriers.set(requestId, done);
    this.input({ kind: "barrier", requestId, deadlineMs });
  }

  input(input: Input): void {
    if (this.#closed) return;
    this.#queue.push(input);
    if (this.#running) return;
    this.#running = true;
    try {
      for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) this.#step(next);
    } finally {
      this.#running = false;
    }
  }

  /** Stops without a word to the metadata: what a kill would do. Waiting requests are answered as unknown. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#timer?.cancel();
    this.subscriptions.endAll(errorNumber("SHUTTING_DOWN"));
    const code = errorNumber("OUTCOME_UNKNOWN");
    for (const done of this.#replies.values()) done({ code, baseOffset: -1, logStart: -1, throttleMs: 0, target: undefined });
    for (const done of this.#barriers.values()) done({ code, committed: -1, logStart: -1 });
    this.#replies.clear();
    this.#barriers.clear();
  }

  #step(input: Input): void {
    const effects = this.#effects;
    effects.length = 0;
    try {
      step(this.#machine, input, this.#env.clock.monotonicMs(), effects);
    } catch (error) {
      // A machine that cannot go on stops this partition alone; the next owner recovers it from the storage nodes.
      this.#log.error("partition machine failed", { partition: this.key, input: input.kind, err: error });
      this.#env.metrics.alarms.labels("invariant").inc();
      this.close();
      this.#env.steppedDown(this, { kind: "stepDown", reason: "invariant", target: undefined });
      return;
    }
    for (let i = 0; i < effects.length && !this.#closed; i += 1) this.#perform(effects[i] as Effect);
  }

  #perform(effect: Effect): void {
    switch (effect.kind) {
      case "sendAppend":
        this.#env.sendAppend(this, effect);
        return;
      case "committed":
        this.#mark = effect.mark;
        this.subscriptions.push(effect);
        return;
      case "released":
        for (const hold of effect.handles) (hold as Hold).release();
        return;
      case "markTail":
        this.#markTail(effect);
        this.#env.opened(this);
        return;
      case "reply":
        this.#reply(effect);
        return;
      case "barrierReply":
        this.#barriers.get(effect.requestId)?.({
          code: effect.code === undefined ? 0 : errorNumber(effect.code),
          committed: effect.committed,
          logStart: effect.logStart,
        });
        this.#barriers.delete(effect.requestId);
        return;
      case "armTimer":
        this.#arm(effect.atMs);
        return;
      case "metaGet":
        void this.#env.metadata.get(this.id, effect).then((answer) => this.input(answer));
        return;
      case "metaTxn":
        void this.#env.metadata.txn(this.id, effect).then((answer) => this.input(answer));
        return;
      case "control":
        void this.#env
          .control(effect.to, effect.timeoutMs, effect.body)
          .then((result) => this.input({ kind: "control", call: effect.call, result }));
        return;
      case "readProducers":
        void this.#readProducers(effect.object).then((producers) => this.input({ kind: "producersRead", call: effect.call, producers }));
        return;
      case "stepDown":
        this.#mark = undefined;
        this.subscriptions.endAll(errorNumber("NOT_OWNER"));
        this.#env.metrics.stepDowns.labels(effect.reason).inc();
        this.#env.steppedDown(this, effect);
        return;
      case "reportSuspect":
        this.#env.reportSuspect(effect.node, effect.reason);
        return;
      case "log":
        this.#log.info(effect.event, effect.fields);
        return;
      case "alarm":
        this.#log.error("alarm", { partition: this.key, cause: effect.cause, message: effect.message });
        this.#env.metrics.alarms.labels(effect.cause).inc();
        return;
    }
  }

  async #readProducers(object: { readonly key: string; readonly at: number; readonly length: number }): Promise<Uint8Array | undefined> {
    try {
      return await this.#env.readProducers(object);
    } catch (error) {
      this.#log.warn("producer snapshot not read", { object: object.key, code: codeOf(error) });
      return undefined;
    }
  }

  #markTail(effect: MarkTailEffect): void {
    this.#mark = effect.mark;
    this.subscriptions.mark(effect.mark);
  }

  #reply(effect: ReplyEffect): void {
    const done = this.#replies.get(effect.requestId);
    if (done === undefined) return;
    this.#replies.delete(effect.requestId);
    done({
      code: effect.code === undefined ? 0 : errorNumber(effect.code),
      baseOffset: effect.baseOffset,
      logStart: effect.logStart,
      throttleMs: effect.throttleMs,
      target: effect.target,
      cause: effect.cause === undefined ? 0 : errorNumber(effect.cause),
    });
  }

  #arm(atMs: number): void {
    this.#timer?.cancel();
    const { clock } = this.#env;
    this.#timer = clock.setTimer(Math.max(0, atMs - clock.monotonicMs()), () => {
      this.#timer = undefined;
      // A tick before its time would find nothing to do, and nobody would arm again.
      if (clock.monotonicMs() < atMs) return this.#arm(atMs);
      this.input({ kind: "lease", confirmedUntilMs: this.#env.leaseConfirmedUntilMs() });
      this.input({ kind: "tick", wallMs: clock.wallMs() });
    });
  }
}
