import type { PartitionId, SegmentId } from "../model/index.ts";
import type { ReplicaStatus } from "../replica/api.ts";

/**
 * What a storage node writes to its journal: one value per change of its state, in the order in which the changes were made. Replaying the entries
 * in order makes the state again (core/replica: `applyEntry`). The bytes are described in entry-codec.ts.
 */
export interface AppendEntry {
  readonly kind: "append";
  readonly segmentNumber: number;
  /** Of the writer: the segment's own for its owner, the recoverer's for a recovery append. */
  readonly epoch: number;
  readonly firstOffset: number;
  readonly lastOffset: number;
  /** Committed mark that came with the append. */
  readonly lac: number;
  readonly appendMs: number;
  /** Written by recovery or repair, not by the owner. */
  readonly recovery: boolean;
  /** Written again by the compaction of a journal file: the bytes of these offsets have moved here, nothing else has changed. */
  readonly copy?: boolean;
  /** Optional tagged fields, as they came: at most `limits.annotationBytesMax`. */
  readonly annotations?: Uint8Array;
  /** Whole stamped batches, one after the other. */
  readonly payload: Uint8Array;
}
export interface CreateEntry {
  readonly kind: "create";
  readonly segmentNumber: number;
  readonly partition: PartitionId;
  readonly segment: SegmentId;
  readonly base: number | undefined;
  readonly nonce: string;
  readonly producers: Uint8Array;
}
/** Also remembers a segment that was never created here (`segmentNumber` is new then): FENCED_EMPTY. */
export interface FenceEntry {
  readonly kind: "fence";
  readonly segmentNumber: number;
  readonly partition: PartitionId;
  readonly segment: SegmentId;
  readonly epoch: number;
}
export interface RebuildEntry {
  readonly kind: "rebuild";
  readonly segmentNumber: number;
  readonly partition: PartitionId;
  readonly segment: SegmentId;
  readonly base: number;
  readonly end: number;
  /** One of the two: recovery under an epoch, or repair of a sealed segment read at a revision of its key. */
  readonly epoch: number | undefined;
  readonly keyRevision: number | undefined;
  readonly producers: Uint8Array;
}
export interface SealEntry {
  readonly kind: "seal";
  readonly segmentNumber: number;
  readonly end: number;
  readonly epoch: number;
}
export interface DeleteEntry {
  readonly kind: "delete";
  readonly segmentNumber: number;
}

/** The next three stand in checkpoints: the state of everything, so that what lies before needs no replay. */
export interface NodeStateEntry {
  readonly kind: "node-state";
  readonly nextSegmentNumber: number;
  /** Part of the history could not be read: a segment that is not known here may have been. */
  readonly damaged: boolean;
}
export interface PartitionStateEntry {
  readonly kind: "partition-state";
  readonly partition: PartitionId;
  readonly maxEpoch: number;
}
export interface SegmentStateEntry {
  readonly kind: "segment-state";
  readonly segmentNumber: number;
  readonly partition: PartitionId;
  readonly segment: SegmentId;
  readonly status: ReplicaStatus;
  readonly base: number | undefined;
  readonly last: number;
  readonly lac: number;
  readonly end: number | undefined;
  readonly fencedBy: number;
  readonly madeBy: number;
  readonly keyRevision: number | undefined;
  readonly rebuildEpoch: number | undefined;
  readonly nonce: string;
  /** 16 hex digits; empty = not known (a cut below what the node remembers). */
  readonly chainHash: string;
  /** Snapshot at `last`; `producersKnown` false = lost by such a cut. */
  readonly producers: Uint8Array;
  readonly producersKnown: boolean;
  readonly sizeBytes: number;
  readonly firstAppendMs: number;
  readonly lastAppendMs: number;
  readonly maxTimestampMs: number;
}

/** Where the batches of a segment lie in the journal: beside its state in a checkpoint. Arrays of equal length, but for the last. */
export interface SegmentIndexEntry {
  readonly kind: "segment-index";
  readonly segmentNumber: number;
  readonly offsets: Float64Array;
  readonly positions: Float64Array;
  /** Largest record timestamp before each point. */
  readonly timestampsBefore: Float64Array;
  /** Pairs: number of a journal file, live bytes of the segment in it. */
  readonly fileBytes: Float64Array;
}

export type JournalEntry =
  | AppendEntry
  | CreateEntry
  | FenceEntry
  | RebuildEntry
  | SealEntry
  | DeleteEntry
  | NodeStateEntry
  | PartitionStateEntry
  | SegmentStateEntry
  | SegmentIndexEntry;
