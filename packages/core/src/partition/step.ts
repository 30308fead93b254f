import { advance } from "./advance.ts";
import { onAcquire, onHint, onRead } from "./acquire.ts";
import { onBarrier, onBarrierRead } from "./barrier.ts";
import { onCreateAnswer, onNodesChanged } from "./creation.ts";
import type { Effect } from "./effect.ts";
import type { ControlInput, Input, MetaGotInput } from "./input.ts";
import { brokenInvariant } from "./invariants.ts";
import { alarm, ensureTimer, noteWall, serving, stepDown, tailMark } from "./machine.ts";
import { onAppend, onAppended, onLink } from "./pipeline.ts";
import { onProducersRead, onRecoveryAnswer } from "./recovery.ts";
import { onRelease } from "./release.ts";
import { onPrepared } from "./roll.ts";
import { onSealAnswer, tickSeals } from "./seals.ts";
import type { Partition } from "./state.ts";
import { forgivePause, nextWake, tick } from "./tick.ts";
import { onMetaTxn, onSettlingRead } from "./transaction.ts";

/**
 * One input, in the order in which they happen. Changes `p` in place and pushes what is to be done to `out` (the caller's array, emptied
 * by the caller).
 * Deterministic: the same inputs give the same effects. `now` is a monotonic clock in milliseconds. Never throws on what a peer or a
 * client sent.
 */
export function step(p: Partition, input: Input, now: number, out: Effect[]): void {
  if (input.kind === "append" || input.kind === "appended") {
    if (input.kind === "append") onAppend(p, input, now, out);
    else onAppended(p, input, now, out);
    if (p.rollWanted !== undefined || p.release !== undefined || serving(p)?.roll !== undefined) advance(p, now, out);
  } else {
    perform(p, input, now, out);
    advance(p, now, out);
    tickSeals(p, now, out);
    const broken = brokenInvariant(p);
    if (broken !== undefined) {
      alarm(out, "invariant", broken);
      stepDown(p, "invariant", out);
    }
    ensureTimer(p, nextWake(p, now), out);
  }
}

function perform(p: Partition, input: Exclude<Input, { kind: "append" | "appended" }>, now: number, out: Effect[]): void {
  switch (input.kind) {
    case "acquire":
      return onAcquire(p, input, now, out);
    case "release":
      return onRelease(p, input, now, out);
    case "metaGot":
      return onMetaGot(p, input, now, out);
    case "metaTxnDone":
      return onMetaTxn(p, input, now, out);
    case "control":
      return onControl(p, input, now, out);
    case "producersRead":
      if (p.role.kind === "recovering") onProducersRead(p, p.role, input.call, input.producers, now, out);
      return;
    case "barrier":
      return onBarrier(p, input, now, out);
    case "link":
      return onLink(p, input, now, out);
    case "nodes":
      p.nodes = input.nodes;
      return onNodesChanged(p, now, out);
    case "lease":
      p.leaseUntilMs = input.confirmedUntilMs;
      return;
    case "config":
      p.config = input.config;
      return;
    case "logStart": {
      const role = serving(p);
      if (input.logStart <= p.logStart || (role !== undefined && input.logStart > p.committed + 1)) return;
      p.logStart = input.logStart;
      if (role !== undefined) out.push({ kind: "markTail", mark: tailMark(p, role) });
      return;
    }
    case "roll": {
      const role = serving(p);
      if (role !== undefined && p.nextOffset > role.active.base) p.rollWanted = input.reason;
      return;
    }
    case "hint":
      return onHint(p, now, out);
    case "tick":
      noteWall(p, input.wallMs, now);
      if (p.armedAtMs !== 0 && now > p.armedAtMs) forgivePause(p, now - p.armedAtMs);
      if (now >= p.armedAtMs) p.armedAtMs = 0;
      return tick(p, now, out);
  }
}

function onMetaGot(p: Partition, input: MetaGotInput, now: number, out: Effect[]): void {
  if (onSettlingRead(p, input, now)) return;
  if (p.role.kind === "reading") onRead(p, p.role, input, now, out);
  else if (p.role.kind === "serving" && !onBarrierRead(p, p.role, input, now, out)) onPrepared(p, p.role, input, now, out);
}

function onControl(p: Partition, input: ControlInput, now: number, out: Effect[]): void {
  const { call, result } = input;
  if (onSealAnswer(p, call, result, now, out)) return;
  if (onCreateAnswer(p, call, result, now, out)) return;
  if (p.role.kind === "recovering") onRecoveryAnswer(p, p.role, call, result, now, out);
}
