import type { ErrorCode, Epoch, MemberId, SegmentRecord } from "../model/index.ts";
import { createProducers } from "../producer/index.ts";
import type { CandidateNode } from "./input.ts";
import type { AlarmCause, ControlRequest, Effect, StepDownReason, TailMark } from "./effect.ts";
import { QUORUM, noMutants } from "./state.ts";
import type { Partition, PartitionOptions, Pipeline, RecoveryMember, Serving, Slot } from "./state.ts";
import type { ReplicaId } from "../model/index.ts";

/** Small helpers that every part of the machine uses. */

export const emptyPipeline = (): Pipeline => ({
  items: [],
  from: 0,
  uncommitted: 0,
  unsent: 0,
  bytes: 0,
  position: 0,
  nextDeadlineMs: Infinity,
});

export function createPartition(options: PartitionOptions): Partition {
  return {
    options,
    mutants: { ...noMutants, ...options.mutants },
    config: options.config,
    role: { kind: "idle" },
    assignmentRevision: 0,
    forceInstance: undefined,
    register: undefined,
    txn: undefined,
    settled: undefined,
    rollWanted: undefined,
    creation: undefined,
    release: undefined,
    seals: [],
    nextK: 0,
    pipeline: emptyPipeline(),
    producers: createProducers(),
    nextOffset: 0,
    committed: -1,
    logStart: 0,
    nodes: [],
    avoidUntil: new Map(),
    unlinked: new Set(),
    leaseUntilMs: Infinity,
    rollsInRow: 0,
    nextRollMs: 0,
    lastRollMs: -Infinity,
    barrierNumber: 0,
    barrierSentMs: 0,
    barriers: [],
    barrierRead: undefined,
    callCounter: 0,
    nonceCounter: 0,
    random: options.seed >>> 0,
    armedAtMs: 0,
    wallMs: 0,
    wallAtMs: 0,
    lastProbeMs: 0,
    lastExpiryMs: 0,
    lastStepDown: undefined,
  };
}

export const nextCall = (p: Partition): number => ++p.callCounter;
export const nextNonce = (p: Partition): string => `${p.options.noncePrefix}-${++p.nonceCounter}`;

/** The next number in [0, 1) of the machine's own generator (mulberry32). */
export function draw(p: Partition): number {
  p.random = (p.random + 0x6d2b_79f5) | 0;
  let t = Math.imul(p.random ^ (p.random >>> 15), 1 | p.random);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
}

export const epochOf = (p: Partition): Epoch => (p.register?.state.epoch ?? 0) as Epoch;
export const noteWall = (p: Partition, wallMs: number, now: number): void => {
  if (wallMs >= p.wallMs) {
    p.wallMs = wallMs;
    p.wallAtMs = now;
  }
};
export const wallAt = (p: Partition, now: number): number => Math.round(p.wallMs + (now - p.wallAtMs));

export const serving = (p: Partition): Serving | undefined => (p.role.kind === "serving" ? p.role : undefined);
export const isUnconfirmed = (p: Partition, now: number): boolean => now > p.leaseUntilMs;
export const answering = (s: Slot): boolean => s.live && s.linkUp;
export function answeringCount(role: Serving): number {
  let n = 0;
  for (const s of role.active.slots) if (answering(s)) n++;
  return n;
}
/**
 * What keeps this owner from storing anything: it has asked for nodes, or for votes, and got too few. Undefined = nothing, or nothing known.
 */
export function starvation(p: Partition): ErrorCode | undefined {
  const { creation, role } = p;
  if (role.kind === "recovering") return role.recovery.alarmed ? "NOT_ENOUGH_REPLICAS" : undefined;
  if (role.kind !== "opening" && !(role.kind === "serving" && role.active.frozen)) return undefined;
  // Between two attempts as well as during one: the last that ended found too few.
  return creation === undefined || creation.done ? undefined : creation.cause;
}
/** The same for what was admitted and has waited in vain. */
export function waitedFor(p: Partition, role: Serving): ErrorCode | undefined {
  return starvation(p) ?? (answeringCount(role) < QUORUM ? "NOT_ENOUGH_REPLICAS" : undefined);
}
/** Fewest trusted answers that must include a holder of everything acknowledged: Qw - Qa + 1. */
export const fenceQuorum = (members: number): number => Math.max(1, members - QUORUM + 1);

