import { EMPTY_CHAIN_HASH } from "../log/index.ts";
import { errorCodeOf } from "../model/index.ts";
import type { SegmentRecord } from "../model/index.ts";
import { createProducers, decodeProducers, truncateProducers } from "../producer/index.ts";
import type { ProducerTable } from "../producer/index.ts";
import type { FenceAnswer } from "../replica/index.ts";
import { bringTo, onCopyAnswer, tickCopies } from "./copy.ts";
import type { Effect } from "./effect.ts";
import type { ControlAnswer } from "./input.ts";
import { alarm, control, emptyPipeline, epochOf, fenceQuorum, log, nextCall, stepDown, wallAt } from "./machine.ts";
import { startOpening } from "./opening.ts";
import { blocked, distrust, fenceAll, holdersOf } from "./votes.ts";
import type { Partition, Recovering, Recovery, RecoveryMember } from "./state.ts";

/**
 * R1 to R5: fence the tail's replica set as A3 read it, choose the end from a fence quorum of trusted answers, bring it to two copies.
 *
 *   fence ─► (verify: hashes agree on the common prefix) ─► (append: the shorter copy is brought to the end) ─► open
 *     ▲            │ a copy that cannot be read or differs is no vote any more
 *     └────────────┘                        (rebuild: a whole new copy where the set cannot give two)
 *
 * Nothing of it is visible to a reader before the transaction of A6 publishes end and replica set together.
 */
const HEX16 = /^[0-9a-f]{16}$/;

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
  const producers = createProducers();
  producers.forgotten = named !== undefined;
  startOpening(p, p.logStart, producers, undefined, [], now, out);
}

function startRecovery(p: Partition, tail: SegmentRecord, now: number, out: Effect[]): void {
  const recovery: Recovery = {
    tail,
    members: tail.replicas.map((replica) => ({
      replica,
      call: 0,
      verdict: "unknown",
      answer: undefined,
      deadlineMs: 0,
      last: tail.base - 1,
      agrees: false,
      copied: false,
    })),
    step: tail.phase === "OPEN" ? "fence" : "sealedTail",
    round: 0,
    graceUntilMs: 0,
    retryAtMs: 0,
    end: tail.end ?? tail.base - 1,
    reference: -1,
    task: undefined,
    rebuild: undefined,
    rebuilt: undefined,
    producersCall: 0,
    alarmed: false,
    startedMs: now,
  };
  p.role = { kind: "recovering", recovery };
  if (recovery.step === "fence") return fenceAll(p, recovery, now, out);
  if (tail.phase !== "LOCAL_DELETED" && tail.phase !== "LOCAL_DELETING" && tail.replicas.length > 0) return fenceAll(p, recovery, now, out);
  readObject(p, recovery, now, out);
}

/** R2: what counts as a vote. Everything else is unknown, never "nothing there". */
const isVote = (a: FenceAnswer): boolean =>
  a.code === 0 && a.trusted && a.status !== "FAILED" && a.status !== "DELETED" && a.status !== "REBUILD" && a.status !== "INCOMPLETE";

/** True when the answer belonged to the recovery. */
export function onRecoveryAnswer(p: Partition, role: Recovering, call: number, result: ControlAnswer, now: number, out: Effect[]): boolean {
  const { recovery } = role;
  const member = recovery.members.find((m) => m.call === call && m.verdict !== "trusted");
  if (member === undefined) return onCopyAnswer(p, recovery, call, result, now, out);
  // A late answer counts too: a node that is fenced stays fenced.
  member.call = 0;
  if (result.kind === "fence") {
    const { answer } = result;
    if (answer.code !== 0 && errorCodeOf(answer.code) === "STALE_EPOCH") {
      stepDown(p, "stale", out);
      return true;
    }
    member.answer = answer;
    const empty = answer.status === "FENCED_EMPTY" || answer.last < recovery.tail.base;
    const hashed = empty || recovery.step === "sealedTail" || HEX16.test(answer.chainHash);
    member.verdict = isVote(answer) && hashed ? "trusted" : "unknown";
    member.last = empty ? recovery.tail.base - 1 : answer.last;
  } else member.verdict = "unknown";
  consider(p, recovery, now, out);
  return true;
}

