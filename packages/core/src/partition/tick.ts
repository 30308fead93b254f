import { expireProducers } from "../producer/index.ts";
import { tickReading } from "./acquire.ts";
import { answerWait, sendBarrier, sendEmpty, tickBarrierRead } from "./barrier.ts";
import { tickCreation } from "./creation.ts";
import type { Effect } from "./effect.ts";
import { answering, isUnconfirmed, reply, serving, waitedFor, wallAt } from "./machine.ts";
import { failSlot } from "./pipeline.ts";
import { tickRecovery } from "./recovery.ts";
import { tickRelease } from "./release.ts";
import { tickRoll } from "./roll.ts";
import { tickSeals } from "./seals.ts";
import type { Partition, PendingBatch, Serving } from "./state.ts";
import { tickTxn } from "./transaction.ts";

/** Everything that time brings about, and when to wake next. */
const EXPIRY_INTERVAL_FACTOR = 10;

export function tick(p: Partition, now: number, out: Effect[]): void {
  tickSeals(p, now, out);
  tickTxn(p, now, out);
  tickCreation(p, now, out);
  switch (p.role.kind) {
    case "reading":
      tickReading(p, p.role, now, out);
      break;
    case "recovering":
      tickRecovery(p, p.role, now, out);
      break;
    case "serving":
      tickServing(p, p.role, now, out);
      break;
    default:
      break;
  }
  tickRelease(p, now, out);
}

/** The own timer fired late: the process was paused, which is no sign of death of anybody else. All waits start again. */
export function forgivePause(p: Partition, lateMs: number): void {
  const role = serving(p);
  if (role === undefined || lateMs <= p.options.timers.linkPingLateToleranceMs) return;
  for (const slot of role.active.slots) slot.progressMs += lateMs;
  for (const item of p.pipeline.items) if (item.sentMs >= 0) item.sentMs += lateMs;
}

function tickServing(p: Partition, role: Serving, now: number, out: Effect[]): void {
  const { timers } = p.options;
  const { active } = role;
  expireRequests(p, role, now, out);
  if (!active.frozen) {
    watchSlots(p, role, now, out);
    if (p.role !== role) return;
    const idle = now - active.lastSendMs >= timers.lacFlushMs;
    if (p.barrierSentMs !== 0 && now - p.barrierSentMs >= 2 * timers.lacFlushMs) {
      p.barrierNumber--;
      sendBarrier(p, role, now, out);
    } else if (isUnconfirmed(p, now) && now - p.lastProbeMs >= timers.unconfirmedProbeMs) sendEmpty(p, role, 0, now, out);
    else if (idle && active.lacSent < p.committed) sendEmpty(p, role, 0, now, out);
  } else tickBarrierRead(p, role, now, out);
  tickRoll(p, role, now, out);
  if (now - p.lastExpiryMs >= EXPIRY_INTERVAL_FACTOR * timers.replicaLagMs) {
    p.lastExpiryMs = now;
    expireProducers(p.producers, wallAt(p, now) - p.config.producerExpiryMs);
  }
}

/** A member that confirms nothing for the append time-out, or is a second behind what the others have. */
function watchSlots(p: Partition, role: Serving, now: number, out: Effect[]): void {
  const { timers } = p.options;
  const { pipeline } = p;
  // While the owner is unconfirmed and two members answer, nothing is frozen and so nobody is given up either (but for the memory he
  // holds).
  if (isUnconfirmed(p, now)) return;
  for (const slot of role.active.slots) {
    if (!answering(slot) || slot.next >= pipeline.unsent) continue;
    const oldest = pipeline.items[slot.next - pipeline.from];
    if (oldest === undefined) continue;
    if (now - slot.progressMs >= timers.appendTimeoutMs) failSlot(p, role, slot, "timeout", "timeout", now, out);
    else if (slot.next < pipeline.uncommitted && now - oldest.sentMs >= timers.replicaLagMs)
      failSlot(p, role, slot, "slow", "lag", now, out);
    if (p.role !== role || role.active.frozen) return;
  }
}

