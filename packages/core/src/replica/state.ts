import type { ChainHash, Crc32c } from "../log/index.ts";
import type { Incarnation, PartitionId, PartitionKey, SegmentId, SegmentKey } from "../model/index.ts";
import type { ReplicaStatus } from "./api.ts";
import type { BatchWindow, WindowBatch } from "./batch-window.ts";
import type { ControlAnswer, ReplicaMutants } from "./input.ts";

/** The producers that a segment has seen: one table a segment, advanced by batch headers. core/producer has the real one. */
export interface ProducerTable {
  advance(batch: WindowBatch): void;
  encode(): Uint8Array;
}
export interface ProducerTables {
  /** From a snapshot, as a Create carries it. Throws on bytes that are none. */
  decode(snapshot: Uint8Array): ProducerTable;
}

export interface ReplicaOptions {
  readonly incarnation: Incarnation;
  /** First segment number of this incarnation: drawn at random at the format, so that numbers of another incarnation name nothing here. */
  readonly firstSegmentNumber: number;
  readonly producers: ProducerTables;
  /** Given = the CRC of every batch is checked before it is accepted. */
  readonly crc32c?: Crc32c;
  /** Committed batches kept per writable segment to judge retries. */
  readonly retryBatchesKept: number;
  /** Uncommitted batches kept per writable segment. */
  readonly uncommittedBatchesMax: number;
  /** Segments known here, tombstones included: more are refused with OVERLOADED. Default: no limit. */
  readonly segmentsMax?: number;
  readonly mutants?: ReplicaMutants;
}

export interface Segment {
  readonly number: number;
  readonly partition: PartitionId;
  readonly partitionKey: PartitionKey;
  readonly id: SegmentId;
  readonly key: SegmentKey;
  status: ReplicaStatus;
  /** First offset; undefined: pre-created or FENCED_EMPTY. */
  base: number | undefined;
  /** Last offset taken, durable or queued; base - 1 when empty, -1 without a base. */
  last: number;
  /** Last offset on disk. */
  durableLast: number;
  lac: number;
  /** End: as sealed, or the goal of a rebuild. */
  end: number | undefined;
  /** Epoch of the fence; -1 = none. */
  fencedBy: number;
  /** Epoch by which this copy was made. */
  madeBy: number;
  /** Repair: revision of the segment's key that the copy was ordered at. */
  keyRevision: number | undefined;
  /** Recovery: epoch that the copy is rebuilt under. */
  rebuildEpoch: number | undefined;
  nonce: string;
  /** Up to `last`; undefined = not known. */
  chain: ChainHash | undefined;
  /** As of `window.foldedTo`, the committed mark; undefined = not known. */
  producers: ProducerTable | undefined;
  readonly window: BatchWindow;
  sizeBytes: number;
  firstAppendMs: number;
  lastAppendMs: number;
  maxTimestampMs: number;
  /** When the owner (or a recoverer) was last heard of: wall time as the host gives it. Not durable. */
  heardMs: number;
}

export interface Partition {
  readonly id: PartitionId;
  readonly key: PartitionKey;
  maxEpoch: number;
  readonly segments: Map<SegmentKey, Segment>;
}

/** An append that waits for the disk. */
export interface PendingAppend {
  /** Durable when the journal is durable up to here. */
  readonly sequence: number;
  readonly origin: number;
  readonly segment: Segment;
  readonly last: number;
}
export interface PendingControl {
  readonly sequence: number;
  readonly ref: number;
  readonly answers: readonly ControlAnswer[];
  /** Segments whose bytes may go once this is durable. */
  readonly dropped: readonly number[];
}

export interface ReplicaState {
  readonly options: ReplicaOptions;
  readonly mutants: ReplicaMutants;
  readonly partitions: Map<PartitionKey, Partition>;
  readonly byNumber: Map<number, Segment>;
  nextSegmentNumber: number;
  /** Sequence of the last entry given to the journal; 0 = none yet. */
  sequence: number;
  durable: number;
  /** The journal has failed: every segment is FAILED. */
  failed: boolean;
  /** Entries of the history are unknown: "never created here" cannot be said any more. */
  damaged: boolean;
  diskFull: boolean;
  /** Segments whose owner is asked to roll them to other nodes: appends are refused as if the disk were full. */
  readonly rollWanted: Set<number>;
  readonly appends: PendingAppend[];
  readonly controls: PendingControl[];
}

export function createReplica(options: ReplicaOptions): ReplicaState {
  return {
    options,
    mutants: options.mutants ?? {},
    partitions: new Map(),
    byNumber: new Map(),
    nextSegmentNumber: options.firstSegmentNumber,
    sequence: 0,
    durable: 0,
    failed: false,
    damaged: false,
    diskFull: false,
    rollWanted: new Set(),
    appends: [],
    controls: [],
  };
}

/**
 * Forgets the oldest tombstones above `keep`. They only spare a recoverer that was overtaken long ago a useless answer: its transaction cannot commit
 * any more. Done where a checkpoint is made, so that memory and the next start agree.
 */
export function forgetTombstones(state: ReplicaState, keep: number): number {
  const dead = [...state.byNumber.values()].filter((s) => s.status === "DELETED");
  const forgotten = dead.slice(0, Math.max(0, dead.length - keep));
  for (const s of forgotten) {
    state.byNumber.delete(s.number);
    state.partitions.get(s.partitionKey)?.segments.delete(s.key);
  }
  return forgotten.length;
}

export const isFull = (state: ReplicaState): boolean =>
  state.options.segmentsMax !== undefined && state.byNumber.size >= state.options.segmentsMax;

/** Status as others see it. */
export const statusOf = (state: ReplicaState, s: Segment): ReplicaStatus => (state.failed ? "FAILED" : s.status);
