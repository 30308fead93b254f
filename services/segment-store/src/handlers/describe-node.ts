import type { ReplicaState } from "@sluice/core/replica";
import { statusOf } from "@sluice/core/replica";
import type { Format } from "../disk/format.ts";

export interface NodeSpace {
  readonly journalBytes: number;
  readonly liveBytes: number;
  readonly capacityBytes: number;
  readonly freeBytes: number;
}
/** Segments listed in one reply. */
const SEGMENTS_LISTED_MAX = 20_000;

export function describeNode(state: ReplicaState, format: Format, space: NodeSpace) {
  const segments = [];
  let truncated = false;
  for (const s of state.byNumber.values()) {
    if (s.status === "DELETED") continue;
    if (segments.length >= SEGMENTS_LISTED_MAX) {
      truncated = true;
      break;
    }
    segments.push({
      address: { topicId: s.partition.topicId, partition: s.partition.partition, epoch: s.id.epoch, k: s.id.k },
      status: statusOf(state, s),
      base: BigInt(s.base ?? -1),
      last: BigInt(s.last),
      lac: BigInt(s.lac),
      sizeBytes: BigInt(s.sizeBytes),
    });
  }
  return {
    node: format.node,
    incarnation: format.incarnation,
    segments,
    truncated,
    journalBytes: BigInt(space.journalBytes),
    liveBytes: BigInt(space.liveBytes),
    capacityBytes: BigInt(space.capacityBytes),
    freeBytes: BigInt(space.freeBytes),
  };
}
