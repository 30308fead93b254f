import type { Epoch, ErrorCode, MemberId, ObjectRef, PartitionState, ReplicaId, SegmentId, SegmentRecord } from "../model/index.ts";
import type {
  CreateRequest,
  FenceRequest,
  RebuildRequest,
  RecoveryAppendRequest,
  RecoveryReadRequest,
  SealRequest,
} from "../replica/index.ts";

/**
 * What a partition machine asks of its host. Effects are performed in order. Those with a `call` are answered by an input with the same
 * number, once; the machine bounds every call by its own timer too, so a host that loses one costs time only.
 */
export type Effect =
  | MetaGetEffect
  | MetaTxnEffect
  | ControlEffect
  | ReadProducersEffect
  | SendAppendEffect
  | ReplyEffect
  | BarrierReplyEffect
  | CommittedEffect
  | ReleasedEffect
  | MarkTailEffect
  | ArmTimerEffect
  | StepDownEffect
  | ReportSuspectEffect
  | LogEffect
  | AlarmEffect;

/** Linearizable read of the register, of its owner's member key and of the log start. Answer: `metaGot`. */
export interface MetaGetEffect {
  readonly kind: "metaGet";
  readonly call: number;
}
/**
 * One transaction: IF mod(state) = expectedRevision (0 = compare create revision with 0) THEN put state and each of `segments` under its
 * own
 * key. Both branches then read: the register, the key of `readSegment` when given, and the log start. Answer: `metaTxnDone`.
 */
export interface MetaTxnEffect {
  readonly kind: "metaTxn";
  readonly call: number;
  readonly expectedRevision: number;
  readonly state: PartitionState;
  readonly segments: readonly SegmentRecord[];
  readonly readSegment: { readonly segment: SegmentId; readonly base: number } | undefined;
}

export type ControlRequest =
  | { readonly kind: "create"; readonly request: CreateRequest }
  | { readonly kind: "fence"; readonly request: FenceRequest }
  | { readonly kind: "recoveryAppend"; readonly request: RecoveryAppendRequest }
  | { readonly kind: "recoveryRead"; readonly request: RecoveryReadRequest }
  | { readonly kind: "rebuild"; readonly request: RebuildRequest }
  | { readonly kind: "seal"; readonly request: SealRequest };
/** A control request to one storage node. Answer: `control`. Requests of one kind may be sent in bulk by the host. */
export interface ControlEffect {
  readonly kind: "control";
  readonly call: number;
  readonly to: ReplicaId;
  readonly timeoutMs: number;
  readonly body: ControlRequest;
}
/** Producer snapshot out of an uploaded segment: when no storage node has the tail any more. Answer: `producersRead`. */
export interface ReadProducersEffect {
  readonly kind: "readProducers";
  readonly call: number;
  readonly object: ObjectRef;
}

/** Where one member of the open segment is reached: its node and the node's number of the segment. */
export interface AppendTarget {
  readonly replica: ReplicaId;
  readonly segmentNumber: number;
}
/**
 * One append frame to each target, in order, on the log link. `payload` empty (length 0) = probe, barrier or flush of `lac`, with
 * lastOffset = firstOffset - 1 and a `barrier` number. Neighbouring effects of one segment may be joined to one frame (offsets follow each
 * other).
 */
export interface SendAppendEffect {
  readonly kind: "sendAppend";
  readonly targets: readonly AppendTarget[];
  readonly epoch: Epoch;
  readonly base: number;
  readonly firstOffset: number;
  readonly lastOffset: number;
  readonly lac: number;
  readonly barrier: number;
  /** Broker append time of the batches, wall clock; 0 for empty appends. */
  readonly appendMs: number;
  readonly payload: Uint8Array;
  readonly handle: object | undefined;
  /** Of the append, when it is being recorded. */
  readonly trace: Uint8Array | undefined;
}

/** Answer to an append. `code` undefined = stored on two nodes. Exactly one for each request. */
export interface ReplyEffect {
  readonly kind: "reply";
  readonly requestId: number;
  readonly code: ErrorCode | undefined;
  /** Offset of the first record; -1 unless stored (UNEXPECTED_OFFSET: the next offset of the log). */
  readonly baseOffset: number;
  readonly logStart: number;
  /** The batch had been stored by an earlier attempt of its producer. */
  readonly duplicate: boolean;
  readonly throttleMs: number;
  /** NOT_OWNER: the next owner when it is known. */
  readonly target: MemberId | undefined;
  /** TIMED_OUT: what the batch waited for. */
  readonly cause: ErrorCode | undefined;
}
/** Answer to a barrier. `committed` -1 when the log is empty or on an error (look at `code`). */
export interface BarrierReplyEffect {
  readonly kind: "barrierReply";
  readonly requestId: number;
  readonly code: ErrorCode | undefined;
  readonly committed: number;
  readonly logStart: number;
}

/** The marks that a tail subscriber gets with or without data. Offsets inclusive: `committed` -1 when the log is empty. */
export interface TailMark {
  readonly epoch: Epoch;
  readonly segment: SegmentId;
  readonly segmentBase: number;
  readonly committed: number;
  /** Last stable offset, inclusive. */
  readonly lastStable: number;
  readonly logStart: number;
}
/** Records first..last are durable on two nodes: push them. The replies to their producers follow. */
export interface CommittedEffect {
  readonly kind: "committed";
  readonly first: number;
  readonly last: number;
  /** Stamped batches in order, as they were admitted: each piece is one batch or a run of them. */
  readonly runs: readonly Uint8Array[];
  /** Last offset of each piece. */
  readonly lasts: readonly number[];
  readonly handles: readonly (object | undefined)[];
  /** Trace parent of the first piece that is being recorded, and which one it is; undefined and -1 when none is. */
  readonly trace: Uint8Array | undefined;
  readonly tracedAt: number;
  readonly mark: TailMark;
}
/**
 * The machine will not send these batches again: they are committed, and held by every member that still answers. Batches that leave in another
 * way (the ownership ends) are not told; their memory is then nobody's.
 */
export interface ReleasedEffect {
  readonly kind: "released";
  readonly handles: readonly object[];
}
export interface MarkTailEffect {
  readonly kind: "markTail";
  readonly mark: TailMark;
}

/** Call `step` with a tick at this time (of the clock of nowMs). Replaces the timer armed before. */
export interface ArmTimerEffect {
  readonly kind: "armTimer";
  readonly atMs: number;
}

export type StepDownReason = "stale" | "superseded" | "released" | "deleted" | "invariant" | "cancelled";
/** The machine no longer owns (or tries to own) the partition; every waiting request has been answered. */
export interface StepDownEffect {
  readonly kind: "stepDown";
  readonly reason: StepDownReason;
  readonly target: MemberId | undefined;
}
export type SuspectReason = "timeout" | "reset" | "refused" | "lag" | "io" | "full" | "incarnation";
export interface ReportSuspectEffect {
  readonly kind: "reportSuspect";
  readonly node: MemberId;
  readonly reason: SuspectReason;
}
/** One structured line per state change. */
export interface LogEffect {
  readonly kind: "log";
  readonly event: string;
  readonly fields: Readonly<Record<string, string | number | boolean>>;
}
/** Something a person must look at; `cause` is a closed list, for the label of a metric. */
export const alarmCauses = [
  "recoveryBlocked",
  "copiesDiffer",
  "corrupt",
  "invariant",
  "notEnoughNodes",
  "diskFull",
  "sealRefused",
] as const;
export type AlarmCause = (typeof alarmCauses)[number];
export interface AlarmEffect {
  readonly kind: "alarm";
  readonly cause: AlarmCause;
  readonly message: string;
}
