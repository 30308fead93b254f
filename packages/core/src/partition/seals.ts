import { errorCodeOf } from "../model/index.ts";
import type { Effect } from "./effect.ts";
import type { ControlAnswer } from "./input.ts";
import { alarm, control } from "./machine.ts";
import type { Partition } from "./state.ts";

/**
 * Telling the copies of a sealed segment their end, only ever after the transaction that publishes it is known to have committed. A few
 * tries: a node that
 * was not reached looks the segment's key up by itself.
 */
const TRIES_MAX = 5;
const SEALS_MAX = 64;

export function tickSeals(p: Partition, now: number, out: Effect[]): void {
  if (p.seals.length === 0) return;
  const { controlCallTimeoutMs } = p.options.timers;
  p.seals = p.seals.filter((s) => now < s.deadlineMs || s.tries < TRIES_MAX).slice(-SEALS_MAX);
  for (const s of p.seals) {
    if (now < s.deadlineMs) continue;
    s.tries++;
    s.deadlineMs = now + controlCallTimeoutMs;
    const request = { partition: p.options.partition, segment: s.segment, end: s.end, epoch: s.epoch };
    s.call = control(p, s.replica, { kind: "seal", request }, controlCallTimeoutMs, out);
  }
}

/** True when the answer belonged to a seal. */
export function onSealAnswer(p: Partition, call: number, result: ControlAnswer, now: number, out: Effect[]): boolean {
  const at = p.seals.findIndex((s) => s.call === call);
  const seal = p.seals[at];
  if (seal === undefined) return false;
  if (result.kind === "seal" && result.answer.code === 0) {
    p.seals.splice(at, 1);
    return true;
  }
  const code = result.kind === "seal" ? errorCodeOf(result.answer.code) : undefined;
  if (code === undefined) {
    seal.deadlineMs = now + p.options.timers.metadataRetryMs * 2 ** seal.tries;
    return true;
  }
  p.seals.splice(at, 1);
  // A newer owner has fenced the copy: it seals it itself. Anything but that is looked at by a person.
  if (code === "CORRUPT_SEGMENT") alarm(out, "sealRefused", `${seal.replica.node} is sealed at another end than ${seal.end}`);
  return true;
}
