import type { PartitionState as RegisterState, SegmentRecord } from "../model/index.ts";
import type { Effect } from "./effect.ts";
import type { ReleaseInput } from "./input.ts";
import { log, nextNonce, sealAll, stepDown } from "./machine.ts";
import { sendUnsent } from "./pipeline.ts";
import { sealedRecord } from "./active.ts";
import type { Partition, Serving } from "./state.ts";
import { submit } from "./transaction.ts";

/**
 * Planned move:  announce RELEASING (the next owner then waits at most a second) ─► stop intake, drain ─► seal the own tail and set
 * UNOWNED in
 * one transaction ─► step down. The next owner finds a sealed tail and has nothing to fence.
 */
export function onRelease(p: Partition, input: ReleaseInput, now: number, out: Effect[]): void {
  if (p.role.kind === "idle" || p.release !== undefined) return;
  p.release = { target: input.target, forever: input.forever ?? false, step: "announce", deadlineMs: now + p.options.timers.handOverMs };
  // For ever: the partition must be taken first, because only its owner can write the tombstone.
  if (p.role.kind === "reading" && !p.release.forever) return stepDown(p, "released", out);
  // While the partition is being taken: it is handed on once open, or given back when that takes too long (tickRelease).
}

/** Starts the hand-over unless a roll has to end first. */
export function beginRelease(p: Partition, role: Serving, now: number, out: Effect[]): void {
  const { release, register } = p;
  if (release === undefined || release.step !== "announce" || p.txn !== undefined || register === undefined) return;
  if (role.active.frozen) return;
  if (role.roll !== undefined) {
    role.roll = undefined;
    p.creation = undefined;
    sendUnsent(p, role, now, out);
  }
  log(p, out, "partition.releasing", { target: release.target ?? "none" });
  const state: RegisterState = { ...register.state, nonce: nextNonce(p), phase: "RELEASING" };
  submit(p, "releasing", { expectedRevision: register.modRevision, state, segments: [], readSegment: undefined }, now, out);
}

/** RELEASING is written: no more intake. */
export function announced(p: Partition, now: number): void {
  if (p.release === undefined) return;
  p.release.step = "drain";
  p.release.deadlineMs = now + p.options.timers.handOverMs / 2;
}

/** Once everything admitted is committed, or was waited for: freeze, seal, give up. */
export function continueRelease(p: Partition, now: number, out: Effect[]): void {
  const { release, register, pipeline, role } = p;
  if (release?.step !== "drain" || role.kind !== "serving" || register === undefined) return;
  const drained = pipeline.uncommitted - pipeline.from === pipeline.items.length;
  if (!drained && now < release.deadlineMs) return;
  const { active } = role;
  const behind = active.slots.some((s) => s.live && s.linkUp && s.durable < p.committed);
  if (behind && now < release.deadlineMs) return;
  release.step = "seal";
  active.frozen = true;
  const holders = active.slots.filter((s) => s.durable >= p.committed).map((s) => s.replica);
  const lacking = active.slots.filter((s) => s.durable < p.committed).map((s) => s.replica);
  const sealed = sealedRecord(p, active, { end: p.committed, holders, lacking }, now);
  const state: RegisterState = {
    ...register.state,
    nonce: nextNonce(p),
    phase: release.forever ? "DELETED" : "UNOWNED",
    tail: { segment: active.segment, base: active.base },
  };
  submit(p, "handOver", { expectedRevision: register.modRevision, state, segments: [sealed], readSegment: undefined }, now, out);
}

/** UNOWNED is written. */
export function handedOver(p: Partition, segments: readonly SegmentRecord[], now: number, out: Effect[]): void {
  const [sealed] = segments;
  if (sealed !== undefined) sealAll(p, sealed, [...sealed.replicas, ...(sealed.missing ?? [])], now);
  stepDown(p, "released", out);
}

export function tickRelease(p: Partition, now: number, out: Effect[]): void {
  const { release, register } = p;
  if (release === undefined || p.txn !== undefined || register === undefined) return;
  // One that is to be deleted is not given back: the next owner would have to begin it again, and nobody waits for it.
  if (release.forever || (p.role.kind !== "recovering" && p.role.kind !== "opening") || now < release.deadlineMs) return;
  // The take-over does not get on: give the partition back as it is, tail open; the next owner recovers it.
  p.role = { kind: "claiming" };
  p.creation = undefined;
  const state: RegisterState = { ...register.state, nonce: nextNonce(p), phase: "UNOWNED" };
  submit(p, "abandon", { expectedRevision: register.modRevision, state, segments: [], readSegment: undefined }, now, out);
}
