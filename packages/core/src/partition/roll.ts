import type { PartitionState as RegisterState, SegmentRecord } from "../model/index.ts";
import { encodeProducers } from "../producer/index.ts";
import { sendBarrier } from "./barrier.ts";
import { goodNodes, nodesWanted, startCreation } from "./creation.ts";
import type { Effect } from "./effect.ts";
import type { MetaGotInput } from "./input.ts";
import { answering, answeringCount, isUnconfirmed, log, nextCall, nextNonce, sealAll, stepDown, tailMark } from "./machine.ts";
import { newActive, sealedRecord } from "./active.ts";
import { dropItems, sendUnsent } from "./pipeline.ts";
import { QUORUM } from "./state.ts";
import type { Partition, Roll, RollReason, Serving } from "./state.ts";
import { submit } from "./transaction.ts";

/**
 * Seal and roll: the open segment ends at what two members hold, and the next one begins on nodes chosen anew, in one transaction.
 *
 *   prepare   the metadata answers and the register is ours; appends go on
 *   quiesce   new appends wait, the members catch up, the next segment is created; answers still count, the roll can still be called off
 *   frozen    F1: irrevocable. F2 the end, F3 the segment (made already, or made now), F4 the transaction, F5 the rest is sent again
 *
 * While two members answer, the roll takes all three steps, so that a metadata store that has just died costs no produce request. With
 * fewer
 * than two nothing can be acknowledged anyway and the segment is frozen at once.
 */
const ROLLS_IN_ROW_MAX = 7;
const FORCED_ROLL_RETRIES = 2;
const CALM_MS_FACTOR = 10;

export function startRoll(p: Partition, role: Serving, reason: RollReason, now: number, out: Effect[]): void {
  if (p.release !== undefined || role.active.frozen) return;
  const answer = answeringCount(role);
  const unconfirmed = isUnconfirmed(p, now);
  if (role.roll !== undefined) {
    if (answer < QUORUM && !unconfirmed) freeze(p, role, role.roll, now, out);
    return;
  }
  if (unconfirmed && answer >= QUORUM) return;
  // A forced roll waits less, but it waits: without a bound a set of bad nodes costs a transaction every few milliseconds.
  const forcedMs = p.lastRollMs + FORCED_ROLL_RETRIES * p.options.timers.metadataRetryMs;
  if (now < (answer >= QUORUM ? p.nextRollMs : Math.min(p.nextRollMs, forcedMs))) return;
  const roll: Roll = { reason, step: "prepare", call: 0, deadlineMs: 0, end: -1, holders: [], lacking: [] };
  role.roll = roll;
  log(p, out, "segment.rolling", { reason, committed: p.committed, answering: answer });
  if (answer < QUORUM && !unconfirmed) return freeze(p, role, roll, now, out);
  roll.call = nextCall(p);
  roll.deadlineMs = now + p.options.timers.metadataCallTimeoutMs;
  out.push({ kind: "metaGet", call: roll.call });
}

/** The metadata answered in the prepare step. */
export function onPrepared(p: Partition, role: Serving, input: MetaGotInput, now: number, out: Effect[]): void {
  const { roll } = role;
  if (roll === undefined || roll.step !== "prepare" || roll.call !== input.call) return;
  if (input.outcome === "failed" || input.register === undefined) return callOff(p, role, "metadata", now, out);
  if (input.register.modRevision !== p.register?.modRevision) return stepDown(p, "superseded", out);
  if (answeringCount(role) < QUORUM) return freeze(p, role, roll, now, out);
  const { slots } = role.active;
  if (goodNodes(p, now) < Math.max(nodesWanted(p), roll.reason === "third" ? slots.length + 1 : 0))
    return callOff(p, role, "nodes", now, out);
  roll.step = "quiesce";
  roll.deadlineMs = now + p.options.timers.lacFlushMs;
  startCreation(p, p.nextOffset, encodeProducers(p.producers, { inFlight: true }), now, out);
}

/** Back to the segment as it was: nothing was frozen. */
function callOff(p: Partition, role: Serving, why: string, now: number, out: Effect[]): void {
  role.roll = undefined;
  p.creation = undefined;
  backOff(p, now);
  log(p, out, "segment.roll-called-off", { why });
  sendUnsent(p, role, now, out);
}
function backOff(p: Partition, now: number): void {
  const { metadataRetryMs, replicaLagMs } = p.options.timers;
  if (now - p.lastRollMs > CALM_MS_FACTOR * replicaLagMs) p.rollsInRow = 0;
  p.nextRollMs = now + metadataRetryMs * 2 ** Math.min(p.rollsInRow, ROLLS_IN_ROW_MAX);
  p.rollsInRow++;
  p.lastRollMs = now;
}

