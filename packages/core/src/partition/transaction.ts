import type { Effect } from "./effect.ts";
import type { MetaGotInput, MetaTxnInput, Register } from "./input.ts";
import { log, nextCall, stepDown } from "./machine.ts";
import type { Partition, PendingTxn, TxnPurpose } from "./state.ts";

/**
 * Writing the register, and settling what became of a write whose answer was lost: reading is not enough, since the write may still be
 * applied after the read. The identical transaction is sent again until it applies or its compare fails; then the nonce in the register
 * says whose write is there.
 *
 *   applied ───────────────────────────────► done
 *   compare failed, my nonce ──────────────► done (an earlier sending was applied)
 *   compare failed, my register unchanged ─► send it with the revision that is there
 *   compare failed, anything else ─────────► A3: look again; else: another owner, step down
 *   unknown, unavailable ──────────────────► send the identical one again
 */
const BACKOFF_MAX = 10;

export function submit(p: Partition, purpose: TxnPurpose, body: PendingTxn["body"], now: number, out: Effect[]): void {
  const txn: PendingTxn = { purpose, body, call: 0, deadlineMs: 0, retryAtMs: 0, attempts: 0, settleCall: 0 };
  p.txn = txn;
  send(p, txn, now, out);
}
function send(p: Partition, txn: PendingTxn, now: number, out: Effect[]): void {
  txn.call = nextCall(p);
  txn.attempts++;
  txn.retryAtMs = 0;
  // The host's own time-out comes first; this one is for a host that lost the call.
  txn.deadlineMs = now + 2 * p.options.timers.metadataCallTimeoutMs;
  out.push({ kind: "metaTxn", call: txn.call, ...txn.body });
}

export function onMetaTxn(p: Partition, input: MetaTxnInput, now: number, out: Effect[]): void {
  const { txn } = p;
  if (txn === undefined || txn.call !== input.call) return;
  if (input.outcome === "unknown" || input.outcome === "unavailable") return unsettled(p, txn, input.outcome, now, out);
  const register = input.register ?? { state: undefined, modRevision: 0 };
  if (input.outcome === "applied" || register.state?.nonce === txn.body.state.nonce)
    return done(p, txn, { state: txn.body.state, modRevision: register.modRevision }, input);
  p.txn = undefined;
  if (txn.purpose === "claim") return post(p, "claimLost");
  const mine = p.register?.state;
  if (mine !== undefined && register.state?.nonce === mine.nonce) {
    p.register = { state: mine, modRevision: register.modRevision };
    return submit(p, txn.purpose, { ...txn.body, expectedRevision: register.modRevision }, now, out);
  }
  const gone = register.state === undefined || register.state.phase === "DELETED";
  log(p, out, "partition.superseded", { by: register.state?.epoch ?? -1, purpose: txn.purpose });
  stepDown(p, gone ? "deleted" : "superseded", out);
}

function done(p: Partition, txn: PendingTxn, register: Register, input: MetaTxnInput): void {
  p.txn = undefined;
  p.register = { state: txn.body.state, modRevision: register.modRevision };
  if (input.logStart !== undefined && input.logStart > p.logStart) p.logStart = input.logStart;
  p.settled = { purpose: txn.purpose, segments: txn.body.segments, segment: input.segment };
}
function post(p: Partition, purpose: "claimLost" | "resume"): void {
  p.txn = undefined;
  p.settled = { purpose, segments: [], segment: undefined };
}

function unsettled(p: Partition, txn: PendingTxn, outcome: "unknown" | "unavailable", now: number, out: Effect[]): void {
  log(p, out, "metadata.outcome-unknown", { purpose: txn.purpose, outcome, attempt: txn.attempts });
  if (outcome === "unknown" && p.mutants.M15)
    return done(p, txn, { state: txn.body.state, modRevision: -1 }, { kind: "metaTxnDone", call: txn.call, outcome: "applied" });
  if (outcome === "unknown" && p.mutants.M28) {
    txn.settleCall = nextCall(p);
    out.push({ kind: "metaGet", call: txn.settleCall });
    txn.deadlineMs = now + 2 * p.options.timers.metadataCallTimeoutMs;
    return;
  }
  txn.retryAtMs = now + p.options.timers.metadataRetryMs * Math.min(txn.attempts, BACKOFF_MAX);
}

/** Mutant M28: one read decides. True when the answer was for it. */
export function onSettlingRead(p: Partition, input: MetaGotInput, now: number): boolean {
  const { txn } = p;
  if (txn === undefined || txn.settleCall === 0 || txn.settleCall !== input.call) return false;
  txn.settleCall = 0;
  const { register } = input;
  if (input.outcome === "failed" || register === undefined) txn.retryAtMs = now + p.options.timers.metadataRetryMs;
  else if (register.state?.nonce === txn.body.state.nonce) done(p, txn, register, { kind: "metaTxnDone", call: 0, outcome: "applied" });
  else if (txn.purpose === "claim") post(p, "claimLost");
  else if (txn.purpose === "roll") post(p, "resume");
  else txn.retryAtMs = now;
  return true;
}

export function tickTxn(p: Partition, now: number, out: Effect[]): void {
  const { txn } = p;
  if (txn === undefined) return;
  if (txn.retryAtMs !== 0 ? now >= txn.retryAtMs : now >= txn.deadlineMs) send(p, txn, now, out);
}
