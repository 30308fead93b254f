import { assignmentCodec, type PartitionView, type TopicEntry, type Versioned } from "@sluice/catalog";
import { partitionKey, type AssignmentRecord, type InstanceId, type PartitionId, type PartitionKey } from "@sluice/core/model";
import { placePartitions, type PlacementCause, type PlacementMove, type PlacementPartition } from "@sluice/core/placement";
import type { Compare } from "@sluice/metadata";
import { type Duty, viewAt } from "./duty.ts";
import { ASSIGNMENTS_PER_TXN_MAX, HAND_OVERS_UNTIL_STUCK } from "./limits.ts";
import type { Members } from "./members.ts";
import { PlannedMoves } from "./planned-moves.ts";

type Cause = PlacementCause | "FORCE" | "STUCK";
interface Write {
  readonly partition: PartitionId;
  readonly topic: TopicEntry;
  readonly before: Versioned<AssignmentRecord> | undefined;
  readonly record: AssignmentRecord;
  readonly cause: Cause;
}
export interface Observed {
  readonly partitions: readonly PlacementPartition[];
  readonly unassigned: number;
  readonly offline: number;
  readonly moving: number;
}

/**
 * Observe (view) -> decide (core/placement) -> apply. Writes `assigned` keys alone, by compare on each key, on the topic and on the term.
 * A compare that fails means that the view was behind: the next run decides again.
 */
export class Assignments {
  readonly #duty: Duty;
  readonly #members: Members;
  readonly #planned: PlannedMoves;
  #writtenRevision = 0;
  /** Planned moves under way, and when they were first seen so. */
  readonly #movingSinceMs = new Map<PartitionKey, number>();

  constructor(duty: Duty, members: Members) {
    this.#duty = duty;
    this.#members = members;
    const { view, limits, timers } = duty;
    this.#planned = new PlannedMoves(view, limits.plannedMovesMax, timers.handOverMs * HAND_OVERS_UNTIL_STUCK);
  }

