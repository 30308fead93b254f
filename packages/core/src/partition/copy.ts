import { BatchCursor, ChainHash, cutRun } from "../log/index.ts";
import { errorCodeOf, limits } from "../model/index.ts";
import { chooseReplicas } from "../placement/replicas.ts";
import type { Effect } from "./effect.ts";
import type { ControlAnswer } from "./input.ts";
import { alarm, avoid, control, draw, epochOf, isGood, log, stepDown } from "./machine.ts";
import { distrust, fenceAll, holdersOf, lost } from "./votes.ts";
import { QUORUM } from "./state.ts";
import type { CopyTask, Partition, RebuildTask, Recovery, RecoveryMember } from "./state.ts";

/**
 * R4: [base..end] on two members. A shorter copy is first compared (the longer one's suffix is read, the shorter one's chain hash extended
 * by
 * it), then given that suffix. Where the set has no second member to give it to, a new node takes the whole copy.
 * One task at a time: what is copied is bounded by the lag limit, a whole segment only in a set of two.
 */
const RETRIES_MAX = 3;

/** What is still to be done for two copies; step "copied" when nothing is. */
export function bringTo(p: Partition, r: Recovery, now: number, out: Effect[]): void {
  const holders = holdersOf(r);
  if (p.mutants.M4 || holders.length >= QUORUM || (r.end < r.tail.base && holders.length > 0)) {
    r.step = "copied";
    return;
  }
  const shorter = r.members.find((m) => m.verdict === "trusted" && m.last < r.end);
  if (shorter !== undefined) return startTask(p, r, shorter, shorter.agrees ? "append" : "verify", now, out);
  startRebuild(p, r, "any", now, out);
}

function startTask(p: Partition, r: Recovery, target: RecoveryMember, kind: CopyTask["kind"], now: number, out: Effect[]): void {
  const fresh = target.last < r.tail.base;
  const task: CopyTask = {
    target: r.members.indexOf(target),
    source: r.reference,
    kind,
    chain: fresh ? new ChainHash() : ChainHash.fromHex(target.answer?.chainHash ?? ""),
    next: target.last + 1,
    call: 0,
    deadlineMs: 0,
    retries: 0,
  };
  r.step = kind;
  r.task = task;
  log(p, out, "tail.copying", { step: kind, from: task.next, end: r.end, to: target.replica.node });
  readNext(p, r, task, now, out);
}

function readNext(p: Partition, r: Recovery, task: CopyTask | RebuildTask, now: number, out: Effect[]): void {
  const source = r.members[r.reference] as RecoveryMember;
  const { controlCallTimeoutMs } = p.options.timers;
  const request = {
    partition: p.options.partition,
    segment: r.tail.segment,
    epoch: epochOf(p),
    from: task.next,
    maxBytes: limits.readRunBytesMax,
  };
  task.call = control(p, source.replica, { kind: "recoveryRead", request }, controlCallTimeoutMs, out);
  task.deadlineMs = now + controlCallTimeoutMs;
}
function appendNext(
  p: Partition,
  r: Recovery,
  task: CopyTask | RebuildTask,
  to: RecoveryMember["replica"],
  payload: Uint8Array,
  now: number,
  out: Effect[],
): void {
  const { controlCallTimeoutMs } = p.options.timers;
  const last = lastOffsetOf(payload);
  const request = {
    partition: p.options.partition,
    segment: r.tail.segment,
    epoch: epochOf(p),
    base: r.tail.base,
    firstOffset: task.next,
    lastOffset: last,
    payload,
  };
  task.call = control(p, to, { kind: "recoveryAppend", request }, controlCallTimeoutMs, out);
  task.deadlineMs = now + controlCallTimeoutMs;
}
const cursor = new BatchCursor();
function lastOffsetOf(run: Uint8Array): number {
  let last = -1;
  cursor.reset(run);
  while (cursor.next()) last = cursor.header.lastOffset;
  return last;
}

/** True when the answer belonged to a copy task. */
export function onCopyAnswer(p: Partition, r: Recovery, call: number, result: ControlAnswer, now: number, out: Effect[]): boolean {
  const task = r.task ?? r.rebuild;
  if (task === undefined || task.call !== call) return false;
  const code = "answer" in result && result.answer.code !== 0 ? errorCodeOf(result.answer.code) : undefined;
  if (code === "STALE_EPOCH") stepDown(p, "stale", out);
  else if (r.task !== undefined) onTaskAnswer(p, r, r.task, result, code === undefined, now, out);
  else if (r.rebuild !== undefined) onRebuildAnswer(p, r, r.rebuild, result, code === undefined, now, out);
  return true;
}