/** R2 and R3 once enough has been heard. */
function consider(p: Partition, r: Recovery, now: number, out: Effect[]): void {
  if (r.step === "sealedTail") return considerSealed(p, r, now, out);
  if (r.step !== "fence") return;
  const trusted = r.members.filter((m) => m.verdict === "trusted");
  const asked = r.members.filter((m) => m.verdict === "asked");
  const needed = p.mutants.M5 ? 1 : fenceQuorum(r.members.length);
  if (trusted.length < needed) {
    if (asked.length === 0 && r.retryAtMs === 0) blocked(p, r, `${trusted.length} of ${needed} trusted answers`, now, out);
    return;
  }
  if (asked.length > 0 && !p.mutants.M5) {
    // The rest is waited for a moment: a copy that answers now need not be repaired later.
    if (r.graceUntilMs === 0) r.graceUntilMs = now + p.options.timers.lacFlushMs;
    if (now < r.graceUntilMs) return;
  }
  chooseEnd(p, r, trusted, now, out);
}

/** What the last answer has made possible. */
export function advanceRecovery(p: Partition, role: Recovering, now: number, out: Effect[]): void {
  const r = role.recovery;
  if (r.step === "decide") {
    r.step = "fence";
    const trusted = r.members.filter((m) => m.verdict === "trusted");
    if (trusted.length >= fenceQuorum(r.members.length)) chooseEnd(p, r, trusted, now, out);
    else blocked(p, r, "a copy was lost during recovery", now, out);
  }
  if (r.step === "copied") recovered(p, r, now, out);
}

/** R3. */
function chooseEnd(p: Partition, r: Recovery, trusted: readonly RecoveryMember[], now: number, out: Effect[]): void {
  const sealed = trusted.find((m) => m.answer?.status === "SEALED");
  const longest = trusted.reduce((a, m) => (m.last > a.last ? m : a));
  const reference = sealed ?? longest;
  r.end = reference.last;
  r.reference = r.members.indexOf(reference);
  log(p, out, "tail.end-chosen", { end: r.end, base: r.tail.base, by: reference.replica.node, answers: trusted.length });
  for (const m of r.members) {
    m.agrees = m === reference;
    if (m === reference || m.verdict !== "trusted") continue;
    if (m.last > r.end) continue; // beside a sealed copy: a suffix that a seal cut off elsewhere; it is cut here too
    else if (m.last < r.tail.base) m.agrees = true;
    else if (m.last === r.end) {
      if (m.answer?.chainHash === reference.answer?.chainHash) m.agrees = true;
      else return distrust(r, m, out);
    }
  }
  bringTo(p, r, now, out);
}

/** R4 is done: the sealed record is private until A6 publishes it. */
function recovered(p: Partition, r: Recovery, now: number, out: Effect[]): void {
  const extra = r.rebuilt === undefined ? [] : [r.rebuilt];
  const holders = p.mutants.M4 ? r.members.filter((m) => m.verdict === "trusted") : [...holdersOf(r), ...extra];
  const missing = r.members.filter((m) => !holders.includes(m)).map((m) => m.replica);
  const answer = r.members[r.reference]?.answer;
  const sealed: SegmentRecord = {
    ...r.tail,
    end: r.end,
    phase: "SEALED",
    replicas: holders.map((m) => m.replica),
    ...(missing.length === 0 ? {} : { missing }),
    chainHash: r.end < r.tail.base ? EMPTY_CHAIN_HASH : (answer?.chainHash ?? EMPTY_CHAIN_HASH),
    sizeBytes: r.end < r.tail.base ? 0 : (answer?.sizeBytes ?? 0),
    firstAppendMs: answer?.firstAppendMs ?? 0,
    lastAppendMs: answer?.lastAppendMs ?? 0,
    maxTimestampMs: answer?.maxTimestampMs ?? 0,
    sealedAtMs: wallAt(p, now),
  };
  log(p, out, "tail.recovered", { end: r.end, copies: holders.length, missing: missing.length });
  const producers = producersAt(p, r, out);
  const sealTo = [...sealed.replicas, ...missing];
  startOpening(p, r.end + 1, producers, sealed, sealTo, now, out);
}