/** In the quiesce step: freezes once the next segment is made and every member that answers has everything (or was waited for). */
export function tryFreeze(p: Partition, role: Serving, now: number, out: Effect[]): void {
  const { roll, active } = role;
  const { creation } = p;
  if (roll?.step !== "quiesce" || creation === undefined || p.txn !== undefined) return;
  if (creation.starved) return callOff(p, role, "nodes", now, out);
  if (!creation.done) return;
  const goal = creation.base - 1;
  if (p.committed < goal) return;
  const all = active.slots.every((s) => !answering(s) || s.durable >= goal);
  if (all || now >= roll.deadlineMs) freeze(p, role, roll, now, out);
}

/** F1 and F2. */
function freeze(p: Partition, role: Serving, roll: Roll, now: number, out: Effect[]): void {
  const { active } = role;
  active.frozen = true;
  roll.step = "frozen";
  roll.end = p.committed;
  for (const slot of active.slots) (slot.durable >= roll.end ? roll.holders : roll.lacking).push(slot.replica);
  p.pipeline.unsent = p.pipeline.uncommitted;
  log(p, out, "segment.frozen", { end: roll.end, reason: roll.reason });
  if (p.creation?.base !== roll.end + 1) startCreation(p, roll.end + 1, encodeProducers(p.producers), now, out);
}

/** F4. */
export function submitRoll(p: Partition, role: Serving, now: number, out: Effect[]): void {
  const { creation, register } = p;
  const { roll } = role;
  if (roll?.step !== "frozen" || creation === undefined || !creation.done || register === undefined || p.txn !== undefined) return;
  const sealed = sealedRecord(p, role.active, roll, now);
  const opened: SegmentRecord = {
    segment: creation.segment,
    base: creation.base,
    phase: "OPEN",
    replicas: creation.members.filter((m) => m.status === "made").map((m) => m.replica),
  };
  const tail = { segment: creation.segment, base: creation.base };
  const state: RegisterState = { ...register.state, nonce: nextNonce(p), phase: "OPEN", tail };
  if (p.mutants.M29) sealAll(p, sealed, [...roll.holders, ...roll.lacking], now);
  submit(p, "roll", { expectedRevision: register.modRevision, state, segments: [sealed, opened], readSegment: undefined }, now, out);
}

/** F5: the old segment is sealed, the new one is the tail. */
export function rolled(p: Partition, segments: readonly SegmentRecord[], now: number, out: Effect[]): void {
  if (p.role.kind !== "serving" || p.role.roll === undefined || p.creation === undefined) return;
  const role = p.role;
  const roll = p.role.roll;
  const [sealed] = segments;
  if (sealed !== undefined && !p.mutants.M29) sealAll(p, sealed, [...roll.holders, ...roll.lacking], now);
  role.active = newActive(p.creation, now);
  role.roll = undefined;
  p.creation = undefined;
  const { pipeline } = p;
  if (pipeline.uncommitted > pipeline.from) dropItems(p, pipeline.uncommitted - pipeline.from, out);
  for (const slot of role.active.slots) slot.next = pipeline.from;
  if (roll.reason !== "size" && roll.reason !== "age") backOff(p, now);
  log(p, out, "segment.rolled", { end: roll.end, reason: roll.reason, replicas: role.active.slots.map((s) => s.replica.node).join(" ") });
  out.push({ kind: "markTail", mark: tailMark(p, role) });
  sendUnsent(p, role, now, out);
  if (p.barriers.length > 0 || p.barrierSentMs !== 0) sendBarrier(p, role, now, out);
}

/** Mutants M28 alone: takes the freeze back. */
export function resumeSegment(p: Partition, now: number, out: Effect[]): void {
  if (p.role.kind !== "serving") return;
  p.role.active.frozen = false;
  callOff(p, p.role, "mutant", now, out);
}

/** Conditions that time brings about. */
export function tickRoll(p: Partition, role: Serving, now: number, out: Effect[]): void {
  const { roll, active } = role;
  if (roll?.step === "prepare" && now >= roll.deadlineMs) return callOff(p, role, "metadata", now, out);
  if (roll?.step === "quiesce") {
    if (now >= roll.deadlineMs + p.options.timers.appendTimeoutMs && !active.frozen) {
      if (p.committed < (p.creation?.base ?? 0) - 1 && !isUnconfirmed(p, now)) freeze(p, role, roll, now, out);
      else callOff(p, role, "slow", now, out);
    }
    return;
  }
  if (roll !== undefined || p.release !== undefined) return;
  const lost = active.slots.some((s) => !answering(s));
  if (lost) return startRoll(p, role, p.rollWanted ?? "link", now, out);
  if (active.bytes >= p.config.segmentBytes) return startRoll(p, role, "size", now, out);
  if (p.nextOffset > active.base && now - active.openedMs >= p.config.segmentMs) return startRoll(p, role, "age", now, out);
  if (active.slots.length < 3 && goodNodes(p, now) >= 3) startRoll(p, role, "third", now, out);
}
