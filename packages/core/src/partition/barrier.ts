import type { ErrorCode } from "../model/index.ts";
import type { Effect } from "./effect.ts";
import type { BarrierInput, MetaGotInput } from "./input.ts";
import { ensureTimer, epochOf, log, nextCall, reply, starvation, stepDown } from "./machine.ts";
import { QUORUM } from "./state.ts";
import type { BarrierWait, Partition, Serving } from "./state.ts";

/**
 * Latest offset: an empty append that QUORUM members accept after the question arrived proves that no newer owner has fenced this one, so
 * the
 * committed mark covers everything acknowledged before the question. One barrier answers all that wait; those that come while
 * it is under way wait for the next.
 *
 * A frozen segment takes no appends, and the next one may not come for as long as all disks are full. Then a linearizable read of the
 * register, sent after the question, proves the same: a newer owner writes its epoch there (A3) before it fences or stores anything, and
 * nothing but this owner's own appends moves the mark while the epoch is its own. A frozen segment acknowledges nothing (F1), so that all
 * that was acknowledged is below the mark.
 */
const BARRIERS_WAITING_MAX = 10_000;
const EMPTY = new Uint8Array(0);

/** Answers what waits for a barrier; `code` undefined = the barrier was accepted. */
export function answerWait(p: Partition, wait: BarrierWait, code: ErrorCode | undefined, out: Effect[]): void {
  if (wait.refusal !== undefined)
    reply(p, out, wait.requestId, code ?? wait.refusal.code, code === undefined ? { baseOffset: wait.refusal.baseOffset } : {});
  else {
    const committed = code === undefined ? p.committed : -1;
    out.push({ kind: "barrierReply", requestId: wait.requestId, code, committed, logStart: p.logStart });
  }
}

/**
 * Refuses an append for what this owner knows of its producer or its log, once a barrier has shown that it is still the owner: one that
 * was superseded
 * without knowing it would give a final error for a batch that its successor is waiting for.
 */
export function refuseByState(
  p: Partition,
  role: Serving,
  ask: { readonly requestId: number; readonly deadlineMs: number },
  refusal: NonNullable<BarrierWait["refusal"]>,
  now: number,
  out: Effect[],
): void {
  if (p.barriers.length >= BARRIERS_WAITING_MAX) return reply(p, out, ask.requestId, "OVERLOADED");
  p.barriers.push({ requestId: ask.requestId, deadlineMs: ask.deadlineMs, number: p.barrierNumber + 1, refusal });
  if (p.barrierSentMs === 0) sendBarrier(p, role, now, out);
  ensureTimer(p, now + p.options.timers.lacFlushMs, out);
}

export function onBarrier(p: Partition, input: BarrierInput, now: number, out: Effect[]): void {
  const refuse = (code: ErrorCode): void => {
    out.push({ kind: "barrierReply", requestId: input.requestId, code, committed: -1, logStart: p.logStart });
  };
  if (p.role.kind === "idle") return refuse("NOT_OWNER");
  if (p.role.kind !== "serving") return refuse(starvation(p) ?? "PARTITION_RECOVERING");
  if (p.barriers.length >= BARRIERS_WAITING_MAX) return refuse("OVERLOADED");
  p.barriers.push({ requestId: input.requestId, deadlineMs: input.deadlineMs, number: p.barrierNumber + 1, refusal: undefined });
  if (p.barrierSentMs === 0) sendBarrier(p, p.role, now, out);
  ensureTimer(p, now + p.options.timers.lacFlushMs, out);
}

/** Sends the next barrier. On a frozen segment it waits for the next segment, or asks the register when that does not come. */
export function sendBarrier(p: Partition, role: Serving, now: number, out: Effect[]): void {
  if (role.active.frozen) return askRegister(p, role, now, out);
  p.barrierRead = undefined;
  p.barrierNumber++;
  p.barrierSentMs = now;
  sendEmpty(p, role, p.barrierNumber, now, out);
}

/** An append without batches: a barrier, a probe, or the flush of the committed mark to the members. */
export function sendEmpty(p: Partition, role: Serving, barrier: number, now: number, out: Effect[]): void {
  const { active } = role;
  const firstUnsent = p.pipeline.items[p.pipeline.unsent - p.pipeline.from];
  const next = firstUnsent === undefined ? p.nextOffset : firstUnsent.first;
  out.push({
    kind: "sendAppend",
    trace: undefined,
    targets: active.targets,
    epoch: active.segment.epoch,
    base: active.base,
    firstOffset: next,
    lastOffset: next - 1,
    lac: p.committed,
    barrier,
    appendMs: 0,
    payload: EMPTY,
    handle: undefined,
  });
  active.lacSent = p.committed;
  p.lastProbeMs = now;
}

function askRegister(p: Partition, role: Serving, now: number, out: Effect[]): void {
  if (starvation(p) === undefined || p.barriers.length === 0) return;
  p.barrierNumber++;
  if (p.mutants.M31) return answerBarriers(p, role, now, out);
  p.barrierSentMs = now;
  p.barrierRead = { call: nextCall(p), deadlineMs: now + 2 * p.options.timers.metadataCallTimeoutMs, retryAtMs: 0 };
  out.push({ kind: "metaGet", call: p.barrierRead.call });
}
/** On a frozen segment: begins, or begins again. */
export function tickBarrierRead(p: Partition, role: Serving, now: number, out: Effect[]): void {
  const read = p.barrierRead;
  if (read === undefined || (read.retryAtMs !== 0 ? now >= read.retryAtMs : now >= read.deadlineMs)) askRegister(p, role, now, out);
}
/** True when the answer was for a barrier. */
export function onBarrierRead(p: Partition, role: Serving, input: MetaGotInput, now: number, out: Effect[]): boolean {
  const read = p.barrierRead;
  if (read === undefined || read.call !== input.call) return false;
  if (input.outcome === "failed" || input.register === undefined) {
    read.retryAtMs = now + p.options.timers.metadataRetryMs;
    return true;
  }
  const { state } = input.register;
  // Not the revision: a write of this owner may have been applied without its answer having come.
  if (state?.epoch !== epochOf(p) || state.ownerInstance !== p.options.instance) {
    log(p, out, "partition.superseded", { by: state?.epoch ?? -1, purpose: "latest" });
    stepDown(p, state === undefined ? "deleted" : "superseded", out);
    return true;
  }
  p.barrierRead = undefined;
  answerBarriers(p, role, now, out);
  return true;
}

export function settleBarriers(p: Partition, role: Serving, now: number, out: Effect[]): void {
  let accepted = 0;
  for (const slot of role.active.slots) if (slot.barrier >= p.barrierNumber) accepted++;
  if (accepted < QUORUM || p.barrierSentMs === 0) return;
  answerBarriers(p, role, now, out);
}
function answerBarriers(p: Partition, role: Serving, now: number, out: Effect[]): void {
  p.barrierSentMs = 0;
  const waiting = p.barriers;
  p.barriers = waiting.filter((b) => b.number > p.barrierNumber);
  for (const b of waiting) if (b.number <= p.barrierNumber) answerWait(p, b, undefined, out);
  if (p.barriers.length > 0) sendBarrier(p, role, now, out);
}
