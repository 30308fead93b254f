import type { Epoch, Incarnation, PartitionId, SegmentId } from "../model/index.ts";

/**
 * What brokers ask of a storage node and what it answers (protocol: the storage node rules). Plain data: the replica machine takes and
 * gives these values, the partition machine's effects and inputs carry them, gRPC and the link only transport them.
 * `code` 0 is success, else a number of the error catalogue.
 */
export interface SegmentAddress {
  readonly partition: PartitionId;
  readonly segment: SegmentId;
}

export type ReplicaStatus = "OPEN" | "FENCED" | "FENCED_EMPTY" | "REBUILD" | "SEALED" | "INCOMPLETE" | "FAILED" | "DELETED";

export interface CreateRequest extends SegmentAddress {
  /** First offset; undefined for a pre-created segment (the transaction that publishes it fixes the base; the first append carries it). */
  readonly base: number | undefined;
  readonly incarnation: Incarnation;
  /** A retry with the same nonce succeeds again. */
  readonly nonce: string;
  /** The owner's producer snapshot at `base`, at most `limits.producerSnapshotBytesMax`. */
  readonly producers: Uint8Array;
}
export interface CreateAnswer {
  readonly code: number;
  readonly message?: string;
  /** The node's own number of the segment: append frames and journal entries carry it. Never reused under one incarnation. */
  readonly segmentNumber: number;
}

export interface FenceRequest extends SegmentAddress {
  readonly epoch: Epoch;
  readonly incarnation: Incarnation;
}
export interface FenceAnswer {
  readonly code: number;
  readonly message?: string;
  readonly segmentNumber: number;
  readonly status: ReplicaStatus;
  /** False = UNKNOWN, not a vote. */
  readonly trusted: boolean;
  /** First offset; undefined for FENCED_EMPTY. */
  readonly base: number | undefined;
  /** Last durable offset; base - 1 when empty; -1 for FENCED_EMPTY. For SEALED the end. */
  readonly last: number;
  /** Highest offset that the owner said is committed. */
  readonly lac: number;
  /** Chain hash over all batches up to `last`: 16 hex digits. */
  readonly chainHash: string;
  /** Producer snapshot at `last`: the Create's snapshot advanced by the batches since. Empty = not known to this copy (a snapshot of no producer is not empty). */
  readonly producers: Uint8Array;
  readonly sizeBytes: number;
  readonly firstAppendMs: number;
  readonly lastAppendMs: number;
  readonly maxTimestampMs: number;
  /** Highest epoch this node knows for the partition. */
  readonly maxEpoch: number;
}

/** One append frame of the log link; answers are cumulative per segment (`AppendedAnswer`). */
export interface AppendRequest {
  readonly segmentNumber: number;
  readonly epoch: Epoch;
  /** Base of the segment: fixes the base of a pre-created one; must agree otherwise. */
  readonly base: number;
  readonly firstOffset: number;
  readonly lastOffset: number;
  readonly lac: number;
  /** 0 for appends with batches. An empty append (probe, barrier) carries the owner's number of it, which the answer echoes. */
  readonly barrier: number;
  /** Stamped batches, one after the other, without gaps. Empty = only `lac` (probe, barrier, flush of the mark); then lastOffset = firstOffset - 1. */
  readonly payload: Uint8Array;
  /** The broker's append time; absent = the node takes its own. */
  readonly appendMs?: number;
}
export interface AppendedAnswer {
  readonly segmentNumber: number;
  readonly code: number;
  /** Highest durable offset of the segment: all up to it is on disk. */
  readonly durable: number;
  /** For an empty append (barrier): echoed so that the owner can match it. 0 otherwise. */
  readonly barrier: number;
}

export interface RecoveryAppendRequest extends SegmentAddress {
  readonly epoch: Epoch;
  readonly base: number;
  readonly firstOffset: number;
  readonly lastOffset: number;
  readonly payload: Uint8Array;
}
export interface RecoveryAppendAnswer {
  readonly code: number;
  readonly message?: string;
  readonly last: number;
  readonly chainHash: string;
}
/** Reads what a fence at `epoch` froze, also above the committed mark: for recovery alone. */
export interface RecoveryReadRequest extends SegmentAddress {
  readonly epoch: Epoch;
  readonly from: number;
  readonly maxBytes: number;
}
export interface RecoveryReadAnswer {
  readonly code: number;
  readonly message?: string;
  /** Whole batches from the one that holds `from`. */
  readonly payload: Uint8Array;
}

/**
 * Starts a whole new copy. Recovery: with `epoch`; complete = FENCED by that epoch. Repair of a sealed segment: with `keyRevision`; complete = SEALED(end).
 * The batches follow as RecoveryAppend; until `end` is reached the copy is REBUILD: no vote, no reads.
 */
export interface RebuildRequest extends SegmentAddress {
  readonly base: number;
  readonly end: number;
  readonly incarnation: Incarnation;
  readonly epoch?: Epoch;
  readonly keyRevision?: number;
  readonly producers: Uint8Array;
}
export interface RebuildAnswer {
  readonly code: number;
  readonly message?: string;
  readonly segmentNumber: number;
}

export interface SealRequest extends SegmentAddress {
  readonly end: number;
  /** The epoch whose transaction published `end`, and is known to have committed. */
  readonly epoch: Epoch;
}
export interface SealAnswer {
  readonly code: number;
  readonly message?: string;
  readonly status: ReplicaStatus;
}

export interface ReadRequest extends SegmentAddress {
  readonly from: number;
  readonly maxBytes: number;
  /** Last committed offset (inclusive) known to the reader, and the epoch of the segment that it was published for; -1 when it knows none. */
  readonly highWatermark: number;
  readonly highWatermarkEpoch: number;
}
export interface ReadAnswer {
  readonly code: number;
  /** True when `limit` is the segment's end. */
  readonly sealed: boolean;
  /** Highest offset this node may serve now (end, or committed and durable); base - 1 when none. */
  readonly limit: number;
  readonly payload: Uint8Array;
}
