import { startCodec } from "@sluice/catalog";
import { topicSettings, type PartitionId, type SegmentEntry, type TopicRecord, type TopicSettings } from "@sluice/core/model";
import { ClockGuard } from "./clock-guard.ts";
import type { Duty } from "./duty.ts";
import { SEGMENTS_PER_TXN_MAX } from "./limits.ts";
import { markedDeleting, readPartitions } from "./listing.ts";
import { retentionCut } from "./retention.ts";

/**
 * Retention (protocol G1). The view tells which partitions may have something to give; each is then listed linearizably, and the start
 * and the marks are written in one transaction that compares the start and every marked key. Never an OPEN key, never `state`.
 */
export class RetentionRun {
  readonly #duty: Duty;
  readonly #guard: ClockGuard;

  constructor(duty: Duty) {
    this.#duty = duty;
    this.#guard = new ClockGuard(duty.limits.clockStepMsMax, duty.clock.wallMs(), duty.clock.monotonicMs());
  }

  /** Returns the number of segments marked. */
  async run(): Promise<number> {
    const { view, clock, metrics, logger } = this.#duty;
    const refusedBefore = this.#guard.refused;
    const nowMs = this.#guard.now(clock.wallMs(), clock.monotonicMs(), this.#largestPersistedMs());
    if (nowMs === undefined) {
      metrics.retentionRefused.inc();
      if (!refusedBefore) logger.error("retention by age stopped: the wall clock stepped", { wallMs: clock.wallMs() });
    } else if (refusedBefore) logger.info("retention by age goes on", { nowMs });
    let marked = 0;
    for (const { record: topic } of view.topics.values()) {
      if (topic.phase !== "ACTIVE") continue;
      const settings = topicSettings(topic.config);
      for (let n = 0; n < topic.partitions; n += 1) {
        const id: PartitionId = { topicId: topic.topicId, partition: n };
        const p = view.partition(id);
        if (p === undefined || p.segments.size < 2) continue;
        const cut = retentionCut(view.segmentsOf(id), p.state?.record.tail?.segment, p.startOffset, settings, nowMs);
        if (cut.drop.length > 0) marked += await this.#apply(topic, id, settings, nowMs);
      }
    }
    metrics.retentionSegments.inc(marked);
    return marked;
  }

  /** Times that brokers and storage nodes wrote down. None of this controller's own: its clock is what they are compared with. */
  #largestPersistedMs(): number {
    let largest = 0;
    for (const p of this.#duty.view.partitions.values()) {
      for (const { record: s } of p.segments.values())
        largest = Math.max(largest, s.lastAppendMs ?? 0, s.sealedAtMs ?? 0, s.offloadedAtMs ?? 0);
    }
    return largest;
  }

  async #apply(topic: TopicRecord, id: PartitionId, settings: TopicSettings, nowMs: number | undefined): Promise<number> {
    const { store, keys, leadership, logger } = this.#duty;
    const p = readPartitions(keys, (await store.list(keys.partition(id))).entries).get(id.partition);
    if (p === undefined) return 0;
    const cut = retentionCut(p.segments, p.state?.record.tail?.segment, p.start.offset, settings, nowMs);
    const drop = cut.drop.slice(0, SEGMENTS_PER_TXN_MAX);
    if (drop.length === 0) return 0;
    const startKey = keys.start(id);
    const start = Math.max(p.start.offset, ...drop.map((s) => (s.record.end as number) + 1));
    const keyOf = (s: SegmentEntry): string => keys.segment(id, s.record.base, s.record.segment);
    const done = await leadership.txn({
      compare: [
        { key: startKey, target: "mod", equals: p.start.modRevision },
        ...drop.map((s) => ({ key: keyOf(s), target: "mod" as const, equals: s.modRevision })),
      ],
      then: [
        ...(start > p.start.offset ? [{ kind: "put" as const, key: startKey, value: startCodec.encode({ offset: start }) }] : []),
        ...drop.map((s) => ({ kind: "put" as const, key: keyOf(s), value: markedDeleting(s.record) })),
      ],
    });
    if (!done.succeeded) return 0;
    const range = { first: drop[0]?.record.base, segments: drop.length, logStart: start };
    logger.info("segments expired", { topic: topic.name, ...id, ...range, cause: cut.cause });
    return drop.length;
  }
}
