import { setMaxListeners } from "node:events";
import { asSluiceError, SluiceError } from "@sluice/core/model";
import type { Timer } from "@sluice/runtime";
import type { Call } from "./admin.ts";
import { cancelled, type Connection } from "./connection.ts";
import { GroupCommits } from "./group-commits.ts";
import { GroupMembership, REBALANCE_TIMEOUT_MS_DEFAULT } from "./group-membership.ts";
import { bare, newPlace, type Place, placeKey, uncommitted } from "./group-places.ts";
import { GroupReaders } from "./group-readers.ts";
import { partitionsToWire } from "./group-wire.ts";
import { isOver, Iteration, nextRecord, positionIn, restOf, type Step } from "./iteration.ts";
import type { GroupConsumer, OffsetInTopic, SubscribeOptions, TopicPartition } from "./group-types.ts";
import { resolvePosition } from "./start-positions.ts";
import { clientTimers } from "./timing.ts";
import type { ClientEvent } from "./sluice-types.ts";
import type { CallOptions, ConsumedRecord, Position, RecordBatch } from "./types.ts";

/** Of the rebalance timeout; the rest is for the commit and the heartbeat. */
const HOLD_SHARE = 0.8;

export interface GroupConsumerHooks {
  readonly onEvent: (event: ClientEvent) => void;
  readonly onClosed: (consumer: SluiceGroupConsumer) => void;
}

/**
 * See \`GroupConsumer\`.
 *
 *   membership ── assignment ──► reconcile: give back what goes (finish, hook, commit), fetch offsets of what comes, open readers
 *        ▲                            │
 *        └──── "that is what I read" ─┘         readers (one a topic) ──► step ──► iteration
 */
