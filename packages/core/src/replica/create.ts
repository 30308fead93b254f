import { partitionKey, segmentKey } from "../model/index.ts";
import type { CreateRequest } from "./api.ts";
import { checkSnapshot, isStale, refusal, SUCCESS } from "./epoch-check.ts";
import type { ControlAnswer } from "./input.ts";
import { record } from "./outbox.ts";
import type { Out } from "./outbox.ts";
import type { ReplicaState } from "./state.ts";
import { isFull } from "./state.ts";

/** Create(s, p, e, base, inc, nonce). The only way in which a segment to write comes into being. */
export function onCreate(state: ReplicaState, r: CreateRequest, nowMs: number, out: Out): ControlAnswer {
  const refused = (code: Parameters<typeof refusal>[0], message: string): ControlAnswer => ({
    op: "create",
    ...refusal(code, message),
    segmentNumber: 0,
  });
  if (r.incarnation !== state.options.incarnation) return refused("WRONG_INCARNATION", "the node was formatted anew");
  const badSnapshot = checkSnapshot(state, r.producers);
  if (badSnapshot !== undefined) return refused("INVALID_ARGUMENT", badSnapshot);
  const p = state.partitions.get(partitionKey(r.partition));
  const e = r.segment.epoch;
  if (isStale(state, e, p)) return refused("STALE_EPOCH", `epoch ${p?.maxEpoch ?? 0} was seen`);
  if (state.failed) return refused("IO_FAILED", "the journal has failed");
  if (state.diskFull) return refused("DISK_FULL", "the disk is above its write limit");
  const known = p?.segments.get(segmentKey(r.segment));
  if (known?.status === "FENCED_EMPTY" && known.fencedBy === e) {
    record(state, createEntry(r, known.number), out);
    return { op: "create", ...SUCCESS, segmentNumber: known.number };
  }
  if (known !== undefined) {
    if (known.status === "OPEN" && known.nonce === r.nonce) return { op: "create", ...SUCCESS, segmentNumber: known.number };
    return refused("SEGMENT_EXISTS", `the segment is ${known.status} here`);
  }
  if (isFull(state)) return refused("OVERLOADED", `${state.byNumber.size} segments are here`);
  const number = state.nextSegmentNumber;
  record(state, createEntry(r, number), out);
  const s = state.byNumber.get(number);
  if (s !== undefined) s.heardMs = nowMs;
  return { op: "create", ...SUCCESS, segmentNumber: number };
}

const createEntry = (r: CreateRequest, segmentNumber: number) =>
  ({
    kind: "create",
    segmentNumber,
    partition: r.partition,
    segment: r.segment,
    base: r.base,
    nonce: r.nonce,
    producers: r.producers,
  }) as const;