/** A7: the producers as of the end, from a copy that ends there and knows them. */
function producersAt(p: Partition, r: Recovery, out: Effect[]): ProducerTable {
  const known = [r.members[r.reference], ...r.members].filter(
    (m) => m?.verdict === "trusted" && m.answer !== undefined && m.answer.producers.length > 0,
  );
  const exact = known.find((m) => m?.answer?.last === r.end || (m?.answer !== undefined && m.last === r.end)) ?? known[0];
  return tableOf(p, exact?.answer?.producers, r.end, out);
}
function tableOf(p: Partition, bytes: Uint8Array | undefined, end: number, out: Effect[]): ProducerTable {
  if (bytes !== undefined && bytes.length > 0)
    try {
      const table = decodeProducers(bytes);
      truncateProducers(table, end);
      return table;
    } catch (e) {
      alarm(out, "corrupt", e instanceof Error ? e.message : "producer snapshot");
    }
  log(p, out, "producers.unknown", { end });
  const unknown = createProducers();
  unknown.forgotten = true;
  return unknown;
}

/**
 * The tail is sealed already (a planned move, or a take-over that died after A6 of an earlier one): nothing to fence or to copy, its end
 * stands in
 * the key. Only the producers are asked for, by a fence that changes nothing of a sealed copy. A copy that still has more than the end
 * never
 * got its Seal: it gets it now.
 */
function considerSealed(p: Partition, r: Recovery, now: number, out: Effect[]): void {
  const exact = r.members.find((m) => m.verdict === "trusted" && m.last === r.end && (m.answer?.producers.length ?? 0) > 0);
  if (exact !== undefined) {
    const producers = tableOf(p, exact.answer?.producers, r.end, out);
    return startOpening(p, r.end + 1, producers, undefined, [], now, out);
  }
  if (r.members.some((m) => m.verdict === "asked") || r.retryAtMs !== 0) return;
  for (const m of r.members)
    if (m.verdict === "trusted" && m.last > r.end) {
      const request = { partition: p.options.partition, segment: r.tail.segment, end: r.end, epoch: epochOf(p) };
      control(p, m.replica, { kind: "seal", request }, p.options.timers.controlCallTimeoutMs, out);
      m.verdict = "unknown";
    }
  if (r.tail.object !== undefined && r.round > 1) return readObject(p, r, now, out);
  for (const m of r.members) m.verdict = "unknown";
  blocked(p, r, "no copy of the sealed tail gives its producers", now, out);
}

function readObject(p: Partition, r: Recovery, now: number, out: Effect[]): void {
  const { object } = r.tail;
  if (object === undefined) return blocked(p, r, "the sealed tail has neither copies nor an object", now, out);
  r.producersCall = nextCall(p);
  r.retryAtMs = now + p.options.timers.controlCallTimeoutMs * 2;
  out.push({ kind: "readProducers", call: r.producersCall, object });
}
export function onProducersRead(
  p: Partition,
  role: Recovering,
  call: number,
  bytes: Uint8Array | undefined,
  now: number,
  out: Effect[],
): void {
  const r = role.recovery;
  if (r.producersCall !== call || r.step !== "sealedTail") return;
  r.producersCall = 0;
  if (bytes === undefined) return blocked(p, r, "the object of the sealed tail cannot be read", now, out);
  startOpening(p, r.end + 1, tableOf(p, bytes, r.end, out), undefined, [], now, out);
}

export function tickRecovery(p: Partition, role: Recovering, now: number, out: Effect[]): void {
  const r = role.recovery;
  if (r.step !== "fence" && r.step !== "sealedTail") return tickCopies(p, r, now, out);
  if (r.retryAtMs !== 0 && now >= r.retryAtMs) {
    r.producersCall = 0;
    if (r.step === "sealedTail" && (r.members.length === 0 || r.tail.phase === "LOCAL_DELETED")) return readObject(p, r, now, out);
    return fenceAll(p, r, now, out);
  }
  let expired = false;
  for (const m of r.members)
    if (m.verdict === "asked" && now >= m.deadlineMs) {
      m.verdict = "unknown";
      expired = true;
    }
  if (expired || (r.graceUntilMs !== 0 && now >= r.graceUntilMs)) consider(p, r, now, out);
}
