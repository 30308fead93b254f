import { codeOf, partitionKey, segmentKey, type MemberRecord, type SegmentEntry } from "@sluice/core/model";
import type { Duty } from "./duty.ts";
import { GARBAGE_CONCURRENT_MAX, GARBAGE_SEGMENTS_PER_RUN_MAX } from "./limits.ts";
import type { Members } from "./members.ts";

/**
 * What is marked DELETING leaves for good (protocol G2; there is no manifest yet):
 *
 *   DELETING ── grace ──► no storage node holds a copy ──► object deleted ──► key deleted
 *
 * Storage nodes drop their copies by themselves when the key says DELETING. The grace begins when this term first saw the mark: a new
 * leader starts it again, which is late and never early. The key goes last, so nothing is left that no key names.
 */
export class Garbage {
  readonly #duty: Duty;
  readonly #members: Members;
  readonly #seenAtMs = new Map<string, number>();

  constructor(duty: Duty, members: Members) {
    this.#duty = duty;
    this.#members = members;
  }

  /** Returns the number of segments that are gone now. */
  async run(): Promise<number> {
    const { metrics, keys } = this.#duty;
    const due = this.#due();
    metrics.garbageWaiting.set(this.#seenAtMs.size);
    if (due.length === 0) return 0;
    const held = await this.#heldByNodes();
    if (held === undefined) return 0;
    const references = this.#objectReferences();
    const queue = due.slice(0, GARBAGE_SEGMENTS_PER_RUN_MAX).values();
    let gone = 0;
    // Each worker takes the next segment: one slow object holds up one of them.
    const worker = async (): Promise<void> => {
      for (const entry of queue) {
        this.#duty.leadership.ended.throwIfAborted();
        if (held.has(`${partitionKey(entry.partition)}/${segmentKey(entry.record.segment)}`) || this.#absentReplica(entry)) continue;
        if (!(await this.#dropObject(entry, references))) continue;
        if (await this.#dropKey(keys.segment(entry.partition, entry.record.base, entry.record.segment), entry)) gone += 1;
      }
    };
    await Promise.all(Array.from({ length: GARBAGE_CONCURRENT_MAX }, worker));
    metrics.garbageSegments.inc(gone);
    return gone;
  }

  #due(): SegmentEntry[] {
    const { view, keys, clock, limits } = this.#duty;
    const nowMs = clock.monotonicMs();
    const alive = new Set<string>();
    const due: SegmentEntry[] = [];
    for (const p of view.partitions.values()) {
      const topic = view.topicsById.get(p.id.topicId);
      const graceMs = topic?.phase === "ACTIVE" ? limits.segmentDeleteGraceMs : limits.topicDeleteGraceMs;
      for (const entry of p.segments.values()) {
        if (entry.record.phase !== "DELETING") continue;
        const key = keys.segment(entry.partition, entry.record.base, entry.record.segment);
        alive.add(key);
        const sinceMs = this.#seenAtMs.get(key) ?? nowMs;
        this.#seenAtMs.set(key, sinceMs);
        if (nowMs - sinceMs >= graceMs) due.push(entry);
      }
    }
    for (const key of this.#seenAtMs.keys()) if (!alive.has(key)) this.#seenAtMs.delete(key);
    return due;
  }

  /** Copies on all live nodes; undefined when one of them does not answer: then nothing is known to be gone. */
  async #heldByNodes(): Promise<ReadonlySet<string> | undefined> {
    const { view, peers, logger, leadership } = this.#duty;
    const held = new Set<string>();
    for (const node of view.membersOf("segment-store")) {
      try {
        for (const key of await peers.segmentsOf(node, leadership.ended)) held.add(key);
      } catch (error) {
        leadership.ended.throwIfAborted();
        if (!this.#members.lives(node.instance)) continue;
        logger.debug("storage node does not tell its segments", { member: node.id, code: codeOf(error) });
        return undefined;
      }
    }
    return held;
  }

  /** A replica on a node that is away, but not for good: it may come back with its copy, so the key waits for it. */
  #absentReplica(entry: SegmentEntry): boolean {
    const { view, clock, limits, keys } = this.#duty;
    for (const replica of [...entry.record.replicas, ...(entry.record.missing ?? [])]) {
      const member: MemberRecord | undefined = view.member("segment-store", replica.node);
      const incarnation = member?.incarnation ?? view.nodes.get(replica.node)?.record.incarnation;
      if (member !== undefined && member.incarnation === replica.incarnation && this.#members.lives(member.instance)) continue;
      if (incarnation !== undefined && incarnation !== replica.incarnation) continue;
      if (view.nodes.get(replica.node)?.record.phase === "GONE") continue;
      const since = this.#seenAtMs.get(keys.segment(entry.partition, entry.record.base, entry.record.segment)) ?? clock.monotonicMs();
      if (clock.monotonicMs() - since < limits.nodeGoneAfterMs) return true;
    }
    return false;
  }

  #objectReferences(): Map<string, number> {
    const references = new Map<string, number>();
    for (const p of this.#duty.view.partitions.values()) {
      for (const { record } of p.segments.values()) {
        if (record.object !== undefined) references.set(record.object.key, (references.get(record.object.key) ?? 0) + 1);
      }
    }
    return references;
  }

  /** False when the object is still there. Segments share objects: the last key that names it takes it along. */
  async #dropObject(entry: SegmentEntry, references: Map<string, number>): Promise<boolean> {
    const { objects, logger } = this.#duty;
    const key = entry.record.object?.key;
    if (key === undefined) return true;
    const left = (references.get(key) ?? 1) - 1;
    references.set(key, left);
    if (left > 0) return true;
    if (objects === undefined) {
      logger.warn("object of a deleted segment stays: this controller has no object store", { object: key });
      return false;
    }
    try {
      await objects.delete(key);
      return true;
    } catch (error) {
      logger.warn("object of a deleted segment stays for now", { object: key, code: codeOf(error) });
      return false;
    }
  }

  async #dropKey(key: string, entry: SegmentEntry): Promise<boolean> {
    const { leadership, logger } = this.#duty;
    const done = await leadership.txn({ compare: [{ key, target: "mod", equals: entry.modRevision }], then: [{ kind: "delete", key }] });
    if (done.succeeded) {
      const { base, end } = entry.record;
      logger.info("segment removed", {
        ...entry.partition,
        segment: segmentKey(entry.record.segment),
        base,
        end,
        object: entry.record.object?.key,
      });
    }
    return done.succeeded;
  }
}