export function control(p: Partition, to: ReplicaId, body: ControlRequest, timeoutMs: number, out: Effect[]): number {
  const call = nextCall(p);
  out.push({ kind: "control", call, to, timeoutMs, body });
  return call;
}
export function log(p: Partition, out: Effect[], event: string, fields: Record<string, string | number | boolean> = {}): void {
  out.push({
    kind: "log",
    event,
    fields: { topic: p.options.partition.topicId, partition: p.options.partition.partition, epoch: epochOf(p), ...fields },
  });
}
export const alarm = (out: Effect[], cause: AlarmCause, message: string): void => {
  out.push({ kind: "alarm", cause, message });
};

export interface ReplyFields {
  readonly baseOffset?: number;
  readonly duplicate?: boolean;
  readonly throttleMs?: number;
  readonly target?: MemberId | undefined;
  readonly cause?: ErrorCode | undefined;
}
export function reply(p: Partition, out: Effect[], requestId: number, code: ErrorCode | undefined, fields: ReplyFields = {}): void {
  out.push({
    kind: "reply",
    requestId,
    code,
    baseOffset: fields.baseOffset ?? -1,
    logStart: p.logStart,
    duplicate: fields.duplicate ?? false,
    throttleMs: fields.throttleMs ?? 0,
    target: fields.target,
    cause: fields.cause,
  });
}

export function tailMark(p: Partition, role: Serving): TailMark {
  return {
    epoch: epochOf(p),
    segment: role.active.segment,
    segmentBase: role.active.base,
    committed: p.committed,
    lastStable: p.committed,
    logStart: p.logStart,
  };
}

/** Avoids a node for new segments for a while: longer than a restart takes to be seen, shorter than a lease. */
export function avoid(p: Partition, node: MemberId, now: number): void {
  p.avoidUntil.set(node, now + 2 * p.options.timers.replicaLagMs);
}

/** A node that nothing speaks against as a member of a new segment, or as the taker of a copy. */
export const isGood = (p: Partition, n: CandidateNode, now: number): boolean =>
  !n.suspect && !p.unlinked.has(n.node) && (p.avoidUntil.get(n.node) ?? 0) <= now;

/** Asks for a tick at `atMs` unless an earlier one is armed. */
export function ensureTimer(p: Partition, atMs: number, out: Effect[]): void {
  if (atMs === Infinity || (p.armedAtMs !== 0 && p.armedAtMs <= atMs)) return;
  p.armedAtMs = atMs;
  out.push({ kind: "armTimer", atMs });
}

/** Ends this ownership: every waiting request is answered, nothing is kept but the seals still to be confirmed. */
export function stepDown(p: Partition, reason: StepDownReason, out: Effect[]): void {
  const target = p.release?.target;
  log(p, out, "partition.stepped-down", { reason, from: p.role.kind });
  for (const item of p.pipeline.items) {
    // Once a byte may have gone to a node the outcome is unknown, and this ownership never learns it.
    if (!item.replied) reply(p, out, item.requestId, item.sentMs < 0 ? "NOT_OWNER" : "OUTCOME_UNKNOWN", { target });
    for (const w of item.waiters ?? []) reply(p, out, w.requestId, "OUTCOME_UNKNOWN", { target });
  }
  for (const b of p.barriers) {
    if (b.refusal !== undefined) reply(p, out, b.requestId, "NOT_OWNER", { target });
    else out.push({ kind: "barrierReply", requestId: b.requestId, code: "NOT_OWNER", committed: -1, logStart: p.logStart });
  }
  p.role = { kind: "idle" };
  p.txn = undefined;
  p.settled = undefined;
  p.rollWanted = undefined;
  p.creation = undefined;
  p.release = undefined;
  p.register = undefined;
  p.barriers = [];
  p.barrierRead = undefined;
  p.barrierSentMs = 0;
  p.pipeline = emptyPipeline();
  p.producers = createProducers();
  p.lastStepDown = reason;
  out.push({ kind: "stepDown", reason, target });
}

/** Sends Seal to every copy of a segment whose end is published. */
export function sealAll(p: Partition, record: SegmentRecord, to: readonly ReplicaId[], now: number): void {
  for (const replica of to)
    p.seals.push({
      replica,
      segment: record.segment,
      end: record.end ?? record.base - 1,
      epoch: epochOf(p),
      call: 0,
      deadlineMs: now,
      tries: 0,
    });
}
export const memberKeys = (members: readonly RecoveryMember[]): string => members.map((m) => `${m.replica.node}:${m.verdict}`).join(" ");
