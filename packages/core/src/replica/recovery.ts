import { errorNumber, partitionKey, segmentKey } from "../model/index.ts";
import type { ErrorCode } from "../model/index.ts";
import type { RebuildRequest, RecoveryAppendRequest, RecoveryReadRequest } from "./api.ts";
import { checkRunOf } from "./append.ts";
import { checkSnapshot, isStale, refusal, SUCCESS } from "./epoch-check.ts";
import type { ControlAnswer } from "./input.ts";
import { NOBODY, record } from "./outbox.ts";
import type { Out } from "./outbox.ts";
import type { ReplicaState, Segment } from "./state.ts";
import { isFull } from "./state.ts";

const find = (state: ReplicaState, r: { readonly partition: RebuildRequest["partition"]; readonly segment: RebuildRequest["segment"] }) => {
  const p = state.partitions.get(partitionKey(r.partition));
  return { p, s: p?.segments.get(segmentKey(r.segment)) };
};

/** RecoveryAppend(s, e', base, ...): only the recoverer whose fence is the newest, or the copier of a rebuild. */
export function onRecoveryAppend(state: ReplicaState, r: RecoveryAppendRequest, nowMs: number, out: Out): ControlAnswer {
  const { p, s } = find(state, r);
  const refused = (code: ErrorCode, message: string): ControlAnswer => ({
    op: "recovery-append",
    ...refusal(code, message),
    last: s?.durableLast ?? -1,
    chainHash: s?.chain?.hex() ?? "",
  });
  if (s === undefined || p === undefined || s.status === "DELETED") return refused("UNKNOWN_SEGMENT", "no such segment");
  if (state.failed || s.status === "FAILED") return refused("IO_FAILED", "the copy has failed");
  const why = mayRecover(state, s, r.epoch, p.maxEpoch);
  if (why !== undefined) return refused(why, `the segment is ${s.status}, fenced by ${s.fencedBy}; highest epoch ${p.maxEpoch}`);
  if (s.base !== undefined && s.base !== r.base) return refused("INVALID_ARGUMENT", `the segment starts at ${s.base}`);
  if (s.base === undefined && r.firstOffset !== r.base) return refused("APPEND_GAP", "the first batch must start at the base");
  if (s.status === "REBUILD" && s.end !== undefined && r.lastOffset > s.end)
    return refused("INVALID_ARGUMENT", `the rebuild ends at ${s.end}`);
  s.heardMs = nowMs;
  const from = s.base === undefined ? 0 : checkRunOf(state, s, r.payload, r.firstOffset, r.lastOffset, s.id.epoch);
  if (typeof from !== "number") {
    if (from === "CORRUPT_SEGMENT")
      out.push({ kind: "alarm", segmentNumber: s.number, message: "recovery brings batches that differ from what is stored" });
    return refused(from, `${from} at ${r.firstOffset}`);
  }
  if (from < r.payload.length) {
    record(
      state,
      {
        kind: "append",
        segmentNumber: s.number,
        epoch: r.epoch,
        firstOffset: s.base === undefined ? r.firstOffset : s.last + 1,
        lastOffset: r.lastOffset,
        lac: s.lac,
        appendMs: nowMs,
        recovery: true,
        payload: from === 0 ? r.payload : r.payload.subarray(from),
      },
      out,
    );
    if (state.mutants.M9 === true) s.durableLast = s.last;
    else state.appends.push({ sequence: state.sequence, origin: NOBODY, segment: s, last: s.last });
  }
  return { op: "recovery-append", ...SUCCESS, last: s.last, chainHash: s.chain?.hex() ?? "" };
}

function mayRecover(state: ReplicaState, s: Segment, epoch: number, maxEpoch: number): ErrorCode | undefined {
  // Repair of a sealed segment: the revision of its key decides, not an epoch.
  if (s.status === "REBUILD" && s.rebuildEpoch === undefined) return undefined;
  const isNewest = state.mutants.M16 === true ? epoch + 1 >= maxEpoch : epoch === maxEpoch;
  if (!isNewest) return "STALE_EPOCH";
  if (s.status === "REBUILD") return s.rebuildEpoch === epoch ? undefined : "STALE_EPOCH";
  if (s.status !== "FENCED" && s.status !== "FENCED_EMPTY") return "SEGMENT_FENCED";
  return s.fencedBy === epoch ? undefined : "SEGMENT_FENCED";
}

