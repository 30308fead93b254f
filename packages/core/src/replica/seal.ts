import { partitionKey, segmentKey } from "../model/index.ts";
import type { ErrorCode } from "../model/index.ts";
import type { ReplicaStatus, SealRequest } from "./api.ts";
import { isStale, refusal, SUCCESS } from "./epoch-check.ts";
import type { ControlAnswer, DeleteRequest } from "./input.ts";
import { record } from "./outbox.ts";
import type { Out } from "./outbox.ts";
import type { ReplicaState, Segment } from "./state.ts";
import { statusOf } from "./state.ts";

/** Seal(s, end, e): the transaction that published `end` is known to have committed. Cuts what lies above it, for good. */
export function onSeal(state: ReplicaState, r: SealRequest, out: Out): ControlAnswer {
  const p = state.partitions.get(partitionKey(r.partition));
  const s = p?.segments.get(segmentKey(r.segment));
  const answer = (code: ErrorCode | undefined, status: ReplicaStatus, message = ""): ControlAnswer =>
    code === undefined ? { op: "seal", ...SUCCESS, status } : { op: "seal", ...refusal(code, message), status };
  if (s === undefined || s.status === "DELETED") return answer("UNKNOWN_SEGMENT", s?.status ?? "FENCED_EMPTY", "no such segment");
  if (isStale(state, r.epoch, p)) return answer("STALE_EPOCH", statusOf(state, s), `epoch ${p?.maxEpoch ?? 0} was seen`);
  if (statusOf(state, s) === "FAILED") return answer("IO_FAILED", "FAILED", "the copy has failed");
  if (s.status === "SEALED" || s.status === "INCOMPLETE") {
    if (s.end === r.end) return answer(undefined, s.status);
    out.push({ kind: "alarm", segmentNumber: s.number, message: `sealed at ${s.end ?? -1}, asked to seal at ${r.end}` });
    return answer("CORRUPT_SEGMENT", s.status, `the segment is sealed at ${s.end ?? -1}`);
  }
  if (s.status === "REBUILD") return answer("SEGMENT_INCOMPLETE", s.status, "the copy is being rebuilt");
  if (s.base !== undefined && r.end < s.base - 1) return answer("INVALID_ARGUMENT", s.status, `the segment starts at ${s.base}`);
  if (splitsBatch(s, r.end)) {
    out.push({ kind: "alarm", segmentNumber: s.number, message: `asked to seal at ${r.end}, within a batch` });
    return answer("CORRUPT_SEGMENT", s.status, "the end lies within a batch");
  }
  record(state, { kind: "seal", segmentNumber: s.number, end: r.end, epoch: r.epoch }, out);
  return answer(undefined, s.status);
}

/** An end is always the end of a batch; below what the window remembers it cannot be checked. */
const splitsBatch = (s: Segment, end: number): boolean => end < s.last && end >= s.window.foldedTo && !s.window.endsBatch(end);

/** Drops the local copy and leaves a tombstone. The caller has read the segment's key (cause `released`) or made the read of the drop rule (cause `orphan`). */
export function onDelete(state: ReplicaState, r: DeleteRequest, dropped: number[], out: Out): ControlAnswer {
  const s = state.partitions.get(partitionKey(r.partition))?.segments.get(segmentKey(r.segment));
  if (s === undefined || s.status === "DELETED") return { op: "delete", ...SUCCESS };
  if (state.failed) return { op: "delete", ...refusal("IO_FAILED", "the journal has failed") };
  if (r.cause === "released" && (s.status === "OPEN" || s.status === "FENCED" || s.status === "FENCED_EMPTY"))
    return { op: "delete", ...refusal("INVALID_ARGUMENT", `the segment is ${s.status} here: it was never sealed`) };
  if (r.cause === "orphan" && r.stateEpoch <= s.madeBy && state.mutants.M30 !== true)
    return { op: "delete", ...refusal("INVALID_ARGUMENT", `epoch ${s.madeBy}, which made this copy, may still publish it`) };
  record(state, { kind: "delete", segmentNumber: s.number }, out);
  dropped.push(s.number);
  return { op: "delete", ...SUCCESS };
}
