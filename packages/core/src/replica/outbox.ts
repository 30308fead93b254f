import type { JournalEntry } from "../journal/entry.ts";
import type { AppendedAnswer } from "./api.ts";
import { applyEntry } from "./apply.ts";
import type { ControlAnswer, ReplicaEffect } from "./input.ts";
import type { ReplicaState, Segment } from "./state.ts";

/**
 * How answers leave: a change is applied and given to the journal at once, its answer waits here until the journal is durable up to the
 * last entry given so far (which is never earlier than the change). So every answer tells of a durable state, and of one that counts all that was queued before it.
 */
export type Out = ReplicaEffect[];

/** Applies a change and gives it to the journal. */
export function record(state: ReplicaState, entry: JournalEntry, out: Out): void {
  applyEntry(state, entry);
  out.push({ kind: "journal", sequence: ++state.sequence, entry });
}

export function answerControl(
  state: ReplicaState,
  ref: number,
  answers: readonly ControlAnswer[],
  dropped: readonly number[],
  out: Out,
): void {
  const promises = answers.some((a) => a.code === 0);
  if (!promises || state.sequence <= state.durable || state.mutants.M9 === true) {
    out.push({ kind: "answer", ref, answers });
    for (const segmentNumber of dropped) out.push({ kind: "dropped", segmentNumber });
    return;
  }
  state.controls.push({ sequence: state.sequence, ref, answers, dropped });
}

export const appendedOne = (origin: number, answer: AppendedAnswer): ReplicaEffect => ({ kind: "appended", origin, answers: [answer] });

/** The journal is durable up to `upTo`: releases what waited for it. */
export function durable(state: ReplicaState, upTo: number, out: Out): void {
  if (state.failed || upTo <= state.durable) return;
  state.durable = Math.min(upTo, state.sequence);
  releaseAppends(state, out);
  let released = 0;
  for (const c of state.controls) {
    if (c.sequence > state.durable) break;
    released++;
    out.push({ kind: "answer", ref: c.ref, answers: c.answers });
    for (const segmentNumber of c.dropped) out.push({ kind: "dropped", segmentNumber });
  }
  state.controls.splice(0, released);
}

function releaseAppends(state: ReplicaState, out: Out): void {
  let released = 0;
  const byOrigin = new Map<number, Set<Segment>>();
  for (const a of state.appends) {
    if (a.sequence > state.durable) break;
    released++;
    const { segment } = a;
    if (a.last > segment.durableLast) segment.durableLast = Math.min(a.last, segment.last);
    if (a.origin === NOBODY) continue;
    let touched = byOrigin.get(a.origin);
    if (touched === undefined) byOrigin.set(a.origin, (touched = new Set()));
    touched.add(segment);
  }
  if (released === 0) return;
  state.appends.splice(0, released);
  // Cumulative: one answer a segment, however many of its appends were in the group.
  for (const [origin, touched] of byOrigin) {
    const answers: AppendedAnswer[] = [];
    for (const s of touched) answers.push({ segmentNumber: s.number, code: 0, durable: s.durableLast, barrier: 0 });
    out.push({ kind: "appended", origin, answers });
  }
}
/** Origin of what no connection waits for: recovery appends, whose answer is a control answer. */
export const NOBODY = -1;
