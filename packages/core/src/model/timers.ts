/**
 * Every timer of the system, in milliseconds, in one table. Tests scale all of them by one factor.
 */
const base = {
  /** The longest silence that etcd alone can notice, half a second less than it takes: a machine that dies with the leading controller on it. */
  memberLeaseTtlMs: 4_000,
  heartbeatIntervalMs: 300,
  /** Missed heartbeats that make a member suspect. */
  linkPingIntervalMs: 500,
  /** A ping miss does not count when the own timer fired this late: a pause here is not a death there. */
  linkPingLateToleranceMs: 250,
  linkConnectTimeoutMs: 1_000,
  linkHelloTimeoutMs: 10_000,
  appendTimeoutMs: 700,
  replicaLagMs: 1_000,
  segmentAgeMs: 600_000,
  handOverMs: 1_000,
  /** The owner sends `lac` to idle replicas this long after the last append, so that tails do not hang. */
  lacFlushMs: 100,
  /** An owner that cannot confirm its lease probes its replicas this often. */
  unconfirmedProbeMs: 500,
  releasingWaitMs: 1_000,
  controlCallTimeoutMs: 2_000,
  metadataCallTimeoutMs: 3_000,
  metadataRetryMs: 100,
  /** A segment open here whose owner was not heard of for this long is looked up. */
  reconcileAfterMs: 30_000,
  journalMarkMs: 100,
  /** A mostly dead journal file is copied away after this long, earlier when space is short. */
  journalCompactAfterMs: 60_000,
  offloadGraceMs: 300_000,
  /** A storage node looks this often for segments to upload, to release and to drop, when nothing told it to. */
  offloadScanMs: 2_000,
  /** The next replica of a segment uploads it when those before it have not for this long. */
  offloadTakeOverMs: 10_000,
  /** Disk space is looked at this often. */
  diskCheckMs: 1_000,
  produceHoldMs: 30_000,
  fetchWaitMsMax: 30_000,
  /** From the first byte of a client's message to its last. */
  unfinishedMessageMs: 30_000,
  shutdownMs: 10_000,
} as const;

export type Timers = { readonly [K in keyof typeof base]: number };
export const timers: Timers = base;
export const HEARTBEATS_MISSED_SUSPECT = 3;
export const LINK_PINGS_MISSED_DEAD = 2;

/** All timers multiplied by `factor`, at least 1 ms each. */
export function scaleTimers(factor: number): Timers {
  const out: Record<string, number> = {};
  for (const [name, ms] of Object.entries(base)) out[name] = Math.max(1, Math.round(ms * factor));
  return out as Timers;
}
