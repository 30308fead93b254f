import { errorCodeOf } from "../model/index.ts";
import type { ErrorCode, SegmentId } from "../model/index.ts";
import { chooseReplicas } from "../placement/replicas.ts";
import type { Effect, SuspectReason } from "./effect.ts";
import type { CandidateNode, ControlAnswer } from "./input.ts";
import { alarm, avoid, control, draw, epochOf, isGood, log, nextNonce, stepDown } from "./machine.ts";
import { QUORUM } from "./state.ts";
import type { Creation, Partition } from "./state.ts";

/**
 * A5 and F3: the next segment is created on three nodes; one that fails is replaced; with no third node alive two will do (unless the topic
 * demands three). Nothing hangs on copies that end up unused: they are dropped by the node's own rule.
 */
const COPIES = 3;
/** Between two attempts, times `metadataRetryMs`: doubled from the first to the largest, begun anew when the nodes change. */
const RETRY_FACTOR_FIRST = 2;
const RETRY_FACTOR_LARGEST = 16;
type Member = Creation["members"][number];

export function startCreation(p: Partition, base: number, producers: Uint8Array, now: number, out: Effect[]): void {
  const segment: SegmentId = { epoch: epochOf(p), k: p.nextK++ };
  const creation: Creation = {
    segment,
    base,
    nonce: nextNonce(p),
    producers,
    members: [],
    avoid: new Set(),
    starved: false,
    done: false,
    retryAtMs: 0,
    retryMs: firstRetryMs(p),
    attempts: 0,
    cause: undefined,
  };
  p.creation = creation;
  advance(p, creation, now, out);
}

const firstRetryMs = (p: Partition): number => RETRY_FACTOR_FIRST * p.options.timers.metadataRetryMs;
const wanted = (p: Partition): number => (p.config.strictThreeCopies ? COPIES : QUORUM);

/** Nodes to choose from: the good ones; when those are too few, also suspects, since a suspect may be merely slow, or a link just about to be there. */
function pool(p: Partition, creation: Creation, have: number, now: number): CandidateNode[] {
  const usable = p.nodes.filter((n) => !creation.avoid.has(n.node) && !creation.members.some((m) => m.replica.node === n.node));
  const good = usable.filter((n) => isGood(p, n, now));
  return have + good.length >= wanted(p) ? good : usable;
}
/** How many nodes a new segment could have now without falling back on suspects. */
export function goodNodes(p: Partition, now: number): number {
  let n = 0;
  for (const node of p.nodes) if (isGood(p, node, now)) n++;
  return n;
}
export const nodesWanted = wanted;

function advance(p: Partition, creation: Creation, now: number, out: Effect[]): void {
  const have = creation.members.filter((m) => m.status !== "failed");
  const candidates = pool(p, creation, have.length, now);
  const chosen = chooseReplicas(candidates, {
    count: COPIES - have.length,
    have: p.nodes.filter((n) => have.some((m) => m.replica.node === n.node)),
    random: () => draw(p),
  });
  for (const node of chosen) ask(p, creation, node, now, out);
  const made = creation.members.filter((m) => m.status === "made").length;
  const asked = creation.members.filter((m) => m.status === "asked").length;
  if (asked > 0) return;
  if (made >= wanted(p)) {
    creation.done = true;
    log(p, out, "segment.created", { base: creation.base, k: creation.segment.k, copies: made });
    return;
  }
  starve(p, creation, made, now, out);
}
/** Nobody is left to ask. Only what is new is told: the attempts go on for as long as the disks are full. */
function starve(p: Partition, creation: Creation, made: number, now: number, out: Effect[]): void {
  const full = creation.members.filter((m) => m.full).length;
  const cause = made + full >= wanted(p) ? "DISK_FULL" : "NOT_ENOUGH_REPLICAS";
  const found = `${made} of ${wanted(p)} storage nodes for a new segment`;
  if (cause !== creation.cause)
    if (cause === "DISK_FULL") alarm(out, "diskFull", `${found}: ${full} have no room`);
    else alarm(out, "notEnoughNodes", found);
  creation.cause = cause;
  creation.starved = true;
  creation.retryAtMs = now + creation.retryMs;
  creation.retryMs = Math.min(2 * creation.retryMs, RETRY_FACTOR_LARGEST * p.options.timers.metadataRetryMs);
}

function ask(p: Partition, creation: Creation, node: CandidateNode, now: number, out: Effect[]): void {
  const { appendTimeoutMs } = p.options.timers;
  const replica = { node: node.node, incarnation: node.incarnation };
  const request = {
    partition: p.options.partition,
    segment: creation.segment,
    base: creation.base,
    incarnation: node.incarnation,
    nonce: creation.nonce,
    producers: creation.producers,
  };
  const call = control(p, replica, { kind: "create", request }, appendTimeoutMs, out);
  creation.members.push({ replica, call, status: "asked", segmentNumber: 0, deadlineMs: now + appendTimeoutMs, full: false });
}

/** True when the answer belonged to the creation under way. */
export function onCreateAnswer(p: Partition, call: number, result: ControlAnswer, now: number, out: Effect[]): boolean {
  const { creation } = p;
  const member = creation?.members.find((m) => m.call === call && m.status === "asked");
  if (creation === undefined || member === undefined || creation.done) return false;
  if (result.kind === "create" && result.answer.code === 0) {
    member.status = "made";
    member.segmentNumber = result.answer.segmentNumber;
  } else {
    const code = result.kind === "create" ? errorCodeOf(result.answer.code) : undefined;
    if (code === "STALE_EPOCH") {
      stepDown(p, "stale", out);
      return true;
    }
    const reason = result.kind === "failed" ? result.failure : ((code && reasonOf[code]) ?? "refused");
    failed(p, creation, member, reason, now, out);
  }
  advance(p, creation, now, out);
  return true;
}
const reasonOf: Partial<Record<ErrorCode, SuspectReason>> = { WRONG_INCARNATION: "incarnation", IO_FAILED: "io", DISK_FULL: "full" };
function failed(p: Partition, creation: Creation, member: Member, reason: SuspectReason, now: number, out: Effect[]): void {
  member.status = "failed";
  member.full = reason === "full";
  creation.avoid.add(member.replica.node);
  avoid(p, member.replica.node, now);
  out.push({ kind: "reportSuspect", node: member.replica.node, reason });
}

export function tickCreation(p: Partition, now: number, out: Effect[]): void {
  const { creation } = p;
  if (creation === undefined || creation.done) return;
  let changed = false;
  for (const member of creation.members)
    if (member.status === "asked" && now >= member.deadlineMs) {
      failed(p, creation, member, "timeout", now, out);
      changed = true;
    }
  if (creation.starved && now >= creation.retryAtMs) retry(creation);
  else if (!changed) return;
  advance(p, creation, now, out);
}
/** All over, with every node allowed again: a create with the same nonce succeeds where it had succeeded. */
function retry(creation: Creation): void {
  creation.attempts++;
  creation.starved = false;
  creation.avoid.clear();
  const kept = creation.members.filter((m) => m.status !== "failed");
  creation.members.splice(0, creation.members.length, ...kept);
}
/** New nodes may end a wait for nodes. */
export function onNodesChanged(p: Partition, now: number, out: Effect[]): void {
  const { creation } = p;
  if (creation === undefined || creation.done || !creation.starved) return;
  creation.retryMs = firstRetryMs(p);
  retry(creation);
  advance(p, creation, now, out);
}
