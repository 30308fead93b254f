import { BatchCursor, stampBatch, stampRun } from "../log/index.ts";
import { errorCodeOf, limits } from "../model/index.ts";
import type { ErrorCode } from "../model/index.ts";
import { advanceProducers, checkSequence, lastSequenceOf, noteInFlight } from "../producer/index.ts";
import type { Effect, SuspectReason } from "./effect.ts";
import type { AppendInput, AppendedInput, LinkInput } from "./input.ts";
import { alarm, answeringCount, avoid, ensureTimer, epochOf, log, noteWall, reply, starvation, stepDown, tailMark } from "./machine.ts";
import { refuseByState, settleBarriers } from "./barrier.ts";
import { quorumDurable, retarget } from "./active.ts";
import { QUORUM } from "./state.ts";
import type { ActiveSegment, Partition, PendingBatch, RollReason, Serving, Slot } from "./state.ts";

/**
 * Admission, the three appends, and the committed mark.
 *
 *   items   | 40..44 | 45..49 | 50..54 | 55..59 |
 *             ^ from            ^ uncommitted      ^ unsent (= end: all are sent)
 *
 * An item leaves when it is committed and every member that still answers has it; a member that lags holds memory, which is why its lag
 * is bounded.
 */
const OVERLOADED_THROTTLE_MS = 100;
const GAPS_MAX = 3;

/** Answer when the machine cannot take an append in its role; undefined = it can. */
function refusal(p: Partition, input: AppendInput): ErrorCode | undefined {
  if (p.role.kind === "idle") return "NOT_OWNER";
  if (p.role.kind !== "serving") return p.release === undefined ? (starvation(p) ?? "PARTITION_RECOVERING") : "NOT_OWNER";
  if (p.release !== undefined && p.release.step !== "announce") return "NOT_OWNER";
  // Before what is full because of it.
  const starving = starvation(p);
  if (starving !== undefined) return starving;
  const bytes = input.batch.length;
  const { pipeline } = p;
  if (pipeline.bytes > 0 && pipeline.bytes + bytes > limits.partitionPendingBytesMax) return "OVERLOADED";
  return p.role.active.bytes + bytes > limits.segmentBytesCap ? "OVERLOADED" : undefined;
}

export function onAppend(p: Partition, input: AppendInput, now: number, out: Effect[]): void {
  const next = p.nextOffset;
  judge(p, input, now, out);
  // Only what was admitted took offsets. The memory of anything else is free at once.
  if (p.nextOffset === next && input.handle !== undefined) out.push({ kind: "released", handles: [input.handle] });
}

function judge(p: Partition, input: AppendInput, now: number, out: Effect[]): void {
  const code = refusal(p, input);
  if (code !== undefined || p.role.kind !== "serving") {
    const throttleMs = code === "OVERLOADED" ? OVERLOADED_THROTTLE_MS : 0;
    reply(p, out, input.requestId, code ?? "NOT_OWNER", { throttleMs, target: p.release?.target });
    return;
  }
  noteWall(p, input.wallMs, now);
  const role = p.role;
  const refuse = (why: ErrorCode, baseOffset = -1): void => refuseByState(p, role, input, { code: why, baseOffset }, now, out);
  if (input.fenceToken >= 0 && input.fenceToken < p.producers.fenceToken) return refuse("FENCED_TOKEN");
  const { header } = input;
  const records = input.run?.records ?? header.lastOffsetDelta + 1;
  if (header.producerId >= 0 && header.baseSequence >= 0) {
    const { producerId, producerEpoch, baseSequence } = header;
    const verdict = checkSequence(p.producers, producerId, producerEpoch, baseSequence, records, input.anySequence);
    if (verdict.kind === "refused") return refuse(verdict.code);
    if (verdict.kind === "duplicate") return reply(p, out, input.requestId, undefined, { baseOffset: verdict.offset, duplicate: true });
    if (verdict.kind === "inFlight" && p.mutants.M11)
      return reply(p, out, input.requestId, undefined, { baseOffset: verdict.offset, duplicate: true });
    if (verdict.kind === "inFlight") return waitFor(p, input, verdict.offset, out);
  }
  if (input.expectedBaseOffset >= 0 && input.expectedBaseOffset !== p.nextOffset) return refuse("UNEXPECTED_OFFSET", p.nextOffset);
  admit(p, role, input, records, now, out);
}

