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
  groupRemovalOffsetsMax,
  heartbeat,
  isNewest,
  join,
  leave,
  mayCommit,
  mayUseOffsets,
  refuseOffsets,
  restoreClassic,
  stored,
  storeRefused,
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
  type GroupRecord,
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
import { asSluiceError, SluiceError, type ErrorCode } from "@sluice/core/model";
import type { Clock, Logger } from "@sluice/runtime";
import { Gate } from "./gate.ts";
import { GroupTimers } from "./group-timers.ts";
import { MemberSessions } from "./member-sessions.ts";
import type { CoordinatorMetrics } from "./metrics.ts";
import { offsetsChange } from "./round.ts";
import type { Shard } from "./shard.ts";
import type { ViewTopics } from "./topic-lookup.ts";
import { Waiting } from "./waiting.ts";

export interface GroupHostOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly config: GroupConfig;
  readonly metrics: CoordinatorMetrics;
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
  /** Open while the shard serves. */
  readonly #gate = new Gate();
  /** Version of the topics that a group was last looked at with. */
  readonly #topicsSeen = new Map<string, number>();

  constructor(options: GroupHostOptions, shard: Shard) {
    this.#options = options;
    this.#shard = shard;
    this.#classics = createClassics(options.config);
    this.#timers = new GroupTimers(options.clock, (key, stoodStillMs) => this.#due(key, stoodStillMs));
    void shard.ended.then(() => this.#end());
  }
  /** Classic groups in memory: newer than the shard's state. */
  get classics(): Classics {
    return this.#classics;
  }
  /** Calls that wait for other members of their group. */
  get waiting(): number {
    return this.#joins.size + this.#syncs.size;
  }
  /** Of all groups, both kinds. */
  get memberCount(): number {
    let count = 0;
    for (const g of this.#classics.groups.values()) count += g.members.size;
    for (const { members } of this.#shard.state.groups.values()) if (members?.kind === "consumer") count += members.members.size;
    return count;
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
    this.#gate.open();
  }

  /** Nobody takes the shard from here, and the process ends: who waits for other members is told at once to look elsewhere. */
  release(): void {
    const error = new SluiceError("NOT_COORDINATOR", "the coordinator is going away");
    this.#joins.close(error);
    this.#syncs.close(error);
  }
  /** Answers when the members have joined. When `signal` aborts, the member stays and the answer is nobody's. */
  async join(r: JoinRequest, signal: AbortSignal): Promise<JoinReply> {
    await this.#gate.pass(signal);
    const { ticket, answer } = this.#joins.open(signal);
    this.#step(groupKey(r.tenant, r.group), (step) => join(step, this.#shard.state, r, ticket));
    return answer;
  }
  async sync(r: SyncRequest, signal: AbortSignal): Promise<SyncReply> {
    await this.#gate.pass(signal);
    const { ticket, answer } = this.#syncs.open(signal);
    this.#step(groupKey(r.tenant, r.group), (step) => sync(step, r, ticket));
    return answer;
  }
  async heartbeat(r: HeartbeatRequest, signal: AbortSignal): Promise<ErrorCode | undefined> {
    await this.#gate.pass(signal);
    return heartbeat({ all: this.#classics, now: this.#now(), effects: [] }, r);
  }
  async leave(r: LeaveRequest, signal: AbortSignal): Promise<LeaveReply> {
    await this.#gate.pass(signal);
    return this.#step(groupKey(r.tenant, r.group), (step) => leave(step, r));
  }

  /** Throws INVALID_ARGUMENT, INVALID_REGULAR_EXPRESSION; what the group says is in the reply. */
  async consumerHeartbeat(r: ConsumerHeartbeat, deadlineMs: number, signal: AbortSignal): Promise<HeartbeatReply> {
    const { topics, config, metrics } = this.#options;
    checkHeartbeat(r);
    topics.checkPattern(r.tenant, r.subscription?.pattern ?? "");
    await this.#gate.pass(signal);
    const key = groupKey(r.tenant, r.group);
    const { version } = topics;
    if (r.memberEpoch > 0) this.#touch(key, r.memberId, this.#consumer(key));
    let assigns = false;
    const reply = await this.#shard.change(
      {
        key,
        isExclusive: true,
        bytes: RECORD_BYTES,
        decide: (state, nowMs) => {
          const decision = decideHeartbeat(state, r, {
            config,
            topics,
            nowMs,
            hasClassicMembers: (this.#classics.groups.get(key)?.members.size ?? 0) > 0,
            topicsAreKnown: this.#topicsSeen.get(key) === version,
          });
          assigns = decision.records.some((c) => c.kind === "consumer" && c.value.targetEpoch === c.value.epoch);
          return decision;
        },
      },
      deadlineMs,
    );
    if (reply.code !== undefined) return reply;
    if (assigns) metrics.rebalances.labels("consumer").inc();
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
  /** One code for each offset, in as many appends as they take. Throws GROUP_NOT_FOUND, NON_EMPTY_GROUP. */
  async deleteOffsets(key: GroupName, offsets: readonly OffsetToDelete[], deadlineMs: number): Promise<readonly (ErrorCode | undefined)[]> {
    const codes: (ErrorCode | undefined)[] = [];
    do {
      const part = offsets.slice(codes.length, codes.length + groupRemovalOffsetsMax);
      codes.push(...(await this.#deleteOffsets(key, part, deadlineMs)));
    } while (codes.length < offsets.length);
    return codes;
  }
  async #deleteOffsets(
    key: GroupName,
    offsets: readonly OffsetToDelete[],
    deadlineMs: number,
  ): Promise<readonly (ErrorCode | undefined)[]> {
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
    const before = this.#classics.groups.get(key)?.generation ?? 0;
    const result = run(step);
    for (const effect of step.effects) this.#perform(effect);
    const g = this.#classics.groups.get(key);
    if (g !== undefined && g.generation !== before) this.#options.metrics.rebalances.labels("classic").inc();
    if (g !== undefined) this.#timers.arm(key, classicDueMs(g));
    return result;
  }
  #perform(effect: ClassicEffect): void {
    if (effect.kind === "joined") this.#joins.answer(effect.ticket, effect.reply);
    else if (effect.kind === "synced") this.#syncs.answer(effect.ticket, effect.reply);
    else void this.#store(effect);
  }
  /**
   * Tries until it is stored, refused for good, or the shard is gone, and everything here with it. The log's last word on a group is its newest
   * record: one that waited here while a newer one, or the removal of the group, went to the log is dropped.
   */
  async #store({ key, value, token }: ClassicEffect & { readonly kind: "store" }): Promise<void> {
    const bytes = value.members.reduce((n, m) => n + m.metadata.length + m.assignment.length, RECORD_BYTES);
    const id = groupKey(key.tenant, key.group);
    const decide = (): { readonly records: readonly GroupRecord[]; readonly reply: undefined } => ({
      records: isNewest(this.#classics, id, token) ? [{ kind: "classic", key, value }] : [],
      reply: undefined,
    });
    while (isNewest(this.#classics, id, token)) {
      try {
        await this.#shard.change({ key: id, isExclusive: true, bytes, decide }, Infinity);
        return this.#step(id, (step) => stored(step, id, token));
      } catch (error) {
        const { code, message } = asSluiceError(error);
        if (this.#shard.isOver) return;
        if (code !== "OVERLOADED") {
          this.#options.logger.warn("group not stored", { shard: this.#shard.shard, group: key.group, code, reason: message });
          return this.#step(id, (step) => storeRefused(step, id, token, { code, message }));
        }
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
    this.#timers.forget(key);
    try {
      const out = await this.#exclusive(name, Infinity, (state, nowMs) => {
        const records = decideExpel(state, name, still(), nowMs);
        return { records, reply: records.flatMap((r) => (r.kind === "member" ? [r.key.memberId] : [])) };
      });
      for (const id of out) logger.info("group member silent", { shard: this.#shard.shard, group: group.group, member: id });
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
  #end(): void {
    const error = new SluiceError("NOT_COORDINATOR", "the shard has moved");
    this.#gate.break(error);
    this.#timers.close();
    this.#joins.close(error);
    this.#syncs.close(error);
  }
}
