import type { BatchHeader, ProducedRun } from "../log/index.ts";
import type { Incarnation, InstanceId, MemberId, PartitionState, SegmentRecord } from "../model/index.ts";
import type { CreateAnswer, FenceAnswer, RebuildAnswer, RecoveryAppendAnswer, RecoveryReadAnswer, SealAnswer } from "../replica/index.ts";

/**
 * What a partition machine is told. Offsets are inclusive everywhere (`committed` is the last committed offset, Kafka's high watermark is
 * that plus one). `deadlineMs` is on the clock of `step`'s nowMs (monotonic), `wallMs` is milliseconds since 1970.
 * Answers carry the `call` number of the effect that asked; an answer to a call that the machine has given up is ignored.
 */
export type Input =
  | AcquireInput
  | ReleaseInput
  | MetaGotInput
  | MetaTxnInput
  | ControlInput
  | ProducersReadInput
  | AppendInput
  | AppendedInput
  | BarrierInput
  | LinkInput
  | NodesInput
  | LeaseInput
  | ConfigInput
  | LogStartInput
  | RollInput
  | HintInput
  | TickInput;

/** The assignment names this broker. Ignored while the machine already works on it. */
export interface AcquireInput {
  readonly kind: "acquire";
  readonly assignmentRevision: number;
  /** FORCE: do not wait for the lease of this instance. */
  readonly forceInstance?: InstanceId;
  readonly wallMs: number;
}

/** The assignment names another broker (or nobody): hand over. Also how a broker drains, with `target` undefined. */
export interface ReleaseInput {
  readonly kind: "release";
  readonly target?: MemberId;
  /** The topic is being deleted: the register becomes a tombstone (DELETED) in the transaction that seals the tail. */
  readonly forever?: boolean;
}

/** Answer to `metaGet`. `failed` = no answer in time; reads may be repeated freely. */
export interface MetaGotInput {
  readonly kind: "metaGot";
  readonly call: number;
  readonly outcome: "ok" | "failed";
  readonly register?: Register;
  /** True when the member key of `state.owner` exists and names `state.ownerInstance`. */
  readonly ownerAlive?: boolean;
  /** Log start offset, 0 when there is no such key. */
  readonly logStart?: number;
}

/** The register `state` of a partition as one linearizable read saw it; `modRevision` 0 and no state = it does not exist. */
export interface Register {
  readonly state: PartitionState | undefined;
  readonly modRevision: number;
}

/**
 * Answer to `metaTxn`. `applied` and `compareFailed` come from the store, with what the branch that ran has read;
 * `unknown` = the answer was lost, it may be applied now, later or never; `unavailable` = not sent. After both the machine sends the
 * identical transaction again.
 */
export interface MetaTxnInput {
  readonly kind: "metaTxnDone";
  readonly call: number;
  readonly outcome: "applied" | "compareFailed" | "unknown" | "unavailable";
  /** `applied`: our write at its revision. `compareFailed`: what is there. */
  readonly register?: Register;
  /** The segment asked for by `readSegment`. */
  readonly segment?: SegmentRecord;
  readonly logStart?: number;
}

export type ControlFailure = "refused" | "timeout" | "reset";
export type ControlAnswer =
  | { readonly kind: "create"; readonly answer: CreateAnswer }
  | { readonly kind: "fence"; readonly answer: FenceAnswer }
  | { readonly kind: "recoveryAppend"; readonly answer: RecoveryAppendAnswer }
  | { readonly kind: "recoveryRead"; readonly answer: RecoveryReadAnswer }
  | { readonly kind: "rebuild"; readonly answer: RebuildAnswer }
  | { readonly kind: "seal"; readonly answer: SealAnswer }
  /** `sent` = the request may have reached the node. `refused` = nobody listens there. */
  | { readonly kind: "failed"; readonly failure: ControlFailure; readonly sent: boolean };
export interface ControlInput {
  readonly kind: "control";
  readonly call: number;
  readonly result: ControlAnswer;
}

/** Answer to `readProducers`; undefined = it could not be read. */
export interface ProducersReadInput {
  readonly kind: "producersRead";
  readonly call: number;
  readonly producers: Uint8Array | undefined;
}

/**
 * One whole batch, CRC and limits already checked by the host. The machine stamps offset and epoch into `batch` and owns the bytes until
 * the
 * last replica answered; the header is only read during `step`, so one object serves all calls.
 */
export interface AppendInput {
  readonly kind: "append";
  readonly requestId: number;
  /** One batch, or a run of several without producer ids, which are stored together. */
  readonly batch: Uint8Array;
  /** Of the first batch. Read during the step alone. */
  readonly header: BatchHeader;
  /** Of a run of several; absent = one batch. Read during the step alone. */
  readonly run?: ProducedRun | undefined;
  /** Offset that the batch must get; -1 = any. */
  readonly expectedBaseOffset: number;
  /** Appends with a smaller token than one seen before are refused; -1 = none. */
  readonly fenceToken: number;
  /** Somebody vouches that no earlier batch of its producer is missing (`checkSequence`). */
  readonly anySequence?: boolean | undefined;
  readonly deadlineMs: number;
  readonly wallMs: number;
  /** The host's, of the batch's memory: handed back by `released` once no replica needs it. Never looked at. */
  readonly handle?: object | undefined;
  /** Trace parent of a batch that is being recorded: handed on with everything that is sent of it. Never looked at. */
  readonly trace?: Uint8Array | undefined;
}

/** A storage node's answer on the log link. `durable` is cumulative. */
export interface AppendedInput {
  readonly kind: "appended";
  readonly node: MemberId;
  readonly segmentNumber: number;
  readonly code: number;
  readonly durable: number;
  readonly barrier: number;
}

/** Ask for the latest offset: answered (`barrierReply`) once Qa nodes accepted an empty append sent after this arrived. */
export interface BarrierInput {
  readonly kind: "barrier";
  readonly requestId: number;
  readonly deadlineMs: number;
}

/** The log link to a node came up or went down. */
export interface LinkInput {
  readonly kind: "link";
  readonly node: MemberId;
  readonly up: boolean;
  readonly reason: ControlFailure | "none";
}

/** A storage node that could hold a new segment. */
export interface CandidateNode {
  readonly node: MemberId;
  readonly incarnation: Incarnation;
  readonly zone: string;
  readonly freeBytes: number;
  readonly suspect: boolean;
}
/** All registered storage nodes that are not draining; replaces the list before. */
export interface NodesInput {
  readonly kind: "nodes";
  readonly nodes: readonly CandidateNode[];
}

/** The broker's lease is confirmed up to this time of the clock of `step`. */
export interface LeaseInput {
  readonly kind: "lease";
  readonly confirmedUntilMs: number;
}
export interface ConfigInput {
  readonly kind: "config";
  readonly config: PartitionConfig;
}
/** What the machine needs of a topic's configuration. */
export interface PartitionConfig {
  readonly segmentBytes: number;
  readonly segmentMs: number;
  /** Refuse to run on two copies. */
  readonly strictThreeCopies: boolean;
  /** Producers silent for this long are forgotten. */
  readonly producerExpiryMs: number;
}
/** Retention raised the log start. */
export interface LogStartInput {
  readonly kind: "logStart";
  readonly logStart: number;
}
/** A node (disk pressure) or an operator asks for a new segment. */
export interface RollInput {
  readonly kind: "roll";
  readonly reason: "disk" | "operator";
}
/** The watch saw a change of the register or of its owner's member key: look again instead of waiting for the next poll. */
export interface HintInput {
  readonly kind: "hint";
}
export interface TickInput {
  readonly kind: "tick";
  readonly wallMs: number;
}
