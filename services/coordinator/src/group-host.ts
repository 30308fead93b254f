import {
  checkHeartbeat,
  classicDueMs,
  classicOf,
  createClassics,
  decideDelete,
  decideDeleteOffsets,
  decideExpel,
  decideExpiry,
  decideHeartbeat,
  groupKey,
  heartbeat,
  join,
  leave,
  mayCommit,
  mayUseOffsets,
  refuseOffsets,
  restoreClassic,
  stored,
  sync,
  timePassed,
  type ClassicEffect,
  type Classics,
  type ClassicStep,
  type CommitRequest,
  type ConsumerGroup,
  type ConsumerHeartbeat,
  type GroupConfig,
  type GroupName,
  type GroupReply,
  type HeartbeatReply,
  type HeartbeatRequest,
  type JoinReply,
  type JoinRequest,
  type LeaveReply,
  type LeaveRequest,
  type OffsetToDelete,
  type ShardState,
  type SyncReply,
  type SyncRequest,
} from "@sluice/core/group";
import { codeOf, SluiceError, type ErrorCode } from "@sluice/core/model";
import type { Clock, Logger } from "@sluice/runtime";
import { GroupTimers } from "./group-timers.ts";
import { MemberSessions } from "./member-sessions.ts";
import { offsetsChange } from "./round.ts";
import type { Shard } from "./shard.ts";
import type { ViewTopics } from "./topic-lookup.ts";
import { Waiting } from "./waiting.ts";

export interface GroupHostOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly config: GroupConfig;
  readonly topics: Pick<ViewTopics, "topic" | "matching" | "checkPattern" | "version">;
}
/** Pause before a record that found no room in the queue is offered again, ms. */
const STORE_RETRY_MS = 50;
const RECORD_BYTES = 1_024;
/** Who commits: a member with its epoch (classic: generation), or, with -1 and no id, nobody in particular. */
export interface Committer {
  readonly memberId: string;
  readonly instanceId: string;
  readonly epoch: number;
}

/**
 * The groups of one shard: feeds the machines of core/group with requests, time and what was stored.
 *
 *   classic    request ──► step in memory ──► answers, now or later;   records ──► the shard's log ──► `stored` ──► answers
 *   consumer   request ──► the shard's queue ──► decided on the replayed state ──► log ──► answer
 *
 * Whoever waits for other members waits here, in nobody's way: neither the queue nor another group knows of it.
 */
export class GroupHost {
  readonly #options: GroupHostOptions;
  readonly #shard: Shard;
  readonly #classics: Classics;
  readonly #sessions = new MemberSessions();
  readonly #timers: GroupTimers;
  readonly #joins = new Waiting<JoinReply>();
  readonly #syncs = new Waiting<SyncReply>();
  readonly #active = Promise.withResolvers<void>();
  #released: SluiceError | undefined;
  /** Version of the topics that a group was last looked at with. */
  readonly #topicsSeen = new Map<string, number>();

