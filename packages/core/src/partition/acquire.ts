import { nextEpoch } from "../model/index.ts";
import type { PartitionState as RegisterState } from "../model/index.ts";
import type { Effect } from "./effect.ts";
import type { AcquireInput, MetaGotInput, Register } from "./input.ts";
import { alarm, log, nextCall, nextNonce, noteWall, stepDown } from "./machine.ts";
import type { Partition, Reading } from "./state.ts";
import { submit } from "./transaction.ts";

const POLITE_LEASES = 3;

/**
 * Taking a partition:  A1 read ─► A2 wait for a live owner ─► A3 claim the next epoch (here) ─► A4 seal the tail (recovery.ts) ─►
 * A5 create the next segment, A6 publish both in one transaction, A7 serve (opening.ts).
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
  const before = p.role.kind === "reading" ? p.role : undefined;
  p.register = undefined;
  const role: Reading = {
    kind: "reading",
    call: 0,
    retryAtMs: 0,
    deadlineMs: 0,
    releasingSinceMs: before?.releasingSinceMs ?? -1,
    politeUntilMs: before?.politeUntilMs ?? now + POLITE_LEASES * p.options.timers.memberLeaseTtlMs,
  };
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
  if (now >= role.politeUntilMs) return claim(p, input.register, now, out);
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