/** Rebuild(s, p, base, end, keyRevision | e'): starts a whole new copy; it counts for nothing until it is complete. */
export function onRebuild(state: ReplicaState, r: RebuildRequest, nowMs: number, out: Out): ControlAnswer {
  const { p, s } = find(state, r);
  const refused = (code: ErrorCode, message: string): ControlAnswer => ({
    op: "rebuild",
    ...refusal(code, message),
    segmentNumber: s?.number ?? 0,
  });
  if (r.incarnation !== state.options.incarnation) return refused("WRONG_INCARNATION", "the node was formatted anew");
  if ((r.epoch === undefined) === (r.keyRevision === undefined)) return refused("INVALID_ARGUMENT", "either an epoch or a key revision");
  if (r.end < r.base - 1) return refused("INVALID_ARGUMENT", "the end lies before the base");
  const badSnapshot = checkSnapshot(state, r.producers);
  if (badSnapshot !== undefined) return refused("INVALID_ARGUMENT", badSnapshot);
  if (r.epoch !== undefined && isStale(state, r.epoch, p)) return refused("STALE_EPOCH", `epoch ${p?.maxEpoch ?? 0} was seen`);
  if (state.failed) return refused("IO_FAILED", "the journal has failed");
  if (s !== undefined) {
    const same =
      s.status === "REBUILD" && s.end === r.end && s.base === r.base && s.rebuildEpoch === r.epoch && s.keyRevision === r.keyRevision;
    // The answer that said so was lost: the copy is complete, and what is sent again is found to be there.
    const isDone = s.status === "FENCED" && r.epoch !== undefined && s.rebuildEpoch === r.epoch && s.base === r.base && s.last === r.end;
    if (same || isDone) return { op: "rebuild", ...SUCCESS, segmentNumber: s.number };
    if (s.status === "REBUILD" && r.keyRevision !== undefined && s.keyRevision !== undefined && r.keyRevision < s.keyRevision)
      return refused("STALE_EPOCH", "a newer revision of the segment's key ordered this copy");
    // Copies go to nodes outside of the set alone. What such a node has was left by a creation whose answer came too late, or by a recoverer
    // who died before he published it: it never counted, it is a prefix, and without it the partition would wait for the set's dead member.
    const isLeft =
      r.epoch !== undefined &&
      ((s.status === "OPEN" && s.id.epoch < r.epoch) || (s.status === "FENCED" && s.rebuildEpoch !== r.epoch && s.fencedBy < r.epoch));
    const startsOver =
      isLeft ||
      s.status === "REBUILD" ||
      s.status === "FENCED_EMPTY" ||
      (s.status === "INCOMPLETE" && r.keyRevision !== undefined && s.end === r.end);
    if (!startsOver || (s.base !== undefined && s.base !== r.base) || s.last > r.end)
      return refused("SEGMENT_EXISTS", `the segment is ${s.status} here`);
  }
  if (s === undefined && isFull(state)) return refused("OVERLOADED", `${state.byNumber.size} segments are here`);
  const number = s?.number ?? state.nextSegmentNumber;
  record(
    state,
    {
      kind: "rebuild",
      segmentNumber: number,
      partition: r.partition,
      segment: r.segment,
      base: r.base,
      end: r.end,
      epoch: r.epoch,
      keyRevision: r.keyRevision,
      producers: r.producers,
    },
    out,
  );
  const made = state.byNumber.get(number);
  if (made !== undefined) made.heardMs = nowMs;
  return { op: "rebuild", ...SUCCESS, segmentNumber: number };
}

/** What a RecoveryRead may return: everything up to `upTo`, also above the committed mark. */
export function recoveryReadLimit(
  state: ReplicaState,
  r: RecoveryReadRequest,
): { readonly code: number; readonly message?: string; readonly segment?: Segment; readonly upTo: number } {
  const { p, s } = find(state, r);
  const refused = (code: ErrorCode, message: string) => ({ code: errorNumber(code), message, upTo: -1 });
  if (s === undefined || p === undefined || s.status === "DELETED") return refused("UNKNOWN_SEGMENT", "no such segment");
  if (state.failed || s.status === "FAILED") return refused("IO_FAILED", "the copy has failed");
  if (s.status === "SEALED") return { code: 0, segment: s, upTo: s.end ?? s.last };
  if (r.epoch !== p.maxEpoch) return refused("STALE_EPOCH", `highest epoch ${p.maxEpoch}`);
  if ((s.status !== "FENCED" && s.status !== "FENCED_EMPTY") || s.fencedBy !== r.epoch)
    return refused("READ_UNAVAILABLE", `the segment is ${s.status}, fenced by ${s.fencedBy}`);
  return { code: 0, segment: s, upTo: s.durableLast };
}
