import type { Effect } from "./effect.ts";
import { alarm, control, epochOf, memberKeys } from "./machine.ts";
import type { Partition, Recovery, RecoveryMember } from "./state.ts";

/** The members of a tail under recovery: asking them, and who stops being a vote. */
const ALARM_AFTER_FACTOR = 3;

/** R1: every member without a trusted answer is asked (again). */
export function fenceAll(p: Partition, r: Recovery, now: number, out: Effect[]): void {
  r.round++;
  r.retryAtMs = 0;
  for (const m of r.members) {
    if (m.verdict === "trusted") continue;
    m.verdict = "asked";
    m.deadlineMs = now + p.options.timers.appendTimeoutMs;
    const request = {
      partition: p.options.partition,
      segment: r.tail.segment,
      epoch: epochOf(p),
      incarnation: m.replica.incarnation,
    };
    m.call = control(p, m.replica, { kind: "fence", request }, p.options.timers.appendTimeoutMs, out);
  }
}

/** Not enough to decide: stay RECOVERING, ask again. The sealed history stays readable meanwhile. */
export function blocked(p: Partition, r: Recovery, why: string, now: number, out: Effect[]): void {
  const { timers } = p.options;
  r.step = r.step === "sealedTail" ? "sealedTail" : "fence";
  r.graceUntilMs = 0;
  r.retryAtMs = now + timers.metadataRetryMs * Math.min(r.round, 10);
  if (r.alarmed || now - r.startedMs < ALARM_AFTER_FACTOR * timers.appendTimeoutMs) return;
  r.alarmed = true;
  alarm(out, "recoveryBlocked", `${why} (${memberKeys(r.members)})`);
}

/** Copies that differ on what both hold: the answer is no vote any more, and nobody guesses which of two is right. */
export function distrust(r: Recovery, m: RecoveryMember, out: Effect[]): void {
  const reference = r.members[r.reference];
  alarm(out, "copiesDiffer", `${m.replica.node} and ${reference?.replica.node ?? "?"} differ within ${r.tail.base}..${m.last}`);
  lost(r, m);
}
/** A member that cannot be read or written any more is unknown: back to R2 with the rest. */
export function lost(r: Recovery, m: RecoveryMember): void {
  m.verdict = "unknown";
  m.call = 0;
  m.agrees = false;
  r.step = "decide";
  r.task = undefined;
  r.rebuild = undefined;
  // What was appended to since its answer has to answer anew: hash and producers have moved.
  for (const x of r.members) {
    if (x.copied) x.verdict = "unknown";
    x.copied = false;
  }
}

/** Members that hold [base..end], durable and compared. */
export const holdersOf = (r: Recovery): RecoveryMember[] =>
  r.members.filter((m) => m.verdict === "trusted" && m.agrees && m.last === r.end);
