import { errorNumber, partitionKey, segmentKey } from "../model/index.ts";
import type { ReadRequest } from "./api.ts";
import type { ReplicaState, Segment } from "./state.ts";

export interface ReadPermission {
  /** 0, or why this copy cannot answer. */
  readonly code: number;
  readonly segment?: Segment;
  readonly sealed: boolean;
  /** Highest offset that may be served; base - 1 when none. */
  readonly limit: number;
}

/**
 * Read(s, from, hw, hwEpoch): a sealed segment up to its end; any other up to what is known to be committed *in its own epoch*. A mark of another epoch says
 * nothing about this segment: the successor may have given this suffix up and committed other records at the same offsets.
 */
export function readPermission(state: ReplicaState, r: ReadRequest): ReadPermission {
  const s = state.partitions.get(partitionKey(r.partition))?.segments.get(segmentKey(r.segment));
  if (s === undefined || s.status === "DELETED" || s.status === "FENCED_EMPTY")
    return { code: errorNumber("UNKNOWN_SEGMENT"), sealed: false, limit: -1 };
  // What was durable before the journal failed can still be read; but a copy that failed by itself cannot vouch for its bytes.
  if (s.status === "FAILED" || s.status === "REBUILD" || s.base === undefined)
    return { code: errorNumber("READ_UNAVAILABLE"), sealed: false, limit: -1 };
  if (s.status === "SEALED") return { code: 0, segment: s, sealed: true, limit: Math.min(s.end ?? s.last, s.durableLast) };
  if (s.status === "INCOMPLETE") return { code: 0, segment: s, sealed: false, limit: Math.min(s.end ?? s.last, s.durableLast) };
  const marked = r.highWatermarkEpoch === s.id.epoch || state.mutants.M22 === true ? r.highWatermark : -1;
  return { code: 0, segment: s, sealed: false, limit: Math.max(s.base - 1, Math.min(s.durableLast, Math.max(s.lac, marked))) };
}
