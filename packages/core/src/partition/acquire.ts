import { nextEpoch } from "../model/index.ts";
import type { PartitionState as RegisterState, ReplicaId, SegmentRecord } from "../model/index.ts";
import { createProducers, encodeProducers } from "../producer/index.ts";
import type { ProducerTable } from "../producer/index.ts";
import { startCreation } from "./creation.ts";
import type { Effect } from "./effect.ts";
import type { AcquireInput, MetaGotInput, Register } from "./input.ts";
import { alarm, emptyPipeline, log, nextCall, nextNonce, noteWall, sealAll, stepDown, tailMark } from "./machine.ts";
import { startRecovery } from "./recovery.ts";
import { beginRelease } from "./release.ts";
import { newActive } from "./roll.ts";
import type { Opening, Partition, Reading, Serving } from "./state.ts";
import { submit } from "./transaction.ts";

/**
 * Taking a partition:  A1 read ─► A2 wait for a live owner ─► A3 claim the next epoch ─► A4 seal the tail ─► A5 create the next segment ─►
 * A6 publish both in one transaction ─► serve.
 */
export function onAcquire(p: Partition, input: AcquireInput, now: number, out: Effect[]): void {
  noteWall(p, input.wallMs, now);
  p.assignmentRevision = input.assignmentRevision;
  p.forceInstance = input.forceInstance;
  if (p.role.kind === "reading") return look(p, p.role, now, out);
  if (p.role.kind === "idle") readAgain(p, now, out);
}

/** A1, from the start. */
export function readAgain(p: Partition, now: number, out: Effect[]): void {
  const since = p.role.kind === "reading" ? p.role.releasingSinceMs : -1;
  p.register = undefined;
  const role: Reading = { kind: "reading", call: 0, retryAtMs: 0, deadlineMs: 0, releasingSinceMs: since };
  p.role = role;
  look(p, role, now, out);
}
function look(p: Partition, role: Reading, now: number, out: Effect[]): void {
  role.call = nextCall(p);
  role.retryAtMs = 0;
  role.deadlineMs = now + 2 * p.options.timers.metadataCallTimeoutMs;
  out.push({ kind: "metaGet", call: role.call });
}
export function tickReading(p: Partition, role: Reading, now: number, out: Effect[]): void {
  if (role.retryAtMs !== 0 ? now >= role.retryAtMs : now >= role.deadlineMs) look(p, role, now, out);
}
export function onHint(p: Partition, now: number, out: Effect[]): void {
  if (p.role.kind === "reading" && p.role.retryAtMs !== 0) look(p, p.role, now, out);
}

/** A2: politeness. Only speed hangs on it. */
export function onRead(p: Partition, role: Reading, input: MetaGotInput, now: number, out: Effect[]): void {
  if (input.call !== role.call) return;
  const { timers } = p.options;
  if (input.outcome === "failed" || input.register === undefined) {
    role.retryAtMs = now + timers.metadataRetryMs;
    return;
  }
  const { state } = input.register;
  if (state?.phase === "DELETED") return stepDown(p, "deleted", out);
  if (state === undefined || mayClaim(p, state, input.ownerAlive === true)) return claim(p, input.register, now, out);
  if (state.phase === "RELEASING") {
    if (role.releasingSinceMs < 0) role.releasingSinceMs = now;
    if (now - role.releasingSinceMs >= timers.releasingWaitMs) return claim(p, input.register, now, out);
  }
  role.retryAtMs = now + timers.metadataRetryMs;
}
function mayClaim(p: Partition, state: RegisterState, ownerAlive: boolean): boolean {
  if (state.phase === "UNOWNED" || !ownerAlive) return true;
  if (state.owner === p.options.self) return true; // an earlier instance of this broker, or an earlier try of this one
  return state.ownerInstance === p.forceInstance;
}

