import { sameSegment, type SegmentEntry, type SegmentId, type SegmentPhase, type TopicSettings } from "@sluice/core/model";

/** What retention takes from the old end of a partition (protocol G1): decided from one linearizable read, applied in one transaction. */
export interface RetentionCut {
  /** The new log start; undefined when it stays. */
  readonly start: number | undefined;
  /** Segments wholly below the start, to be marked DELETING; oldest first. */
  readonly drop: readonly SegmentEntry[];
  readonly cause: "age" | "size" | "below start" | undefined;
}

const SEALED: ReadonlySet<SegmentPhase> = new Set(["SEALED", "UPLOADING", "OFFLOADED", "LOCAL_DELETING", "LOCAL_DELETED"]);

/**
 * Walks from the oldest segment and stops at the first one that stays, so the log stays in one piece. Only segments that are SEALED
 * or later are considered: their end is committed, so the start never passes the high watermark. An OPEN one ends the walk, and so does
 * the one that the register names as tail, sealed or not: the next owner begins at its end.
 *
 * @param segments all of a partition, in order of base, epoch, k
 * @param tail the register's tail; undefined = nobody ever owned the partition: nothing is dropped
 * @param start the log start now
 * @param nowMs retention time (see clock-guard), undefined = the clock is not trusted: nothing is cut by age
 */
export function retentionCut(
  segments: readonly SegmentEntry[],
  tail: SegmentId | undefined,
  start: number,
  settings: Pick<TopicSettings, "retentionMs" | "retentionBytes">,
  nowMs: number | undefined,
): RetentionCut {
  let bytes = 0;
  for (const { record } of segments) if (record.phase !== "DELETING") bytes += record.sizeBytes ?? 0;
  const drop: SegmentEntry[] = [];
  let newStart = start;
  let cause: RetentionCut["cause"];
  for (const entry of segments) {
    const s = entry.record;
    if (s.phase === "DELETING") continue;
    if (!SEALED.has(s.phase) || s.end === undefined || tail === undefined || sameSegment(s.segment, tail)) break;
    const size = s.sizeBytes ?? 0;
    const stampMs = s.lastAppendMs ?? s.sealedAtMs;
    const empty = s.end < s.base;
    if (!empty && s.end >= newStart) {
      const old = settings.retentionMs >= 0 && nowMs !== undefined && stampMs !== undefined && nowMs - stampMs > settings.retentionMs;
      const over = settings.retentionBytes >= 0 && bytes - size >= settings.retentionBytes && size > 0;
      if (!old && !over) break;
      newStart = s.end + 1;
      cause = old ? "age" : "size";
    }
    cause ??= "below start";
    bytes -= size;
    drop.push(entry);
  }
  return { start: newStart === start ? undefined : newStart, drop, cause: drop.length === 0 ? undefined : cause };
}
