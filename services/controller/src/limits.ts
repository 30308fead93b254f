import { HEARTBEATS_MISSED_SUSPECT, type Timers } from "@sluice/core/model";
import type { LivenessLimits } from "@sluice/core/placement";

/** Bounds and times of the controller, each with its unit. Those a user may change are defaults of configuration keys (config.ts). */
export interface ControllerLimits {
  /** Planned moves under way at a time, at most: fewer while they are in each other's way. */
  readonly plannedMovesMax: number;
  /** Partitions of all topics together. */
  readonly clusterPartitionsMax: number;
  /** Membership of brokers must be quiet this long before load is levelled. */
  readonly balanceQuietMs: number;
  /** A segment marked DELETING keeps its copies and object this long: longer than any metadata cache and read. */
  readonly segmentDeleteGraceMs: number;
  /** The same for segments of a deleted topic, which nobody may read any more. */
  readonly topicDeleteGraceMs: number;
  /** A storage node without a member key for this long is GONE. */
  readonly nodeGoneAfterMs: number;
  readonly reconcileMs: number;
  readonly retentionMs: number;
  readonly garbageMs: number;
  readonly compactMs: number;
  readonly orphanSweepMs: number;
  /** An object that no key names is deleted at this age only. */
  readonly orphanAgeMs: number;
  readonly orphanDeletesPerRunMax: number;
  /** A sweep that wants to delete a larger share of what exists deletes nothing. */
  readonly orphanShareMax: number;
  /** Retention stops when the wall clock has stepped further than this against the monotonic clock. */
  readonly clockStepMsMax: number;
}

export const defaultControllerLimits: ControllerLimits = {
  plannedMovesMax: 16,
  clusterPartitionsMax: 100_000,
  balanceQuietMs: 1_000,
  segmentDeleteGraceMs: 60_000,
  topicDeleteGraceMs: 5_000,
  nodeGoneAfterMs: 600_000,
  reconcileMs: 1_000,
  retentionMs: 10_000,
  garbageMs: 1_000,
  compactMs: 300_000,
  orphanSweepMs: 3_600_000,
  orphanAgeMs: 24 * 3_600_000,
  orphanDeletesPerRunMax: 1_000,
  orphanShareMax: 0.1,
  clockStepMsMax: 3_600_000,
};

/** Partitions whose assignment is written in one transaction. */
export const ASSIGNMENTS_PER_TXN_MAX = 40;
/** A topic that is made waits this long, in ms, for the end of a deleted one of its name. */
export const PREDECESSOR_ENDS_MS = 2_000;
/** Segment keys in one transaction of retention or deletion: beside the leader's compare and the start key. */
export const SEGMENTS_PER_TXN_MAX = 100;
/** Segments whose copies and objects are looked at in one garbage run. */
export const GARBAGE_SEGMENTS_PER_RUN_MAX = 1_000;
/** A planned move whose old owner has not let go within this many `handOverMs` is forced. */
export const HAND_OVERS_UNTIL_STUCK = 3;
/** Segments whose object and key are removed at the same time. */
export const GARBAGE_CONCURRENT_MAX = 8;
/** Times that one transaction of unknown outcome is sent again before the leader steps down. */
export const SETTLE_ATTEMPTS_MAX = 20;
/** A planned silence of ten heartbeats: a member whose host does not answer at all. */
const HEARTBEATS_MISSED_DEAD = 10;

export const livenessLimits = (timers: Timers): LivenessLimits => ({
  suspectAfterMs: timers.heartbeatIntervalMs * HEARTBEATS_MISSED_SUSPECT,
  deadAfterMs: timers.heartbeatIntervalMs * HEARTBEATS_MISSED_DEAD,
  tickMs: timers.heartbeatIntervalMs,
  tickLateToleranceMs: timers.linkPingLateToleranceMs,
  probeAgainMs: timers.linkConnectTimeoutMs,
});
