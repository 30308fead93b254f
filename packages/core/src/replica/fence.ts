import { partitionKey, segmentKey } from "../model/index.ts";
import type { FenceRequest, ReplicaStatus } from "./api.ts";
import { applyEntry, producersAtLast } from "./apply.ts";
import { isStale, refusal, SUCCESS } from "./epoch-check.ts";
import type { ControlAnswer } from "./input.ts";
import { record } from "./outbox.ts";
import type { Out } from "./outbox.ts";
import type { ReplicaState, Segment } from "./state.ts";
import { isFull, statusOf } from "./state.ts";

/**
 * Fence(p, s, e', inc): from here on no append of an older epoch completes on this node, on any segment of the partition. The answer leaves when the fence and
 * every append that was queued before it are durable, so what it counts is exactly what can have been answered ok.
 */
export function onFence(state: ReplicaState, r: FenceRequest, nowMs: number, out: Out): ControlAnswer {
  if (r.incarnation !== state.options.incarnation && state.mutants.M26 !== true)
    return voteless(state, undefined, refusal("WRONG_INCARNATION", "the node was formatted anew"));
  const p = state.partitions.get(partitionKey(r.partition));
  const known = p?.segments.get(segmentKey(r.segment));
  if (isStale(state, r.epoch, p)) return voteless(state, known, refusal("STALE_EPOCH", `epoch ${p?.maxEpoch ?? 0} was seen`), p?.maxEpoch);
  if (state.failed) return voteless(state, known, refusal("IO_FAILED", "the journal has failed"), p?.maxEpoch);
  if (known === undefined && isFull(state))
    return voteless(state, known, refusal("OVERLOADED", `${state.byNumber.size} segments are here`), p?.maxEpoch);
  const number = known?.number ?? state.nextSegmentNumber;
  const moves =
    known === undefined ||
    ((known.status === "OPEN" || known.status === "FENCED" || known.status === "FENCED_EMPTY") && known.fencedBy < r.epoch);
  if (moves || p === undefined || p.maxEpoch < r.epoch) {
    const entry = { kind: "fence", segmentNumber: number, partition: r.partition, segment: r.segment, epoch: r.epoch } as const;
    if (state.mutants.M8 === true) applyEntry(state, entry);
    else record(state, entry, out);
  }
  const s = state.byNumber.get(number);
  if (s === undefined) return voteless(state, undefined, refusal("UNKNOWN_SEGMENT", "no such segment"));
  s.heardMs = nowMs;
  return vote(state, s);
}

/** A copy that may be counted. FAILED, REBUILD, INCOMPLETE and DELETED are never trusted; nor is "never created here" once part of the history is unknown. */
export function isTrusted(state: ReplicaState, s: Segment): boolean {
  switch (statusOf(state, s)) {
    case "OPEN":
    case "FENCED":
    case "SEALED":
      return true;
    case "FENCED_EMPTY":
      return !state.damaged;
    default:
      return false;
  }
}

function vote(state: ReplicaState, s: Segment): ControlAnswer {
  const producers = producersAtLast(state, s);
  return {
    op: "fence",
    ...SUCCESS,
    segmentNumber: s.number,
    status: statusOf(state, s),
    trusted: isTrusted(state, s),
    base: s.base,
    last: s.status === "SEALED" ? (s.end ?? s.last) : s.last,
    lac: s.lac,
    chainHash: s.chain?.hex() ?? "",
    producers: producers ?? new Uint8Array(0),
    sizeBytes: s.sizeBytes,
    firstAppendMs: s.firstAppendMs,
    lastAppendMs: s.lastAppendMs,
    maxTimestampMs: s.maxTimestampMs,
    maxEpoch: state.partitions.get(s.partitionKey)?.maxEpoch ?? -1,
  };
}

/** A refusal: no vote, whatever the fields say. */
export function voteless(
  state: ReplicaState,
  s: Segment | undefined,
  why: { readonly code: number; readonly message: string },
  maxEpoch = -1,
): ControlAnswer {
  const status: ReplicaStatus = s === undefined ? "FENCED_EMPTY" : statusOf(state, s);
  return {
    op: "fence",
    ...why,
    segmentNumber: s?.number ?? 0,
    status,
    trusted: false,
    base: s?.base,
    last: s?.durableLast ?? -1,
    lac: s?.lac ?? -1,
    chainHash: "",
    producers: new Uint8Array(0),
    sizeBytes: 0,
    firstAppendMs: 0,
    lastAppendMs: 0,
    maxTimestampMs: -1,
    maxEpoch,
  };
}
