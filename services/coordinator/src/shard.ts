import {
  createShardState,
  decodeGroupRecord,
  encodeGroupRecord,
  replay,
  type GroupReply,
  type GroupRequest,
  type ShardState,
} from "@sluice/core/group";
import { codeOf, SluiceError, type ErrorCode, type ShardRecord, type Timers } from "@sluice/core/model";
import type { Clock, Logger } from "@sluice/runtime";
import type { ServiceIdentity } from "@sluice/service";
import type { CoordinatorMetrics } from "./metrics.ts";
import { RequestQueue, type Change, type ChangeRequest, type Question } from "./request-queue.ts";
import { composeRound, offsetsChange, type Round } from "./round.ts";
import { holds, type LogRecord, type ShardLog } from "./shard-log.ts";
import type { Claim, ShardRegister } from "./shard-register.ts";
import { SnapshotSchedule, type SnapshotPolicy } from "./snapshot-schedule.ts";
import type { Snapshots } from "./snapshots.ts";

/**
 * One shard of groups at the coordinator that took it.
 *
 *   taking ── claimed ──► fencing ── owner record stored ──► replaying ── end reached ──► active
 *      └───────────────────┴──────────────────┬────────────────┴─────────────────────────────┘
 *                                            lost      a higher epoch: in the register, in the log, or told by the broker
 *
 * Active: one append at a time, each at the offset where the state ends. So an append that is stored proves that nobody else has written,
 * and the answer leaves after it was replayed. An append whose outcome is not known, or whose place is taken, is settled by the log alone:
 * it is read to its confirmed end, what is found there is replayed, and whatever is not found is decided again.
 */
export type ShardPhase = "taking" | "fencing" | "replaying" | "active" | "lost" | "stopped";
type LossReason = "register" | "fenced" | "log" | "broken";

export interface ShardOptions {
  readonly shard: number;
  readonly identity: ServiceIdentity;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly timers: Timers;
  readonly log: ShardLog;
  readonly register: ShardRegister;
  readonly snapshots: Snapshots;
  readonly snapshotPolicy: SnapshotPolicy;
  readonly metrics: CoordinatorMetrics;
  /** The state is replayed to the end and the shard serves. */
  readonly onActive?: (shard: Shard) => void;
}

/** Changes and reads that wait for one shard. */
const QUEUE_BYTES_MAX = 16 * 1024 * 1024;
const QUESTIONS_MAX = 10_000;
/** Pause before another attempt after the log or the metadata refused, ms. */
const RETRY_MS = 50;
/** Pause until records that are committed can be read, ms. */
const READ_RETRY_MS = 5;

const LASTING: ReadonlySet<ErrorCode> = new Set([
  "INTERNAL",
  "CORRUPT_SEGMENT",
  "CORRUPT_BATCH",
  "UNSUPPORTED_FORMAT",
  "OFFSET_OUT_OF_RANGE",
]);

/** More records than one append can hold: an earlier attempt at the same place lies within the first so many found there. */
const APPEND_RECORDS_MAX = 20_000;

export class Shard {
  readonly shard: number;
  readonly #options: ShardOptions;
  readonly #queue: RequestQueue;
  readonly #over = new AbortController();
  readonly #ended = Promise.withResolvers<void>();
  #phase: ShardPhase = "taking";
  #claim: Claim | undefined;
  #state: ShardState = createShardState();
  readonly #schedule: SnapshotSchedule;

