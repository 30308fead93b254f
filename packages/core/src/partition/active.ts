import { ChainHash } from "../log/index.ts";
import type { SegmentRecord } from "../model/index.ts";
import { answering, wallAt } from "./machine.ts";
import type { ActiveSegment, Creation, Partition, Roll } from "./state.ts";

/** The open segment: made from a creation, ended as a record. */
export function newActive(creation: Creation, now: number): ActiveSegment {
  const active: ActiveSegment = {
    segment: creation.segment,
    base: creation.base,
    slots: creation.members
      .filter((m) => m.status === "made")
      .map((m) => ({
        replica: m.replica,
        segmentNumber: m.segmentNumber,
        durable: creation.base - 1,
        next: 0,
        live: true,
        linkUp: true,
        progressMs: now,
        barrier: 0,
        gaps: 0,
        resentMs: -Infinity,
      })),
    openedMs: now,
    frozen: false,
    chain: new ChainHash(),
    bytes: 0,
    committedBytes: 0,
    firstAppendMs: 0,
    lastAppendMs: 0,
    maxTimestampMs: 0,
    lacSent: creation.base - 1,
    lastSendMs: now,
    targets: [],
  };
  retarget(active);
  return active;
}

export function retarget(active: ActiveSegment): void {
  active.targets = active.slots.filter(answering).map((s) => ({ replica: s.replica, segmentNumber: s.segmentNumber }));
}

/** Highest offset that at least QUORUM members hold: the second highest of two or three. */
export function quorumDurable(active: ActiveSegment): number {
  let highest = -Infinity;
  let second = -Infinity;
  for (const { durable } of active.slots) {
    if (durable > highest) {
      second = highest;
      highest = durable;
    } else if (durable > second) second = durable;
  }
  return second;
}

/** The record of the segment as its seal publishes it. */
export function sealedRecord(
  p: Partition,
  active: ActiveSegment,
  roll: Pick<Roll, "end" | "holders" | "lacking">,
  now: number,
): SegmentRecord {
  return {
    segment: active.segment,
    base: active.base,
    end: roll.end,
    phase: "SEALED",
    replicas: roll.holders,
    ...(roll.lacking.length === 0 ? {} : { missing: roll.lacking }),
    sizeBytes: active.committedBytes,
    chainHash: active.chain.hex(),
    firstAppendMs: active.firstAppendMs,
    lastAppendMs: active.lastAppendMs,
    maxTimestampMs: active.maxTimestampMs,
    sealedAtMs: wallAt(p, now),
  };
}
