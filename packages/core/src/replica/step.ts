import type { JournalEntry } from "../journal/entry.ts";
import { errorNumber } from "../model/index.ts";
import type { AppendedAnswer } from "./api.ts";
import { onAppend } from "./append.ts";
import { applyEntry } from "./apply.ts";
import { onCreate } from "./create.ts";
import { refusal } from "./epoch-check.ts";
import { onFence, voteless } from "./fence.ts";
import type { ControlAnswer, ControlRequest, ReplicaInput } from "./input.ts";
import { answerControl, durable, NOBODY } from "./outbox.ts";
import type { Out } from "./outbox.ts";
import { onRebuild, onRecoveryAppend } from "./recovery.ts";
import { onDelete, onSeal } from "./seal.ts";
import { createReplica } from "./state.ts";
import type { ReplicaOptions, ReplicaState } from "./state.ts";

/**
 * One input of the storage node's rules. Changes `state` in place and appends effects to `out`, to be performed in order.
 *
 *   append / control ──► rule ──► journal entry (applied at once) ──► answer waits
 *                                                                        │
 *   durable(sequence) ───────────────────────────────────────────────────┴──► answers leave
 */
export function step(state: ReplicaState, input: ReplicaInput, out: Out): void {
  switch (input.kind) {
    case "append":
      onAppend(state, input.origin, input.request, input.nowMs, out);
      break;
    case "control":
      onControl(state, input.ref, input.nowMs, input.requests, out);
      break;
    case "durable":
      durable(state, input.upTo, out);
      break;
    case "journal-failed":
      onJournalFailed(state, out);
      break;
    case "disk-full":
      state.diskFull = input.full;
      break;
    case "ask-roll":
      if (state.byNumber.get(input.segmentNumber)?.status === "OPEN") state.rollWanted.add(input.segmentNumber);
      break;
    case "origin-gone":
      for (let i = 0; i < state.appends.length; i++) {
        const a = state.appends[i];
        if (a !== undefined && a.origin === input.origin) state.appends[i] = { ...a, origin: NOBODY };
      }
      break;
  }
}

function onControl(state: ReplicaState, ref: number, nowMs: number, requests: readonly ControlRequest[], out: Out): void {
  const answers: ControlAnswer[] = [];
  const dropped: number[] = [];
  for (const r of requests) answers.push(onRequest(state, r, nowMs, dropped, out));
  answerControl(state, ref, answers, dropped, out);
}

function onRequest(state: ReplicaState, r: ControlRequest, nowMs: number, dropped: number[], out: Out): ControlAnswer {
  switch (r.op) {
    case "create":
      return onCreate(state, r, nowMs, out);
    case "fence":
      return onFence(state, r, nowMs, out);
    case "recovery-append":
      return onRecoveryAppend(state, r, nowMs, out);
    case "rebuild":
      return onRebuild(state, r, nowMs, out);
    case "seal":
      return onSeal(state, r, out);
    default:
      return onDelete(state, r, dropped, out);
  }
}

/** A write or a sync failed: nothing is acknowledged any more, and what waited is refused. What is on disk above the last good sync is unknown, for good. */
function onJournalFailed(state: ReplicaState, out: Out): void {
  if (state.failed) return;
  state.failed = true;
  const code = errorNumber("IO_FAILED");
  for (const a of state.appends) {
    if (a.origin === NOBODY) continue;
    const answer: AppendedAnswer = { segmentNumber: a.segment.number, code, durable: a.segment.durableLast, barrier: 0 };
    out.push({ kind: "appended", origin: a.origin, answers: [answer] });
  }
  state.appends.length = 0;
  for (const c of state.controls) out.push({ kind: "answer", ref: c.ref, answers: c.answers.map((a) => failedAnswer(state, a)) });
  state.controls.length = 0;
}

function failedAnswer(state: ReplicaState, a: ControlAnswer): ControlAnswer {
  if (a.code !== 0) return a;
  const why = refusal("IO_FAILED", "the journal has failed");
  switch (a.op) {
    case "create":
    case "rebuild":
      return { op: a.op, ...why, segmentNumber: a.segmentNumber };
    case "fence":
      return voteless(state, state.byNumber.get(a.segmentNumber), why, a.maxEpoch);
    case "recovery-append":
      return { op: a.op, ...why, last: -1, chainHash: "" };
    case "seal":
      return { op: a.op, ...why, status: "FAILED" };
    default:
      return { op: a.op, ...why };
  }
}

/** What a scan of the journal gives back: entries in order; "unknown" stands where acknowledged entries can no longer be read. */
export type Scanned = JournalEntry | "unknown";

/**
 * The state after a restart. The caller has synced the journal before this (a killed process may have left bytes only in the page cache), so everything that was
 * read back is durable. `failed` = the marker of a failed journal was found.
 */
export function restartReplica(options: ReplicaOptions, entries: Iterable<Scanned>, failed: boolean): ReplicaState {
  const state = createReplica(options);
  for (const entry of entries) replay(state, entry);
  finishReplay(state, failed);
  return state;
}

export function replay(state: ReplicaState, entry: Scanned): void {
  if (entry !== "unknown") applyEntry(state, entry);
  else if (state.mutants.M24 !== true) replayUnknown(state);
}

/**
 * Entries are missing here that were acknowledged once. Any copy that was still changing may have lost some: none of them is trusted again. A later
 * entry of a copy (its Seal, say) does not make it whole. Numbers that were given out there are not known either, so some are skipped.
 */
function replayUnknown(state: ReplicaState): void {
  state.damaged = true;
  state.nextSegmentNumber += NUMBERS_SKIPPED;
  for (const s of state.byNumber.values()) if (s.status !== "SEALED" && s.status !== "DELETED") s.status = "FAILED";
}

const NUMBERS_SKIPPED = 65_536;

export function finishReplay(state: ReplicaState, failed: boolean): void {
  state.failed = failed;
  for (const s of state.byNumber.values()) s.durableLast = s.last;
}