/** A retry of a batch that is in flight is answered when that batch is. */
function waitFor(p: Partition, input: AppendInput, offset: number, out: Effect[]): void {
  const item = p.pipeline.items.find((i) => i.first === offset);
  if (item === undefined) return reply(p, out, input.requestId, "OUTCOME_UNKNOWN");
  (item.waiters ??= []).push({ requestId: input.requestId, deadlineMs: input.deadlineMs });
  p.pipeline.nextDeadlineMs = Math.min(p.pipeline.nextDeadlineMs, input.deadlineMs);
}

function admit(p: Partition, role: Serving, input: AppendInput, records: number, now: number, out: Effect[]): void {
  const { header, batch } = input;
  const { pipeline } = p;
  if (input.fenceToken > p.producers.fenceToken) p.producers.fenceToken = input.fenceToken;
  if (input.run === undefined) stampBatch(batch, 0, p.nextOffset, epochOf(p));
  else stampRun(batch, p.nextOffset, epochOf(p));
  pipeline.position += batch.length;
  pipeline.bytes += batch.length;
  const item: PendingBatch = {
    requestId: input.requestId,
    first: p.nextOffset,
    last: p.nextOffset + records - 1,
    payload: batch,
    handle: input.handle,
    trace: input.trace,
    batches: input.run?.batches ?? 1,
    crc: header.crc,
    producerId: header.producerId,
    producerEpoch: header.producerEpoch,
    firstSequence: header.baseSequence,
    lastSequence: header.baseSequence < 0 ? -1 : lastSequenceOf(header.baseSequence, records),
    maxTimestampMs: input.run?.maxTimestamp ?? header.maxTimestamp,
    wallMs: input.wallMs,
    deadlineMs: input.deadlineMs,
    sentMs: -1,
    position: pipeline.position,
    replied: false,
    waiters: undefined,
  };
  pipeline.items.push(item);
  if (item.deadlineMs < pipeline.nextDeadlineMs) pipeline.nextDeadlineMs = item.deadlineMs;
  if (header.producerId >= 0 && header.baseSequence >= 0)
    noteInFlight(p.producers, header.producerId, header.producerEpoch, header.baseSequence, records, item.first);
  p.nextOffset = item.last + 1;
  if (maySend(role)) {
    sendUnsent(p, role, now, out);
    if (role.active.bytes >= p.config.segmentBytes) p.rollWanted = "size";
    if (pipeline.bytes > limits.replicaLagBytesMax) checkLagBytes(p, role, now, out);
  }
  ensureTimer(p, now + p.options.timers.lacFlushMs, out);
}

const maySend = (role: Serving): boolean => !role.active.frozen && (role.roll === undefined || role.roll.step === "prepare");

/** Sends every admitted batch that the open segment has not been sent, in order. */
export function sendUnsent(p: Partition, role: Serving, now: number, out: Effect[]): void {
  const { pipeline } = p;
  const { active } = role;
  for (let i = pipeline.unsent - pipeline.from; i < pipeline.items.length; i++) {
    const item = pipeline.items[i] as PendingBatch;
    for (const slot of active.slots) if (slot.next === pipeline.from + i) slot.progressMs = now;
    item.sentMs = now;
    active.bytes += item.payload.length;
    sendItem(p, active, item, active.targets, out);
  }
  pipeline.unsent = pipeline.from + pipeline.items.length;
  active.lastSendMs = now;
  active.lacSent = p.committed;
}

function sendItem(p: Partition, active: ActiveSegment, item: PendingBatch, targets: ActiveSegment["targets"], out: Effect[]): void {
  out.push({
    kind: "sendAppend",
    targets,
    epoch: active.segment.epoch,
    base: active.base,
    firstOffset: item.first,
    lastOffset: item.last,
    lac: p.committed,
    barrier: 0,
    appendMs: item.wallMs,
    payload: item.payload,
    handle: item.handle,
    trace: item.trace,
  });
}

/** Sends what a member lacks again: after a gap, or when its link came back. Nodes take a repeated append as the retry it is. */
function resend(p: Partition, active: ActiveSegment, slot: Slot, now: number, out: Effect[]): void {
  const { pipeline } = p;
  const targets = [{ replica: slot.replica, segmentNumber: slot.segmentNumber }];
  for (let n = Math.max(slot.next, pipeline.from); n < pipeline.unsent; n++)
    sendItem(p, active, pipeline.items[n - pipeline.from] as PendingBatch, targets, out);
  slot.resentMs = now;
}