  constructor(options: ShardOptions) {
    this.#options = options;
    this.shard = options.shard;
    this.#schedule = new SnapshotSchedule({ ...options, signal: this.#over.signal });
    this.#queue = new RequestQueue({ clock: options.clock, bytesMax: QUEUE_BYTES_MAX, questionsMax: QUESTIONS_MAX });
  }
  get phase(): ShardPhase {
    return this.#phase;
  }
  /** Lost or stopped: nothing is stored from here any more. */
  get isOver(): boolean {
    return this.#over.signal.aborted;
  }
  get epoch(): number {
    return this.#claim?.record.epoch ?? 0;
  }
  /** For figures only: `read` gives a state that is known to be the newest. */
  get state(): ShardState {
    return this.#state;
  }
  get queued(): number {
    return this.#queue.size;
  }
  /** Resolves when the shard is lost or stopped. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  start(): void {
    void this.#run();
  }
  /** Waits while the shard is being loaded. Throws NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, OUTCOME_UNKNOWN, OVERLOADED. */
  submit(request: GroupRequest, deadlineMs: number): Promise<GroupReply> {
    return this.change(offsetsChange(request), deadlineMs);
  }
  change<R>(request: ChangeRequest<R>, deadlineMs: number): Promise<R> {
    return this.#queue.change(request, deadlineMs);
  }
  /** What `of` finds in a state that held everything committed when this was called. */
  read<T>(deadlineMs: number, of: (state: ShardState) => T): Promise<T> {
    return this.#queue.question(deadlineMs, of);
  }
  /** The register as a watch shows it: possibly old, so only a higher epoch means something. */
  registerChanged(record: ShardRecord): void {
    if (this.#claim !== undefined && record.epoch > this.#claim.record.epoch) this.#lose("register");
  }
  /** Serves no more; the register stays as it is until another coordinator takes the shard. */
  stop(): void {
    this.#end("stopped", "the coordinator is going away");
  }

  async #run(): Promise<void> {
    const { clock, metrics } = this.#options;
    const startedMs = clock.monotonicMs();
    try {
      await this.#take();
      await this.#fence();
      await this.#load();
      metrics.takeSeconds.observe((clock.monotonicMs() - startedMs) / 1000);
      this.#enter("active", { offset: this.#state.nextOffset, groups: this.#state.groups.size });
      this.#options.onActive?.(this);
      for (;;) {
        await this.#queue.waiting();
        this.#check();
        await this.#round();
        this.#schedule.writeIfDue(this.#claim as Claim, this.#state, (claim) => (this.#claim = claim));
      }
    } catch (err) {
      if (this.#over.signal.aborted) return;
      this.#options.logger.error("shard failed", { shard: this.shard, epoch: this.epoch, err });
      this.#lose("broken");
    }
  }

  async #take(): Promise<void> {
    this.#enter("taking");
    for (;;) {
      try {
        this.#claim = await this.#options.register.claim(this.shard);
        this.#check();
        if (this.#claim !== undefined) return;
      } catch (error) {
        this.#check();
        this.#options.logger.debug("shard not claimed yet", { shard: this.shard, code: codeOf(error) });
      }
      await this.#pause(RETRY_MS);
    }
  }

  /** From here on nothing that an older coordinator has on its way can be stored. Several owner records of one epoch harm nothing. */
  async #fence(): Promise<void> {
    this.#enter("fencing");
    const { identity, log } = this.#options;
    const record = encodeGroupRecord({ kind: "owner", epoch: this.epoch, member: identity.id, instance: identity.instance });
    for (;;) {
      const result = await log.append([record], { expectedBaseOffset: -1, fenceToken: this.epoch, deadlineMs: this.#deadline() });
      this.#check();
      this.#options.metrics.appends.labels(result.kind).inc();
      if (result.kind === "stored") return;
      if (result.kind === "fenced") this.#lose("fenced");
      this.#check();
      await this.#pause(RETRY_MS);
    }
  }

  async #load(): Promise<void> {
    this.#enter("replaying");
    const { snapshots, logger } = this.#options;
    let loaded = false;
    let told = "";
    for (;;) {
      try {
        if (!loaded) {
          const state = await snapshots.load(this.shard, (this.#claim as Claim).record);
          this.#check();
          if (state !== undefined) this.#state = state;
          loaded = true;
        }
        await this.#catchUp();
        this.#checkOwner();
        if (this.#state.epoch === this.epoch) return;
        throw new SluiceError("INTERNAL", "the shard's log ends before the owner record that was stored in it");
      } catch (error) {
        this.#check();
        // It is tried until it works: one line for each reason, and a stack only where nobody expects it.
        const code = codeOf(error);
        const cause = code === "INTERNAL" ? { err: error } : { message: (error as Error).message };
        if (code !== told)
          logger.warn("shard replay interrupted", { shard: this.shard, epoch: this.epoch, offset: this.#state.nextOffset, code, ...cause });
        told = code;
        await this.#pause(RETRY_MS);
      }
    }
  }

  /**
   * Replays everything up to the log's confirmed end. Throws what the log said when it cannot be read now. Whoever
   * calls it goes on with `checkOwner`. `seen` gets each record before its replay.
   */
  async #catchUp(seen?: (record: LogRecord) => void): Promise<void> {
    const { log, metrics, clock } = this.#options;
    const deadlineMs = this.#deadline();
    const end = await log.end(deadlineMs);
    this.#check();
    const state = this.#state;
    if (end < state.nextOffset) throw new SluiceError("INTERNAL", `the shard's log ends at ${end}, its state at ${state.nextOffset}`);
    while (state.nextOffset < end) {
      const records = await log.read(state.nextOffset, end);
      this.#check();
      if (records.length === 0 && clock.monotonicMs() > deadlineMs)
        throw new SluiceError("READ_UNAVAILABLE", `records from ${state.nextOffset} on cannot be read`);
      if (records.length === 0) await this.#pause(READ_RETRY_MS);
      for (const record of records) {
        if (record.offset < state.nextOffset) continue;
        seen?.(record);
        replay(state, record.offset, decodeGroupRecord(record.key, record.value));
        this.#schedule.count(record);
      }
      metrics.replayedRecords.inc(records.length);
    }
  }

  async #round(): Promise<void> {
    const round = composeRound(this.#queue, this.#state);
    const questions = this.#queue.takeQuestions();
    if (round.changes.length === 0) return questions.length === 0 ? undefined : this.#confirm(questions);
    const { log, metrics, clock } = this.#options;
    const before = round.changes.map(({ change }) => change.uncertain);
    for (const { change } of round.changes) change.uncertain = true;
    const startedMs = clock.monotonicMs();
    const records = round.changes.flatMap((c) => c.records);
    const result = await log.append(records, { expectedBaseOffset: round.base, fenceToken: this.epoch, deadlineMs: this.#deadline() });
    this.#check();
    metrics.appends.labels(result.kind).inc();
    // Certain that this attempt is not stored; a conflict may be with an earlier one of the same.
    if (result.kind === "fenced" || result.kind === "refused")
      round.changes.forEach(({ change }, i) => (change.uncertain = before[i] === true));
    switch (result.kind) {
      case "stored":
        if (result.baseOffset !== round.base)
          throw new SluiceError("INTERNAL", `an append for offset ${round.base} was stored at ${result.baseOffset}`);
        metrics.appendSeconds.observe((clock.monotonicMs() - startedMs) / 1000);
        return this.#stored(round, questions);
      case "fenced":
        return this.#lose("fenced");
      case "refused":
        this.#queue.putBack(
          round.changes.map((c) => c.change),
          questions,
        );
        return this.#pause(RETRY_MS);
      default:
        return this.#settle(round, questions);
    }
  }

  #stored(round: Round, questions: readonly Question[]): void {
    let offset = round.base;
    for (const { change, records } of round.changes) {
      for (const record of records) {
        replay(this.#state, offset, decodeGroupRecord(record.key, record.value));
        this.#schedule.count(record);
        offset += 1;
      }
      this.#answer(change);
    }
    for (const q of questions) q.answer(this.#state);
  }
  #answer(change: Change): void {
    if (!change.done && change.decision !== undefined) change.answer(change.decision.reply);
  }

  /** The log tells what became of an append. What is found at its place is answered, the rest goes back to be decided again. */
  async #settle(round: Round, questions: readonly Question[]): Promise<void> {
    const found: LogRecord[] = [];
    for (;;) {
      try {
        await this.#catchUp((record) => void (found.length < APPEND_RECORDS_MAX && found.push(record)));
        break;
      } catch (error) {
        this.#passing(error);
        this.#options.logger.debug("append not settled yet", { shard: this.shard, offset: round.base, code: codeOf(error) });
        await this.#pause(RETRY_MS);
      }
    }
    const again: Change[] = [];
    for (const { change, records } of round.changes) {
      if (holds(found, records)) {
        this.#answer(change);
        continue;
      }
      // With its place taken by something else it can never be stored; an empty place may still be filled by a late attempt.
      if (this.#state.nextOffset > round.base) change.uncertain = false;
      again.push(change);
    }
    this.#checkOwner();
    this.#queue.putBack(again, questions);
  }

  /** Reads alone: the log's confirmed end proves that the state is the newest, or shows what it lacks. */
  async #confirm(questions: readonly Question[]): Promise<void> {
    try {
      await this.#catchUp();
      this.#checkOwner();
      for (const q of questions) if (!q.done) q.answer(this.#state);
    } catch (error) {
      this.#passing(error);
      this.#options.logger.debug("shard state not confirmed", { shard: this.shard, code: codeOf(error) });
      this.#queue.putBack([], questions);
      await this.#pause(RETRY_MS);
    }
  }

  /** Steps down when the log holds the record of a newer owner. */
  #checkOwner(): void {
    if (this.#state.epoch > this.epoch) this.#lose("log");
    this.#check();
  }
  /** Throws on what another attempt does not mend: the shard then begins anew from its log. */
  #passing(error: unknown): void {
    this.#check();
    if (LASTING.has(codeOf(error))) throw error;
  }
  #deadline(): number {
    return this.#options.clock.monotonicMs() + this.#options.timers.memberLeaseTtlMs;
  }
  async #pause(ms: number): Promise<void> {
    await this.#options.clock.sleep(ms, this.#over.signal);
  }
  #check(): void {
    this.#over.signal.throwIfAborted();
  }
  #enter(phase: ShardPhase, fields: Record<string, unknown> = {}): void {
    this.#check();
    this.#phase = phase;
    this.#options.logger.info(`shard ${phase}`, { shard: this.shard, epoch: this.epoch, ...fields });
  }
  #lose(reason: LossReason): void {
    if (this.#over.signal.aborted) return;
    this.#options.metrics.shardsLost.labels(reason).inc();
    this.#end("lost", "the shard has moved", { reason });
  }
  /** Whatever is not stored fails with NOT_COORDINATOR: whoever asked goes to the next owner. */
  #end(phase: "lost" | "stopped", message: string, fields: Record<string, unknown> = {}): void {
    if (this.#over.signal.aborted) return;
    this.#phase = phase;
    this.#options.logger.info(`shard ${phase}`, { shard: this.shard, epoch: this.epoch, offset: this.#state.nextOffset, ...fields });
    this.#over.abort(new SluiceError("NOT_COORDINATOR", message));
    this.#queue.close("NOT_COORDINATOR", message);
    this.#ended.resolve();
  }
}
