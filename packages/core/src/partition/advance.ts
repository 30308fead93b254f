import { readAgain } from "./acquire.ts";
import type { Effect } from "./effect.ts";
import { stepDown } from "./machine.ts";
import { published, submitPublish } from "./opening.ts";
import { advanceRecovery, claimed } from "./recovery.ts";
import { announced, beginRelease, continueRelease, handedOver } from "./release.ts";
import { resumeSegment, rolled, startRoll, submitRoll, tryFreeze } from "./roll.ts";
import type { Partition, Serving, SettledTxn } from "./state.ts";

/**
 * The moves that follow from what a step has left behind: a settled transaction, a creation that is done, a reason to roll, a drained
 * pipeline.
 * The parts of the machine leave marks (`settled`, `rollWanted`, `creation.done`, `recovery.step`) and know nothing of each other; this is
 * the
 * one place that knows the order.
 */
const MOVES_MAX = 8;

export function advance(p: Partition, now: number, out: Effect[]): void {
  for (let i = 0; i < MOVES_MAX; i++) {
    const { settled } = p;
    p.settled = undefined;
    if (settled !== undefined) onSettled(p, settled, now, out);
    if (p.role.kind === "recovering") advanceRecovery(p, p.role, now, out);
    else if (p.role.kind === "opening" && p.creation?.done === true) submitPublish(p, p.role, now, out);
    else if (p.role.kind === "serving") advanceServing(p, p.role, now, out);
    if (p.settled === undefined) return;
  }
}

function onSettled(p: Partition, txn: SettledTxn, now: number, out: Effect[]): void {
  switch (txn.purpose) {
    case "claim":
      return claimed(p, txn.segment, now, out);
    case "claimLost":
      return p.release === undefined ? readAgain(p, now, out) : stepDown(p, "released", out);
    case "publish":
      return published(p, txn.segments, now, out);
    case "roll":
      return rolled(p, txn.segments, now, out);
    case "resume":
      return resumeSegment(p, now, out);
    case "releasing":
      return announced(p, now);
    case "handOver":
    case "abandon":
      return handedOver(p, txn.segments, now, out);
  }
}

function advanceServing(p: Partition, role: Serving, now: number, out: Effect[]): void {
  const wanted = p.rollWanted;
  p.rollWanted = undefined;
  if (wanted !== undefined) startRoll(p, role, wanted, now, out);
  if (p.role !== role) return;
  if (role.roll?.step === "quiesce") tryFreeze(p, role, now, out);
  if (role.roll?.step === "frozen") submitRoll(p, role, now, out);
  if (p.release?.step === "announce") beginRelease(p, role, now, out);
  if (p.release?.step === "drain") continueRelease(p, now, out);
}