export function onAppended(p: Partition, input: AppendedInput, now: number, out: Effect[]): void {
  if (p.role.kind !== "serving") return;
  const role = p.role;
  const { active } = role;
  if (active.frozen && !p.mutants.M10) return; // F1: later answers of a frozen segment do not count
  const slot = slotOf(active, input);
  if (slot === undefined || !slot.live) return;
  if (input.code !== 0) return onSlotError(p, role, slot, errorCodeOf(input.code), now, out);
  if (input.durable > slot.durable) {
    const sent = lastSentOffset(p, active);
    if (input.durable > sent) {
      alarm(out, "corrupt", `${slot.replica.node} confirms offset ${input.durable}, sent were ${sent}`);
      return failSlot(p, role, slot, "io", "io", now, out);
    }
    slot.durable = input.durable;
    slot.progressMs = now;
    slot.gaps = 0;
    const { pipeline } = p;
    const end = pipeline.from + pipeline.items.length;
    while (slot.next < end && (pipeline.items[slot.next - pipeline.from] as PendingBatch).last <= slot.durable) slot.next++;
    commit(p, role, now, out);
  }
  if (input.barrier > slot.barrier) {
    slot.barrier = input.barrier;
    slot.progressMs = now;
    settleBarriers(p, role, now, out);
  }
}

function slotOf(active: ActiveSegment, input: AppendedInput): Slot | undefined {
  for (const slot of active.slots) if (slot.segmentNumber === input.segmentNumber && slot.replica.node === input.node) return slot;
  return undefined;
}
/** Offset up to which this ownership has sent to the open segment. */
export function lastSentOffset(p: Partition, active: ActiveSegment): number {
  const { pipeline } = p;
  const firstUnsent = pipeline.items[pipeline.unsent - pipeline.from];
  return Math.max(active.base - 1, (firstUnsent === undefined ? p.nextOffset : firstUnsent.first) - 1);
}

/** Moves the committed mark to what two members hold, tells the tail and the producers, and lets go of what nobody needs. */
export function commit(p: Partition, role: Serving, now: number, out: Effect[]): void {
  const { active } = role;
  const { pipeline } = p;
  const mark = quorumDurable(active);
  if (mark > p.committed) {
    const from = pipeline.uncommitted - pipeline.from;
    const runs: Uint8Array[] = [];
    const lasts: number[] = [];
    const handles: (object | undefined)[] = [];
    let trace: Uint8Array | undefined;
    let tracedAt = -1;
    let i = from;
    for (; i < pipeline.items.length; i++) {
      const item = pipeline.items[i] as PendingBatch;
      if (item.last > mark) break;
      runs.push(item.payload);
      lasts.push(item.last);
      handles.push(item.handle);
      if (item.trace !== undefined && tracedAt < 0) {
        trace = item.trace;
        tracedAt = i - from;
      }
      addToChain(active, item);
      active.committedBytes += item.payload.length;
      if (active.firstAppendMs === 0) active.firstAppendMs = item.wallMs;
      if (item.wallMs > active.lastAppendMs) active.lastAppendMs = item.wallMs;
      if (item.maxTimestampMs > active.maxTimestampMs) active.maxTimestampMs = item.maxTimestampMs;
      p.committed = item.last;
      if (item.producerId >= 0) persist(p, item);
    }
    pipeline.uncommitted = pipeline.from + i;
    if (i === from) return; // a member confirmed half a batch: nothing whole is new
    const first = (pipeline.items[from] as PendingBatch).first;
    out.push({ kind: "committed", first, last: p.committed, runs, lasts, handles, trace, tracedAt, mark: tailMark(p, role) });
    for (let r = from; r < i; r++) acknowledge(p, pipeline.items[r] as PendingBatch, out);
  }
  trim(p, active, out);
  ensureTimer(p, now + p.options.timers.lacFlushMs, out);
}

function addToChain(active: ActiveSegment, item: PendingBatch): void {
  const { epoch } = active.segment;
  if (item.batches === 1) {
    active.chain.add(item.first, epoch, item.crc);
    return;
  }
  cursor.reset(item.payload);
  while (cursor.next()) active.chain.add(cursor.header.baseOffset, epoch, cursor.header.crc);
}
const cursor = new BatchCursor();

function persist(p: Partition, item: PendingBatch): void {
  advanceProducers(p.producers, {
    firstOffset: item.first,
    lastOffset: item.last,
    producerId: item.producerId,
    producerEpoch: item.producerEpoch,
    baseSequence: item.firstSequence,
    appendMs: item.wallMs,
  });
}
function acknowledge(p: Partition, item: PendingBatch, out: Effect[]): void {
  if (!item.replied) reply(p, out, item.requestId, undefined, { baseOffset: item.first });
  item.replied = true;
  if (item.waiters === undefined) return;
  for (const w of item.waiters) reply(p, out, w.requestId, undefined, { baseOffset: item.first, duplicate: true });
  item.waiters = undefined;
}