/** A3. */
function claim(p: Partition, register: Register, now: number, out: Effect[]): void {
  const { state } = register;
  let epoch;
  try {
    epoch = nextEpoch(state?.epoch ?? 0, p.options.generation);
  } catch (e) {
    alarm(out, "invariant", e instanceof Error ? e.message : "no epoch left");
    return stepDown(p, "invariant", out);
  }
  p.role = { kind: "claiming" };
  const claimedState: RegisterState = {
    epoch,
    owner: p.options.self,
    ownerInstance: p.options.instance,
    nonce: nextNonce(p),
    phase: "RECOVERING",
    ...(state?.tail === undefined ? {} : { tail: state.tail }),
  };
  log(p, out, "partition.claiming", { newEpoch: epoch, from: state?.phase ?? "none" });
  submit(p, "claim", { expectedRevision: register.modRevision, state: claimedState, segments: [], readSegment: state?.tail }, now, out);
}

/** A3 is known to have committed; `tail` is the tail segment's record at its revision. */
export function claimed(p: Partition, tail: SegmentRecord | undefined, now: number, out: Effect[]): void {
  p.nextK = 0;
  p.pipeline = emptyPipeline();
  log(p, out, "partition.claimed", { tail: tail === undefined ? "none" : `${tail.segment.epoch}-${tail.segment.k}` });
  const named = p.register?.state.tail;
  if (tail !== undefined) return startRecovery(p, tail, now, out);
  if (named !== undefined && p.logStart < named.base) {
    alarm(out, "invariant", `the register names tail ${named.segment.epoch}-${named.segment.k}, which has no key`);
    return stepDown(p, "invariant", out);
  }
  // No segment yet, or retention has removed the last one and raised the log start past it.
  startOpening(p, p.logStart, createProducers(), undefined, [], now, out);
}

/** A5. `sealed` is published with the new segment; `sealTo` are the copies to be told. */
export function startOpening(
  p: Partition,
  base: number,
  producers: ProducerTable,
  sealed: SegmentRecord | undefined,
  sealTo: readonly ReplicaId[],
  now: number,
  out: Effect[],
): void {
  p.role = { kind: "opening", base, producers, sealed, sealTo };
  startCreation(p, base, encodeProducers(producers), now, out);
}

/** A6: seals the tail, adds the segment and opens the partition in one transaction. */
export function submitPublish(p: Partition, role: Opening, now: number, out: Effect[]): void {
  const { creation, register } = p;
  if (creation === undefined || register === undefined || p.txn !== undefined) return;
  const opened: SegmentRecord = {
    segment: creation.segment,
    base: creation.base,
    phase: "OPEN",
    replicas: creation.members.filter((m) => m.status === "made").map((m) => m.replica),
  };
  const state: RegisterState = {
    ...register.state,
    nonce: nextNonce(p),
    phase: "OPEN",
    tail: { segment: creation.segment, base: creation.base },
  };
  if (p.mutants.M29 && role.sealed !== undefined) sealAll(p, role.sealed, role.sealTo, now);
  const segments = role.sealed === undefined ? [opened] : [role.sealed, opened];
  submit(p, "publish", { expectedRevision: register.modRevision, state, segments, readSegment: undefined }, now, out);
}

/** A7. */
export function published(p: Partition, segments: readonly SegmentRecord[], now: number, out: Effect[]): void {
  if (p.role.kind !== "opening" || p.creation === undefined) return;
  const opening = p.role;
  p.producers = opening.producers;
  p.nextOffset = opening.base;
  p.committed = opening.base - 1;
  const role: Serving = { kind: "serving", active: newActive(p.creation, now), roll: undefined };
  p.role = role;
  p.creation = undefined;
  const [first] = segments;
  if (opening.sealed !== undefined && first !== undefined && !p.mutants.M29) sealAll(p, first, opening.sealTo, now);
  log(p, out, "partition.open", { base: opening.base, replicas: role.active.slots.map((s) => s.replica.node).join(" ") });
  out.push({ kind: "markTail", mark: tailMark(p, role) });
  if (p.release !== undefined) beginRelease(p, role, now, out);
}