  constructor(options: GroupHostOptions, shard: Shard) {
    this.#options = options;
    this.#shard = shard;
    this.#classics = createClassics(options.config);
    this.#timers = new GroupTimers(options.clock, (key, stoodStillMs) => this.#due(key, stoodStillMs));
    this.#active.promise.catch(() => undefined);
    void shard.ended.then(() => this.#end());
  }
  /** Classic groups in memory: newer than the shard's state. */
  get classics(): Classics {
    return this.#classics;
  }

  /** The shard serves: its groups go on where their records left them, and every member has a fresh session. */
  begin(state: ShardState): void {
    const now = this.#now();
    for (const [key, group] of state.groups) {
      const { members } = group;
      if (members?.kind === "classic") {
        const classic = restoreClassic(group, members, now);
        this.#classics.groups.set(key, classic);
        this.#timers.arm(key, classicDueMs(classic));
      }
      if (members?.kind === "consumer") for (const id of members.members.keys()) this.#touch(key, id, members);
    }
    this.#active.resolve();
  }

  /** Nobody takes the shard from here, and the process ends: who waits for other members is told at once to look elsewhere. */
  release(): void {
    this.#released = new SluiceError("NOT_COORDINATOR", "the coordinator is going away");
    this.#joins.close(this.#released);
    this.#syncs.close(this.#released);
  }
  /** Answers when the members have joined. When `signal` aborts, the member stays and the answer is nobody's. */
  async join(r: JoinRequest, signal: AbortSignal): Promise<JoinReply> {
    await this.#ready(signal);
    if (this.#released !== undefined) throw this.#released;
    const { ticket, answer } = this.#joins.open(signal);
    this.#step(groupKey(r.tenant, r.group), (step) => join(step, this.#shard.state, r, ticket));
    return answer;
  }
  async sync(r: SyncRequest, signal: AbortSignal): Promise<SyncReply> {
    await this.#ready(signal);
    if (this.#released !== undefined) throw this.#released;
    const { ticket, answer } = this.#syncs.open(signal);
    this.#step(groupKey(r.tenant, r.group), (step) => sync(step, r, ticket));
    return answer;
  }
  async heartbeat(r: HeartbeatRequest, signal: AbortSignal): Promise<ErrorCode | undefined> {
    await this.#ready(signal);
    return heartbeat({ all: this.#classics, now: this.#now(), effects: [] }, r);
  }
  async leave(r: LeaveRequest, signal: AbortSignal): Promise<LeaveReply> {
    await this.#ready(signal);
    return this.#step(groupKey(r.tenant, r.group), (step) => leave(step, r));
  }

  /** Throws INVALID_ARGUMENT, INVALID_REGULAR_EXPRESSION; what the group says is in the reply. */
  async consumerHeartbeat(r: ConsumerHeartbeat, deadlineMs: number, signal: AbortSignal): Promise<HeartbeatReply> {
    const { topics, config } = this.#options;
    checkHeartbeat(r);
    topics.checkPattern(r.subscription?.pattern ?? "");
    await this.#ready(signal);
    const key = groupKey(r.tenant, r.group);
    const { version } = topics;
    if (r.memberEpoch > 0) this.#touch(key, r.memberId, this.#consumer(key));
    const reply = await this.#shard.change(
      {
        key,
        isExclusive: true,
        bytes: RECORD_BYTES,
        decide: (state, nowMs) =>
          decideHeartbeat(state, r, {
            config,
            topics,
            nowMs,
            hasClassicMembers: (this.#classics.groups.get(key)?.members.size ?? 0) > 0,
            topicsAreKnown: this.#topicsSeen.get(key) === version,
          }),
      },
      deadlineMs,
    );
    if (reply.code !== undefined) return reply;
    this.#topicsSeen.set(key, version);
    this.#dropEmptyClassic(key);
    if (r.memberEpoch >= 0) this.#touch(key, reply.memberId, this.#consumer(key));
    return reply;
  }

  commit(r: CommitRequest, by: Committer, deadlineMs: number): Promise<GroupReply> {
    const refusal = (state: ShardState): GroupReply | undefined => {
      const code = this.#mayCommit(state, r, by);
      return code === undefined ? undefined : refuseOffsets(r, code).reply;
    };
    return this.#shard.change(offsetsChange(r, refusal), deadlineMs);
  }
  /** Whether a member may ask for offsets; undefined = it may. Only groups that the server assigns look at it. */
  mayFetch(state: ShardState, key: GroupName, memberId: string, epoch: number): ErrorCode | undefined {
    const members = state.groups.get(groupKey(key.tenant, key.group))?.members;
    return members?.kind === "consumer" ? mayUseOffsets(members, memberId, epoch) : undefined;
  }
  /** Throws GROUP_NOT_FOUND, NON_EMPTY_GROUP. */
  async delete(key: GroupName, deadlineMs: number): Promise<void> {
    const code = await this.#exclusive(key, deadlineMs, (state) => {
      const { records, code: reply } = decideDelete(state, this.#classics, key);
      return { records, reply };
    });
    if (code !== undefined)
      throw new SluiceError(code, code === "GROUP_NOT_FOUND" ? `there is no group ${key.group}` : `group ${key.group} has members`);
    this.#forget(groupKey(key.tenant, key.group));
  }
  /** One code for each offset. Throws GROUP_NOT_FOUND, NON_EMPTY_GROUP. */
  async deleteOffsets(key: GroupName, offsets: readonly OffsetToDelete[], deadlineMs: number): Promise<readonly (ErrorCode | undefined)[]> {
    const { topics } = this.#options;
    const reply = await this.#exclusive(key, deadlineMs, (state) => {
      const { records, ...answer } = decideDeleteOffsets(state, this.#classics, key, offsets, (p) => topics.matching(key.tenant, p));
      return { records, reply: answer };
    });
    if (reply.code !== undefined) throw new SluiceError(reply.code, `offsets of group ${key.group} cannot be deleted`);
    return reply.codes;
  }
  /** Forgets what is old in one group; returns how many records that took. */
  async expire(key: GroupName, retentionMs: number, deadlineMs: number): Promise<number> {
    const due = (state: ShardState, nowMs: number) => decideExpiry(state, this.#classics, key, nowMs, retentionMs);
    if (due(this.#shard.state, this.#options.clock.wallMs()).length === 0) return 0;
    const { count, gone } = await this.#exclusive(key, deadlineMs, (state, nowMs) => {
      const records = due(state, nowMs);
      return { records, reply: { count: records.length, gone: records[0]?.kind === "gone" } };
    });
    if (gone) this.#forget(groupKey(key.tenant, key.group));
    return count;
  }

  #exclusive<R>(
    key: GroupName,
    deadlineMs: number,
    decide: (state: ShardState, nowMs: number) => { readonly records: ReturnType<typeof decideExpel>; readonly reply: R },
  ): Promise<R> {
    return this.#shard.change({ key: groupKey(key.tenant, key.group), isExclusive: true, bytes: RECORD_BYTES, decide }, deadlineMs);
  }
  #mayCommit(state: ShardState, r: GroupName, by: Committer): ErrorCode | undefined {
    const classic = classicOf(this.#classics, r.tenant, r.group);
    const members = state.groups.get(groupKey(r.tenant, r.group))?.members;
    if (members?.kind === "consumer" && (classic === undefined || classic.members.size === 0))
      return mayUseOffsets(members, by.memberId, by.epoch);
    const { memberId, instanceId, epoch: generation } = by;
    if (classic !== undefined) return mayCommit(this.#stepNow(), classic, { memberId, instanceId, generation });
    return generation >= 0 || memberId !== "" ? "UNKNOWN_MEMBER" : undefined;
  }
  #consumer(key: string): ConsumerGroup | undefined {
    const members = this.#shard.state.groups.get(key)?.members;
    return members?.kind === "consumer" ? members : undefined;
  }
  #touch(key: string, memberId: string, group: ConsumerGroup | undefined): void {
    const m = group?.members.get(memberId);
    if (m === undefined) return;
    const { clock, config } = this.#options;
    this.#timers.arm(key, this.#sessions.touch(key, memberId, m, clock.monotonicMs(), config.consumerSessionTimeoutMs));
  }

  #now(): ClassicStep["now"] {
    const { clock } = this.#options;
    return { monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() };
  }
  #stepNow(): ClassicStep {
    return { all: this.#classics, now: this.#now(), effects: [] };
  }
  #step<T>(key: string, run: (step: ClassicStep) => T): T {
    const step = this.#stepNow();
    const result = run(step);
    for (const effect of step.effects) this.#perform(effect);
    const g = this.#classics.groups.get(key);
    if (g !== undefined) this.#timers.arm(key, classicDueMs(g));
    return result;
  }
  #perform(effect: ClassicEffect): void {
    if (effect.kind === "joined") this.#joins.answer(effect.ticket, effect.reply);
    else if (effect.kind === "synced") this.#syncs.answer(effect.ticket, effect.reply);
    else void this.#store(effect);
  }
  /** Tries until it is stored or the shard is gone, and everything here with it. */
  async #store({ key, value, token }: ClassicEffect & { readonly kind: "store" }): Promise<void> {
    const bytes = value.members.reduce((n, m) => n + m.metadata.length + m.assignment.length, RECORD_BYTES);
    const id = groupKey(key.tenant, key.group);
    for (;;) {
      try {
        await this.#shard.change(
          { key: id, isExclusive: true, bytes, decide: () => ({ records: [{ kind: "classic", key, value }], reply: undefined }) },
          Infinity,
        );
        return this.#step(id, (step) => stored(step, id, token));
      } catch (error) {
        if (codeOf(error) !== "OVERLOADED") return;
        await this.#options.clock.sleep(STORE_RETRY_MS);
      }
    }
  }

  /** Somebody's time may be over. */
  #due(key: string, stoodStillMs: number): void {
    const { clock } = this.#options;
    const g = this.#classics.groups.get(key);
    if (stoodStillMs > 0) {
      this.#sessions.extend(key, stoodStillMs);
      for (const m of g?.members.values() ?? []) m.sessionEndsMs += stoodStillMs;
    }
    if (g !== undefined && !this.#step(key, (step) => timePassed(step, g))) this.#classics.groups.delete(key);
    const group = this.#consumer(key);
    this.#timers.arm(key, this.#sessions.prune(key, group));
    const over = this.#sessions.over(key, clock.monotonicMs());
    if (group !== undefined && over.length > 0) void this.#expel(key, over);
  }
  async #expel(key: string, memberIds: readonly string[]): Promise<void> {
    const { clock, logger } = this.#options;
    const group = this.#shard.state.groups.get(key);
    if (group === undefined) return;
    const name = { tenant: group.tenant, group: group.group };
    // Who is heard of while the request waits stays.
    const still = (): readonly string[] => {
      const over = new Set(this.#sessions.over(key, clock.monotonicMs()));
      return memberIds.filter((id) => over.has(id));
    };
    for (const id of memberIds) logger.info("group member silent", { shard: this.#shard.shard, group: group.group, member: id });
    this.#timers.forget(key);
    try {
      await this.#exclusive(name, Infinity, (state, nowMs) => ({ records: decideExpel(state, name, still(), nowMs), reply: undefined }));
    } catch {
      // The shard is gone, or its queue is full: the next look finds them again.
    }
    this.#timers.arm(key, Math.max(clock.monotonicMs() + STORE_RETRY_MS, this.#sessions.prune(key, this.#consumer(key))));
  }

  /** Not when somebody came meanwhile. */
  #dropEmptyClassic(key: string): boolean {
    const g = this.#classics.groups.get(key);
    if (g !== undefined && (g.members.size > 0 || g.pending.size > 0)) return false;
    this.#classics.groups.delete(key);
    return true;
  }
  #forget(key: string): void {
    if (!this.#dropEmptyClassic(key)) return;
    this.#topicsSeen.delete(key);
    this.#sessions.forget(key);
    this.#timers.forget(key);
  }
  /** Waits while the shard is being loaded. Throws NOT_COORDINATOR, or why `signal` aborted. */
  async #ready(signal: AbortSignal): Promise<void> {
    if (this.#shard.phase === "active") return;
    signal.throwIfAborted();
    let give: (() => void) | undefined;
    const aborted = new Promise<never>((_, reject) => {
      give = () => reject(new SluiceError("COORDINATOR_NOT_AVAILABLE", "the group's shard is still being loaded"));
      signal.addEventListener("abort", give, { once: true });
    });
    try {
      await Promise.race([this.#active.promise, aborted]);
    } finally {
      if (give !== undefined) signal.removeEventListener("abort", give);
    }
  }
  #end(): void {
    const error = new SluiceError("NOT_COORDINATOR", "the shard has moved");
    this.#active.reject(error);
    this.#timers.close();
    this.#joins.close(error);
    this.#syncs.close(error);
  }
}