/** Drops the items that are committed and held by every member that still answers. */
export function trim(p: Partition, active: ActiveSegment, out: Effect[]): void {
  const { pipeline } = p;
  let keep = pipeline.uncommitted;
  for (const slot of active.slots) if (slot.live && slot.next < keep) keep = slot.next;
  const drop = keep - pipeline.from;
  if (drop > 0) dropItems(p, drop, out);
}
/** Lets go of the first `count` items: committed, and sent to nobody again. */
export function dropItems(p: Partition, count: number, out: Effect[]): void {
  const { pipeline } = p;
  const handles: object[] = [];
  for (let i = 0; i < count; i++) {
    const item = pipeline.items[i] as PendingBatch;
    pipeline.bytes -= item.payload.length;
    if (item.handle !== undefined) handles.push(item.handle);
  }
  if (count === pipeline.items.length) pipeline.items = [];
  else pipeline.items.splice(0, count);
  pipeline.from += count;
  if (handles.length > 0) out.push({ kind: "released", handles });
}

const failureOf: Partial<Record<ErrorCode, { roll: RollReason; suspect: SuspectReason }>> = {
  IO_FAILED: { roll: "io", suspect: "io" },
  DISK_FULL: { roll: "disk", suspect: "full" },
  CORRUPT_SEGMENT: { roll: "io", suspect: "io" },
  WRONG_INCARNATION: { roll: "refused", suspect: "incarnation" },
  UNKNOWN_SEGMENT: { roll: "refused", suspect: "incarnation" },
};
function onSlotError(p: Partition, role: Serving, slot: Slot, code: ErrorCode, now: number, out: Effect[]): void {
  if (code === "STALE_EPOCH" || code === "SEGMENT_FENCED") return stepDown(p, "stale", out);
  if (code === "APPEND_GAP") {
    // Everything that was sent after what is missing is refused as well: one repetition answers them all.
    if (now - slot.resentMs < p.options.timers.lacFlushMs) return;
    if (++slot.gaps <= GAPS_MAX) return resend(p, role.active, slot, now, out);
  }
  if (code === "CORRUPT_SEGMENT") alarm(out, "corrupt", `${slot.replica.node} holds other bytes at an offset of this segment`);
  log(p, out, "replica.refuses", { node: slot.replica.node, code, durable: slot.durable });
  const failure = failureOf[code] ?? { roll: "refused", suspect: "refused" };
  failSlot(p, role, slot, failure.roll, failure.suspect, now, out);
}

/** Gives a member up for this segment. What it has confirmed still counts; the segment is rolled away from it. */
export function failSlot(
  p: Partition,
  role: Serving,
  slot: Slot,
  reason: RollReason,
  suspect: SuspectReason,
  now: number,
  out: Effect[],
): void {
  if (!slot.live) return;
  slot.live = false;
  retarget(role.active);
  avoid(p, slot.replica.node, now);
  out.push({ kind: "reportSuspect", node: slot.replica.node, reason: suspect });
  trim(p, role.active, out);
  p.rollWanted = reason;
}

function checkLagBytes(p: Partition, role: Serving, now: number, out: Effect[]): void {
  const { pipeline } = p;
  for (const slot of role.active.slots) {
    const oldest = pipeline.items[slot.next - pipeline.from];
    if (!slot.live || oldest === undefined || slot.next >= pipeline.uncommitted) continue;
    const lag = pipeline.position - oldest.position + oldest.payload.length;
    if (lag > limits.replicaLagBytesMax && answeringCount(role) - (slot.linkUp ? 1 : 0) >= QUORUM)
      failSlot(p, role, slot, "slow", "lag", now, out);
  }
}

export function onLink(p: Partition, input: LinkInput, now: number, out: Effect[]): void {
  if (input.up) {
    p.avoidUntil.delete(input.node);
    p.unlinked.delete(input.node);
  } else p.unlinked.add(input.node);
  if (p.role.kind !== "serving" || p.role.active.frozen) return;
  const role = p.role;
  for (const slot of role.active.slots) {
    if (slot.replica.node !== input.node || slot.linkUp === input.up || !slot.live) continue;
    slot.linkUp = input.up;
    retarget(role.active);
    if (input.up) {
      slot.progressMs = now;
      resend(p, role.active, slot, now, out);
      continue;
    }
    avoid(p, input.node, now);
    out.push({ kind: "reportSuspect", node: input.node, reason: input.reason === "none" ? "reset" : input.reason });
    p.rollWanted = "link";
  }
}