  /** All partitions that want a broker. Those of a topic that is being deleted only until their register says DELETED. */
  observe(): Observed {
    const { view } = this.#duty;
    const partitions: PlacementPartition[] = [];
    let unassigned = 0;
    let offline = 0;
    let moving = 0;
    for (const { record: topic } of view.allTopics()) {
      for (let n = 0; n < topic.partitions; n += 1) {
        const id: PartitionId = { topicId: topic.topicId, partition: n };
        const p = view.partition(id);
        const gone = p?.state?.record.phase === "DELETED" || (p?.state === undefined && p?.assigned === undefined);
        if (topic.phase === "DELETING" && gone) continue;
        // Its broker is about to end it: it is no weight to be levelled.
        const owner = topic.phase === "DELETING" ? p?.state?.record.ownerInstance : undefined;
        if (owner !== undefined && p?.assigned?.record.broker === p?.state?.record.owner && this.#members.lives(owner)) continue;
        const isMoving = this.#moving(p);
        if (p?.assigned === undefined) unassigned += 1;
        if (!this.#serves(p)) offline += 1;
        if (isMoving) moving += 1;
        partitions.push({ id, assigned: p?.assigned?.record.broker, moving: isMoving || this.#planned.has(id) });
      }
    }
    return { partitions, unassigned, offline, moving };
  }
  #serves(p: PartitionView | undefined): boolean {
    const state = p?.state?.record;
    return state?.phase === "OPEN" && this.#members.lives(state.ownerInstance);
  }
  /** Assigned to one broker, still with another that lives, or free on its way between the two. */
  #moving(p: PartitionView | undefined): boolean {
    const state = p?.state?.record;
    if (state === undefined || p?.assigned === undefined || state.owner === p.assigned.record.broker) return false;
    return state.phase === "UNOWNED" || this.#members.lives(state.ownerInstance);
  }

  plan(observed: Observed): PlacementMove[] {
    return placePartitions({
      brokers: this.#members.brokers(),
      partitions: observed.partitions,
      plannedMovesMax: this.#planned.window,
      balance: this.#members.brokersQuietMs() >= this.#duty.limits.balanceQuietMs,
    });
  }

  /** One round. Returns the number of assignments written. */
  async reconcile(): Promise<number> {
    const { metrics, timers, clock } = this.#duty;
    this.#planned.look(clock.monotonicMs());
    const observed = this.observe();
    metrics.partitions.set(observed.partitions.length);
    metrics.partitionsUnassigned.set(observed.unassigned);
    metrics.partitionsOffline.set(observed.offline);
    metrics.movesInFlight.set(observed.moving);
    metrics.movesWindow.set(this.#planned.window);
    const moves = this.plan(observed);
    const writes = this.#writes(moves);
    let written = 0;
    for (let i = 0; i < writes.length; i += ASSIGNMENTS_PER_TXN_MAX)
      written += await this.#apply(writes.slice(i, i + ASSIGNMENTS_PER_TXN_MAX));
    // The next round must know what this one wrote, or it would decide the same again.
    if (written > 0) await viewAt(this.#duty, this.#writtenRevision, timers.controlCallTimeoutMs);
    return written;
  }

  #writes(moves: readonly PlacementMove[]): Write[] {
    const { view } = this.#duty;
    const byKey = new Map(moves.map((m) => [partitionKey(m.partition), m]));
    const writes: Write[] = [];
    const push = (partition: PartitionId, broker: AssignmentRecord["broker"], force: InstanceId | undefined, cause: Cause): void => {
      const topic = view.topicEntry(partition.topicId);
      if (topic === undefined) return;
      const before = view.partition(partition)?.assigned;
      const revision = (before?.record.revision ?? 0) + 1;
      writes.push({ partition, topic, before, record: { broker, revision, ...(force && { forceInstance: force }) }, cause });
    };
    for (const move of moves) {
      const planned = move.cause === "DRAIN" || move.cause === "BALANCE";
      push(move.partition, move.to, planned ? undefined : this.#deadOwner(view.partition(move.partition)), move.cause);
    }
    // Assigned to a broker that lives, but the register still names an instance that does not: a restart, or a death in the middle of a move.
    for (const p of view.partitions.values()) {
      if (p.assigned === undefined || byKey.has(partitionKey(p.id))) continue;
      const dead = this.#deadOwner(p);
      if (dead === undefined || p.assigned.record.forceInstance === dead) continue;
      const broker = view.member("broker", p.assigned.record.broker);
      if (broker !== undefined && this.#members.lives(broker.instance)) push(p.id, broker.id, dead, "FORCE");
    }
    for (const id of this.#stuck()) {
      const p = view.partition(id);
      const owner = p?.state?.record.ownerInstance;
      if (p?.assigned === undefined || owner === undefined || byKey.has(partitionKey(id)) || p.assigned.record.forceInstance === owner)
        continue;
      push(id, p.assigned.record.broker, owner, "STUCK");
    }
    // Forced ones first: somebody waits for them.
    const rank: Record<Cause, number> = { LOST: 0, FORCE: 0, STUCK: 0, FIRST: 1, DRAIN: 2, BALANCE: 3 };
    return writes.sort((a, b) => rank[a.cause] - rank[b.cause]);
  }
  /** Moves whose old owner lives and does not let go: the next owner takes the crash path instead. */
  #stuck(): PartitionId[] {
    const { view, clock, timers } = this.#duty;
    const nowMs = clock.monotonicMs();
    const moving = new Set<PartitionKey>();
    const stuck: PartitionId[] = [];
    for (const [key, p] of view.partitions) {
      if (!this.#moving(p) || p.state?.record.phase === "UNOWNED") continue;
      moving.add(key);
      const sinceMs = this.#movingSinceMs.get(key) ?? nowMs;
      this.#movingSinceMs.set(key, sinceMs);
      if (nowMs - sinceMs >= timers.handOverMs * HAND_OVERS_UNTIL_STUCK) stuck.push(p.id);
    }
    for (const key of this.#movingSinceMs.keys()) if (!moving.has(key)) this.#movingSinceMs.delete(key);
    return stuck;
  }
  #deadOwner(p: PartitionView | undefined): InstanceId | undefined {
    const state = p?.state?.record;
    if (state === undefined || state.phase === "UNOWNED" || state.phase === "DELETED") return undefined;
    return this.#members.lives(state.ownerInstance) ? undefined : state.ownerInstance;
  }

  /** All in one transaction; singly when a compare fails. */
  async #apply(writes: readonly Write[]): Promise<number> {
    const { keys, leadership, logger, metrics, clock } = this.#duty;
    const compare = new Map<string, Compare>();
    for (const w of writes) {
      compare.set(w.topic.key, { key: w.topic.key, target: "mod", equals: w.topic.modRevision });
      const key = keys.assigned(w.partition);
      compare.set(key, { key, target: "mod", equals: w.before?.modRevision ?? 0 });
    }
    const done = await leadership.txn({
      compare: [...compare.values()],
      then: writes.map((w) => ({
        kind: "put",
        key: keys.assigned(w.partition),
        value: assignmentCodec.encode(w.record, w.before?.record),
      })),
    });
    if (!done.succeeded && done.unknown) {
      // Applied by an earlier sending, or overtaken: the next round looks.
      this.#writtenRevision = Math.max(this.#writtenRevision, done.revision);
      logger.info("assignment settled by reading", { partitions: writes.length });
      return writes.length;
    }
    if (!done.succeeded) {
      if (writes.length === 1) return 0;
      let written = 0;
      for (const w of writes) written += await this.#apply([w]);
      return written;
    }
    for (const w of writes) {
      if (w.cause === "DRAIN" || w.cause === "BALANCE") this.#planned.began(w.partition, w.record.broker, clock.monotonicMs());
      metrics.assignments.labels(w.cause).inc();
      const { broker, revision, forceInstance } = w.record;
      const moved = { ...w.partition, topic: w.topic.record.name, from: w.before?.record.broker, to: broker, revision, forceInstance };
      logger.info("partition assigned", { ...moved, cause: w.cause });
    }
    this.#writtenRevision = Math.max(this.#writtenRevision, done.revision);
    return writes.length;
  }
}