function onTaskAnswer(p: Partition, r: Recovery, task: CopyTask, result: ControlAnswer, ok: boolean, now: number, out: Effect[]): void {
  const target = r.members[task.target] as RecoveryMember;
  const source = r.members[task.source] as RecoveryMember;
  if (result.kind === "recoveryAppend" && ok) {
    target.last = result.answer.last;
    task.next = target.last + 1;
    if (target.last < r.end) return readNext(p, r, task, now, out);
    if (target.last > r.end || result.answer.chainHash !== source.answer?.chainHash) return distrust(r, target, out);
    target.agrees = true;
    r.task = undefined;
    return bringTo(p, r, now, out);
  }
  if (result.kind === "recoveryRead" && ok) {
    const run = result.answer.payload.subarray(0, cutRun(result.answer.payload, r.end));
    if (lastOffsetOf(run) >= task.next) {
      if (task.kind === "verify") return verify(p, r, task, run, now, out);
      target.copied = true;
      return appendNext(p, r, task, target.replica, run, now, out);
    }
  }
  if (++task.retries <= RETRIES_MAX) return readNext(p, r, task, now, out);
  lost(r, result.kind === "recoveryAppend" || (result.kind === "failed" && task.kind === "append") ? target : source);
}

function verify(p: Partition, r: Recovery, task: CopyTask, run: Uint8Array, now: number, out: Effect[]): void {
  const target = r.members[task.target] as RecoveryMember;
  const source = r.members[task.source] as RecoveryMember;
  cursor.reset(run);
  while (cursor.next()) {
    const { header } = cursor;
    if (header.baseOffset !== task.next) return distrust(r, target, out);
    task.chain.add(header.baseOffset, header.partitionLeaderEpoch, header.crc);
    task.next = header.lastOffset + 1;
  }
  if (task.next <= r.end) return readNext(p, r, task, now, out);
  if (task.chain.hex() !== source.answer?.chainHash) return distrust(r, target, out);
  target.agrees = true;
  r.task = undefined;
  startTask(p, r, target, "append", now, out);
}

/** `any`: also a suspect when there is no better one, since it may be merely slow and the partition waits. */
function startRebuild(p: Partition, r: Recovery, which: "good" | "any", now: number, out: Effect[]): void {
  const free = p.nodes.filter((n) => !r.members.some((m) => m.replica.node === n.node));
  const good = free.filter((n) => isGood(p, n, now));
  const [node] = chooseReplicas(good.length > 0 || which === "good" ? good : free, { count: 1, random: () => draw(p) });
  const source = r.members[r.reference];
  r.step = "rebuild";
  if (node === undefined || source?.answer === undefined) {
    if (!r.alarmed) alarm(out, "recoveryBlocked", "no storage node for a second copy of the tail");
    r.alarmed = true;
    r.rebuild = undefined;
    r.retryAtMs = now + 2 * p.options.timers.metadataRetryMs;
    return;
  }
  const { controlCallTimeoutMs } = p.options.timers;
  const replica = { node: node.node, incarnation: node.incarnation };
  const request = {
    partition: p.options.partition,
    segment: r.tail.segment,
    base: r.tail.base,
    end: r.end,
    incarnation: node.incarnation,
    epoch: epochOf(p),
    producers: source.answer.producers,
  };
  const call = control(p, replica, { kind: "rebuild", request }, controlCallTimeoutMs, out);
  r.rebuild = { replica, call, next: r.tail.base, deadlineMs: now + controlCallTimeoutMs };
  log(p, out, "tail.rebuilding", { end: r.end, to: node.node });
}

function onRebuildAnswer(
  p: Partition,
  r: Recovery,
  task: RebuildTask,
  result: ControlAnswer,
  ok: boolean,
  now: number,
  out: Effect[],
): void {
  const source = r.members[r.reference] as RecoveryMember;
  if (ok && result.kind === "rebuild") return readNext(p, r, task, now, out);
  if (ok && result.kind === "recoveryRead") {
    const run = result.answer.payload.subarray(0, cutRun(result.answer.payload, r.end));
    if (lastOffsetOf(run) >= task.next) return appendNext(p, r, task, task.replica, run, now, out);
  }
  if (ok && result.kind === "recoveryAppend") {
    task.next = result.answer.last + 1;
    if (task.next <= r.end) return readNext(p, r, task, now, out);
    if (result.answer.chainHash === source.answer?.chainHash) {
      r.rebuild = undefined;
      const extra: RecoveryMember = {
        replica: task.replica,
        call: 0,
        verdict: "trusted",
        answer: undefined,
        deadlineMs: 0,
        last: r.end,
        agrees: true,
        copied: true,
      };
      r.rebuilt = extra;
      r.step = "copied";
      return;
    }
  }
  if (result.kind === "recoveryRead") return lost(r, source);
  avoid(p, task.replica.node, now);
  startRebuild(p, r, "good", now, out);
}

export function tickCopies(p: Partition, r: Recovery, now: number, out: Effect[]): void {
  const failure: ControlAnswer = { kind: "failed", failure: "timeout", sent: true };
  if (r.task !== undefined && now >= r.task.deadlineMs) onTaskAnswer(p, r, r.task, failure, false, now, out);
  else if (r.rebuild !== undefined && now >= r.rebuild.deadlineMs) onRebuildAnswer(p, r, r.rebuild, failure, false, now, out);
  else if (r.step === "rebuild" && r.rebuild === undefined && now >= r.retryAtMs) {
    // Either a node for the copy, or the other member, may have come back.
    r.step = "fence";
    r.graceUntilMs = now + p.options.timers.lacFlushMs;
    fenceAll(p, r, now, out);
  }
}