export class SluiceGroupConsumer implements GroupConsumer {
  readonly #connection: Connection;
  readonly #call: Call;
  readonly #options: SubscribeOptions;
  readonly #hooks: GroupConsumerHooks;
  readonly #membership: GroupMembership;
  readonly #commits: GroupCommits;
  readonly #places = new Map<string, Place>();
  readonly #readers: GroupReaders;
  readonly #closing = new AbortController();
  readonly #ready = Promise.withResolvers<void>();
  readonly #iteration = new Iteration(
    () => this.#isEnded(),
    () => this.#settle(),
  );
  readonly #onAbort = (): void => this.abort(cancelled(this.#options.signal as AbortSignal));
  #wanted: readonly TopicPartition[] | undefined;
  #reconciling = false;
  /** Counts times that everything was lost: work for an assignment of before is dropped. */
  #lives = 0;
  #step: Step<Place> | undefined;
  /** Given to the application and not finished: up to which offset. */
  #inHand: { readonly place: Place; readonly upTo: number } | undefined;
  #settled: (() => void) | undefined;
  #failure: SluiceError | undefined;
  #closed: Promise<void> | undefined;
  #commitTimer: Timer | undefined;

  constructor(connection: Connection, call: Call, options: SubscribeOptions, hooks: GroupConsumerHooks) {
    checkOptions(options);
    this.#connection = connection;
    this.#call = call;
    this.#options = options;
    this.#hooks = hooks;
    setMaxListeners(0, this.#closing.signal);
    this.#ready.promise.catch(() => undefined);
    this.#membership = new GroupMembership(connection, options, {
      owned: () => [...this.#places.values()].map(bare),
      assigned: (partitions) => this.#assigned(partitions),
      lost: (error) => this.#lost(error),
      failed: (error) => this.abort(error),
    });
    this.#commits = new GroupCommits(call, options.group, options.instanceId ?? "", this.#membership);
    this.#readers = new GroupReaders(connection, call, options, this.#places, () => this.#iteration.wake());
    options.signal?.addEventListener("abort", this.#onAbort, { once: true });
    if (options.signal?.aborted === true) this.#onAbort();
    else this.#membership.start();
    this.#armCommit();
  }
  get memberId(): string {
    return this.#membership.memberId;
  }
  get memberEpoch(): number {
    return Math.max(0, this.#membership.epoch);
  }
  ready(): Promise<void> {
    return this.#ready.promise;
  }
  assignment(): readonly TopicPartition[] {
    return [...this.#places.values()].filter((p) => !p.revoking).map(bare);
  }
  positions(): readonly OffsetInTopic[] {
    return [...this.#places.values()].filter((p) => !p.revoking).map((p) => ({ ...bare(p), offset: p.next }));
  }
  async commit(offsets?: readonly OffsetInTopic[], options?: CallOptions): Promise<void> {
    const wanted = offsets ?? uncommitted(this.#places.values(), "next");
    await this.#commit(wanted, options);
  }
  async seek(topic: string, partition: number, position: Position): Promise<void> {
    const place = this.#readable({ topic, partition });
    const offset = await resolvePosition(this.#call, topic, partition, position, this.#closing.signal);
    if (this.#readable({ topic, partition }) !== place) throw notRead(topic, partition);
    place.seeks++;
    place.taken = place.next = place.done = offset;
    // A commit of the place may go back as well.
    place.committed = Math.min(place.committed, offset);
    if (this.#step?.of === place) this.#step = undefined;
    if (this.#inHand?.place === place) this.#inHand = undefined;
    this.#readers.open(topic);
  }
  batches(): AsyncIterableIterator<RecordBatch> {
    return this.#iteration.iterator(() => this.#takeBatch());
  }
  [Symbol.asyncIterator](): AsyncIterableIterator<ConsumedRecord> {
    return this.#iteration.iterator(() => this.#takeRecord());
  }
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
  /** Iterations fail with \`error\`; the group is left without a commit. */
  abort(error: SluiceError): void {
    this.#failure ??= error;
    this.#closed ??= this.#end();
  }

  // Membership.
  #assigned(partitions: readonly TopicPartition[]): void {
    this.#wanted = partitions;
    if (!this.#reconciling) void this.#reconcile();
  }
  #lost(error: SluiceError): void {
    this.#lives++;
    this.#wanted = undefined;
    const gone = [...this.#places.values()];
    this.#drop(gone);
    if (gone.length === 0) return;
    this.#hooks.onEvent({ type: "group_lost", group: this.#options.group, error });
    const signal = AbortSignal.abort();
    void this.#hook(async () => this.#options.onRevoked?.(gone.map(bare), { lost: true, signal }));
  }
  async #reconcile(): Promise<void> {
    this.#reconciling = true;
    try {
      while (this.#wanted !== undefined && this.#closed === undefined) {
        const wanted = this.#wanted;
        const life = this.#lives;
        const keys = new Set(wanted.map(placeKey));
        const goes = [...this.#places.values()].filter((p) => !keys.has(placeKey(p)));
        const comes = wanted.filter((p) => !this.#places.has(placeKey(p)));
        if (goes.length > 0) await this.#giveBack(goes, life);
        if (comes.length > 0 && life === this.#lives) await this.#takeUp(comes, life);
        if (life !== this.#lives) continue;
        if (goes.length > 0 || comes.length > 0) {
          this.#hooks.onEvent({ type: "rebalanced", group: this.#options.group, assigned: comes.map(bare), revoked: goes.map(bare) });
          // What was given back is free for others once it is said.
          if (goes.length > 0) this.#membership.wake();
        }
        if (this.#wanted === wanted) this.#wanted = undefined;
        this.#ready.resolve();
      }
    } catch (error) {
      this.abort(asSluiceError(error));
    } finally {
      this.#reconciling = false;
    }
  }
  async #giveBack(goes: readonly Place[], life: number): Promise<void> {
    const holdMs = (this.#options.rebalanceTimeoutMs ?? REBALANCE_TIMEOUT_MS_DEFAULT) * HOLD_SHARE;
    for (const place of goes) place.revoking = true;
    if (this.#step?.of.revoking === true) this.#step = undefined;
    for (const topic of new Set(goes.map((p) => p.topic))) this.#readers.open(topic);
    const deadline = new AbortController();
    const timer = this.#connection.clock.setTimer(holdMs, () => deadline.abort());
    try {
      await this.#finished(goes, deadline.signal);
      await this.#hook(async () => this.#options.onRevoked?.(goes.map(bare), { lost: false, signal: deadline.signal }));
      if (this.#options.autoCommit !== false && life === this.#lives) await this.#autoCommit(goes, holdMs);
    } finally {
      timer.cancel();
    }
    if (life === this.#lives) this.#drop(goes);
  }
  /** Until the application has finished what it has of these. */
  async #finished(goes: readonly Place[], signal: AbortSignal): Promise<void> {
    while (this.#inHand !== undefined && goes.includes(this.#inHand.place) && !signal.aborted && this.#closed === undefined) {
      await new Promise<void>((resolve) => {
        this.#settled = resolve;
        signal.addEventListener("abort", () => resolve(), { once: true });
        this.#closing.signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
  }
  async #takeUp(comes: readonly TopicPartition[], life: number): Promise<void> {
    const places = await this.#startOf(comes);
    if (life !== this.#lives || this.#closed !== undefined) return;
    await this.#hook(async () => this.#options.onAssigned?.(comes.map(bare)));
    if (life !== this.#lives || this.#closed !== undefined) return;
    for (const place of places) this.#places.set(placeKey(place), place);
    for (const topic of new Set(comes.map((p) => p.topic))) this.#readers.open(topic);
  }
  /** The group's offsets, or where partitions begin that have none. */
  async #startOf(comes: readonly TopicPartition[]): Promise<Place[]> {
    const { group, from = "earliest" } = this.#options;
    const topics = partitionsToWire(comes);
    const { signal } = this.#closing;
    const { offsets } = await this.#call((link, o) => link.groups.fetch({ group, topics }, o), { signal });
    const committed = new Map(offsets.map((o) => [placeKey(o), Number(o.offset)]));
    return Promise.all(
      comes.map(async (p) => {
        const offset = committed.get(placeKey(p)) ?? (await resolvePosition(this.#call, p.topic, p.partition, from, signal));
        return newPlace(p, offset);
      }),
    );
  }
  #drop(places: readonly Place[]): void {
    for (const place of places) {
      place.revoking = true;
      if (this.#places.get(placeKey(place)) === place) this.#places.delete(placeKey(place));
    }
    if (this.#step?.of.revoking === true) this.#step = undefined;
    for (const topic of new Set(places.map((p) => p.topic))) this.#readers.open(topic);
  }

  // Reading.
  #readable(p: TopicPartition): Place {
    const place = this.#places.get(placeKey(p));
    if (place === undefined || place.revoking) throw notRead(p.topic, p.partition);
    return place;
  }
  #nextStep(): Step<Place> | undefined {
    if (this.#isEnded()) return undefined;
    if (this.#step !== undefined) return this.#step;
    const taken = this.#readers.take();
    if (taken !== undefined) this.#step = { of: taken.place, batch: taken.batch, given: 0 };
    return this.#step;
  }
  #takeRecord(): ConsumedRecord | undefined {
    const step = this.#nextStep();
    if (step === undefined) return undefined;
    const record = nextRecord(step);
    if (isOver(step)) this.#step = undefined;
    this.#give(step.of, positionIn(step));
    return record;
  }
  #takeBatch(): RecordBatch | undefined {
    const step = this.#nextStep();
    if (step === undefined) return undefined;
    this.#step = undefined;
    this.#give(step.of, step.batch.nextOffset);
    return restOf(step);
  }
  #give(place: Place, upTo: number): void {
    place.next = upTo;
    this.#inHand = { place, upTo };
  }
  /** The application asks for more: what it has is finished. */
  #settle(): void {
    if (this.#inHand !== undefined) this.#inHand.place.done = this.#inHand.upTo;
    this.#inHand = undefined;
    this.#settled?.();
  }

  /** Throws why it failed. */
  #isEnded(): boolean {
    if (this.#failure !== undefined) throw this.#failure;
    return this.#closed !== undefined;
  }

  // Committing and ending.
  async #commit(offsets: readonly OffsetInTopic[], options?: CallOptions): Promise<void> {
    const before = offsets.map((o) => ({ place: this.#places.get(placeKey(o)), seeks: this.#places.get(placeKey(o))?.seeks }));
    await this.#commits.commit(offsets, options);
    // Of a place that was given up or moved meanwhile the commit says nothing.
    offsets.forEach(({ offset }, i) => {
      const { place, seeks } = before[i] ?? {};
      if (place !== undefined && place.seeks === seeks) place.committed = offset;
    });
  }
  /** A failure is told as an event: the next commit tries again, and what nobody commits is read again. */
  async #autoCommit(places: Iterable<Place>, timeoutMs: number, last = false): Promise<void> {
    const late = Promise.withResolvers<never>();
    // Also for the one before it: a commit waits until that is answered.
    const timer = this.#connection.clock.setTimer(timeoutMs, () =>
      late.reject(new SluiceError("TIMED_OUT", `no answer to the commit within ${timeoutMs} ms`)),
    );
    try {
      await Promise.race([this.#commit(uncommitted(places, "done"), { timeoutMs }), late.promise]);
    } catch (error) {
      this.#hooks.onEvent({ type: "commit_failed", group: this.#options.group, error: asSluiceError(error), last });
    } finally {
      timer.cancel();
    }
  }
  #armCommit(): void {
    const { autoCommit = true } = this.#options;
    if (autoCommit === false || this.#closed !== undefined) return;
    const intervalMs = autoCommit === true ? clientTimers.groupCommitIntervalMs : autoCommit.intervalMs;
    const run = (): void => {
      const places = [...this.#places.values()].filter((p) => !p.revoking);
      void this.#autoCommit(places, clientTimers.requestTimeoutMs).finally(() => this.#armCommit());
    };
    this.#commitTimer = this.#connection.clock.setTimer(intervalMs, run, { unref: true });
  }
  async #hook(run: () => Promise<void> | undefined): Promise<void> {
    try {
      await run();
    } catch (error) {
      this.abort(asSluiceError(error));
    }
  }
  async #close(): Promise<void> {
    // An iteration that waits has finished what it had.
    if (this.#iteration.isWaiting) this.#settle();
    if (this.#options.autoCommit !== false && this.#membership.epoch > 0)
      await this.#autoCommit([...this.#places.values()], clientTimers.groupLeaveMs, true);
    await this.#end();
  }
  async #end(): Promise<void> {
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
    this.#commitTimer?.cancel();
    this.#ready.reject(this.#failure ?? new SluiceError("SHUTTING_DOWN", "the consumer is closed"));
    this.#readers.close();
    this.#step = undefined;
    this.#closing.abort(this.#failure ?? new SluiceError("SHUTTING_DOWN", "the consumer is closed"));
    this.#iteration.wake();
    await this.#membership.leave();
    this.#hooks.onClosed(this);
  }
}

const notRead = (topic: string, partition: number): SluiceError =>
  new SluiceError("UNKNOWN_PARTITION", `${topic}/${partition} is not read here`);
function checkOptions({ group, topics = [], topicPattern = "", autoCommit, rebalanceTimeoutMs = 1 }: SubscribeOptions): void {
  if (group === "") throw new SluiceError("INVALID_GROUP", "the group has no name");
  if (topics.length === 0 && topicPattern === "") throw new SluiceError("INVALID_ARGUMENT", "neither topics nor a topic pattern is given");
  if (typeof autoCommit === "object" && !(autoCommit.intervalMs > 0))
    throw new SluiceError("INVALID_ARGUMENT", "autoCommit.intervalMs is a number above 0");
  if (!(rebalanceTimeoutMs > 0)) throw new SluiceError("INVALID_ARGUMENT", "rebalanceTimeoutMs is a number above 0");
}