/** Requests whose deadline has passed are answered; their batches stay in flight, so the outcome is unknown to the client. */
function expireRequests(p: Partition, role: Serving, now: number, out: Effect[]): void {
  const { pipeline } = p;
  if (p.barriers.length === 0 && now < pipeline.nextDeadlineMs) return;
  const cause = waitedFor(p, role);
  if (p.barriers.length > 0) {
    const late = p.barriers.filter((b) => b.deadlineMs <= now);
    if (late.length > 0) p.barriers = p.barriers.filter((b) => b.deadlineMs > now);
    for (const b of late) answerWait(p, b, cause ?? "TIMED_OUT", out);
  }
  if (now < pipeline.nextDeadlineMs) return;
  let next = Infinity;
  for (let i = pipeline.uncommitted - pipeline.from; i < pipeline.items.length; i++) {
    const item = pipeline.items[i] as PendingBatch;
    if (!item.replied && item.deadlineMs <= now) {
      item.replied = true;
      reply(p, out, item.requestId, "TIMED_OUT", { cause });
    } else if (!item.replied) next = Math.min(next, item.deadlineMs);
    if (item.waiters === undefined) continue;
    for (const w of item.waiters) if (w.deadlineMs <= now) reply(p, out, w.requestId, "TIMED_OUT", { cause });
    item.waiters = item.waiters.filter((w) => w.deadlineMs > now);
    for (const w of item.waiters) next = Math.min(next, w.deadlineMs);
  }
  pipeline.nextDeadlineMs = next;
}

/** When the machine wants its next tick; Infinity = never. */
export function nextWake(p: Partition, now: number): number {
  let at = Infinity;
  const want = (ms: number): void => {
    if (ms < at) at = ms;
  };
  for (const s of p.seals) want(s.deadlineMs);
  if (p.txn !== undefined) want(p.txn.retryAtMs === 0 ? p.txn.deadlineMs : p.txn.retryAtMs);
  if (p.release !== undefined) want(Math.max(now + 1, p.release.deadlineMs));
  if (p.creation !== undefined && !p.creation.done) {
    for (const m of p.creation.members) if (m.status === "asked") want(m.deadlineMs);
    if (p.creation.starved) want(p.creation.retryAtMs);
  }
  if (p.role.kind === "reading") want(p.role.retryAtMs === 0 ? p.role.deadlineMs : p.role.retryAtMs);
  if (p.role.kind === "recovering") {
    const r = p.role.recovery;
    for (const m of r.members) if (m.verdict === "asked") want(m.deadlineMs);
    if (r.graceUntilMs !== 0 && r.step === "fence") want(Math.max(now + 1, r.graceUntilMs));
    if (r.retryAtMs !== 0) want(Math.max(now + 1, r.retryAtMs));
    want(r.task?.deadlineMs ?? Infinity);
    want(r.rebuild?.deadlineMs ?? Infinity);
  }
  if (p.role.kind === "serving") want(wakeServing(p, p.role, now));
  return at === Infinity ? at : Math.max(now + 1, at);
}
function wakeServing(p: Partition, role: Serving, now: number): number {
  const { timers } = p.options;
  const { active, roll } = role;
  const busy = p.pipeline.items.length > 0 || active.lacSent < p.committed || p.barriers.length > 0 || p.barrierSentMs !== 0;
  if (busy || roll !== undefined) return now + timers.lacFlushMs;
  if (active.slots.some((s) => !answering(s))) return Math.max(now + timers.lacFlushMs, p.nextRollMs);
  if (isUnconfirmed(p, now)) return now + timers.unconfirmedProbeMs;
  const age = p.nextOffset > active.base ? active.openedMs + p.config.segmentMs : Infinity;
  const third = active.slots.length < 3 ? now + timers.replicaLagMs : Infinity;
  return Math.min(age, third, p.leaseUntilMs + 1);
}
