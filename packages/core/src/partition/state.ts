import type { ChainHash } from "../log/index.ts";
import type {
  Epoch,
  ErrorCode,
  InstanceId,
  MemberId,
  PartitionId,
  PartitionState as RegisterState,
  ReplicaId,
  SegmentId,
  SegmentRecord,
  Timers,
} from "../model/index.ts";
import type { ProducerTable } from "../producer/index.ts";
import type { FenceAnswer } from "../replica/index.ts";
import type { AppendTarget, MetaTxnEffect, StepDownReason } from "./effect.ts";
import type { CandidateNode, PartitionConfig } from "./input.ts";

/** Acknowledge at two copies, whether the segment has two members or three. */
export const QUORUM = 2;

/**
 * Planted faults for the tests of the checkers: each breaks one rule of the protocol. All false outside of tests.
 */
export interface Mutants {
  /** Seal at E without bringing E to two replicas. */
  readonly M4: boolean;
  /** The end from one answer instead of a fence quorum. */
  readonly M5: boolean;
  /** Answers of a frozen segment still count. */
  readonly M10: boolean;
  /** A retry of a batch in flight is answered as if it were stored. */
  readonly M11: boolean;
  /** An unknown metadata outcome is taken as success. */
  readonly M15: boolean;
  /** An unknown metadata outcome is settled by one read. */
  readonly M28: boolean;
  /** Seal is sent before its transaction is known to have committed. */
  readonly M29: boolean;
  /** On a frozen segment the latest offset is told without a proof that this is still the owner. */
  readonly M31: boolean;
}
export const noMutants: Mutants = { M4: false, M5: false, M10: false, M11: false, M15: false, M28: false, M29: false, M31: false };

export interface PartitionOptions {
  readonly partition: PartitionId;
  readonly self: MemberId;
  readonly instance: InstanceId;
  /** Generation of the cluster: the high bits of every epoch. */
  readonly generation: number;
  /** Makes this machine's nonces unlike those of any other machine, also of an earlier one in this process. */
  readonly noncePrefix: string;
  /** Seed of the choice of storage nodes. */
  readonly seed: number;
  readonly timers: Timers;
  readonly config: PartitionConfig;
  readonly mutants?: Partial<Mutants>;
}

/** One batch that was admitted: it has its offset and waits for two nodes. */
export interface PendingBatch {
  readonly requestId: number;
  readonly first: number;
  readonly last: number;
  readonly payload: Uint8Array;
  readonly handle: object | undefined;
  readonly trace: Uint8Array | undefined;
  /** More than one = a run, none of which carries a producer id. */
  readonly batches: number;
  /** Of the first batch. */
  readonly crc: number;
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly firstSequence: number;
  readonly lastSequence: number;
  readonly maxTimestampMs: number;
  readonly wallMs: number;
  deadlineMs: number;
  /** When it last went to the replicas; -1 = not yet. */
  sentMs: number;
  /** Bytes admitted up to and with this batch, over the life of the ownership: differences are lag. */
  readonly position: number;
  replied: boolean;
  /** Retries of the same batch that wait for its outcome. */
  waiters: { readonly requestId: number; readonly deadlineMs: number }[] | undefined;
}

/** One member of the open segment. */
export interface Slot {
  readonly replica: ReplicaId;
  readonly segmentNumber: number;
  /** Last offset that the node said is durable. */
  durable: number;
  /** Number (see `Pipeline`) of the first batch that is not durable here. */
  next: number;
  /** False once it failed for the pipeline: nothing is sent any more, what it has already confirmed still counts. */
  live: boolean;
  /** The link is down; appends wait for it while a roll is not possible. */
  linkUp: boolean;
  /** Last time it confirmed something, or had nothing to confirm. */
  progressMs: number;
  /** Last barrier number it answered. */
  barrier: number;
  /** Gaps it has answered since it last confirmed something, and when it was last sent everything again. */
  gaps: number;
  resentMs: number;
}

/** The batches between admission and the answer of the last replica, oldest first. Batch number n is items[n - from]. */
export interface Pipeline {
  items: PendingBatch[];
  from: number;
  /** Number of the first batch that is not committed. */
  uncommitted: number;
  /** Number of the first batch that was not sent to the open segment. */
  unsent: number;
  /** Bytes of all items. */
  bytes: number;
  /** Bytes admitted since this ownership began. */
  position: number;
  /** Earliest deadline of a request without a reply; Infinity when none. */
  nextDeadlineMs: number;
}

/** The open segment as its owner sees it. */
export interface ActiveSegment {
  readonly segment: SegmentId;
  readonly base: number;
  readonly slots: Slot[];
  readonly openedMs: number;
  /** F1: nothing is sent and no answer counts any more. Never undone. */
  frozen: boolean;
  /** Over everything committed in this segment. */
  readonly chain: ChainHash;
  bytes: number;
  committedBytes: number;
  /** Append time of the first committed batch, 0 when none; of the last; largest record timestamp. */
  firstAppendMs: number;
  lastAppendMs: number;
  maxTimestampMs: number;
  /** Highest committed mark that every live member was sent. */
  lacSent: number;
  lastSendMs: number;
  /** Members that appends go to now: live, link up. */
  targets: AppendTarget[];
}

/** A5/F3: the next segment being created on storage nodes. */
export interface Creation {
  readonly segment: SegmentId;
  readonly base: number;
  readonly nonce: string;
  readonly producers: Uint8Array;
  readonly members: {
    readonly replica: ReplicaId;
    call: number;
    status: "asked" | "made" | "failed";
    segmentNumber: number;
    deadlineMs: number;
    /** It failed because its disk is full. */
    full: boolean;
  }[];
  /** Nodes that failed this creation. */
  readonly avoid: Set<MemberId>;
  /** Fewer than two nodes can be had. */
  starved: boolean;
  done: boolean;
  retryAtMs: number;
  /** Until the attempt after this one; grows. */
  retryMs: number;
  attempts: number;
  /** Why the last attempt found too few nodes. */
  cause: StarvationCause | undefined;
}
export type StarvationCause = "NOT_ENOUGH_REPLICAS" | "DISK_FULL";

export type MemberVerdict = "asked" | "trusted" | "unknown";
export interface RecoveryMember {
  readonly replica: ReplicaId;
  call: number;
  verdict: MemberVerdict;
  answer: FenceAnswer | undefined;
  deadlineMs: number;
  /** Durable [base..last] known of this member during recovery. */
  last: number;
  /** Its chain hash was compared up to the end, or up to its own last. */
  agrees: boolean;
  /** Recovery has appended to it: `answer` is older than the copy. */
  copied: boolean;
}
/** Bringing one member from its last to the end: first read and compare, then append. */
export interface CopyTask {
  readonly target: number;
  readonly source: number;
  readonly kind: "verify" | "append";
  readonly chain: ChainHash;
  next: number;
  call: number;
  deadlineMs: number;
  retries: number;
}
/** R1 to R4 on the tail segment as A3 read it. */
export interface Recovery {
  readonly tail: SegmentRecord;
  readonly members: RecoveryMember[];
  /** "decide": a vote was lost or gained, consider again; "copied": two copies hold everything. */
  step: "fence" | "verify" | "append" | "rebuild" | "sealedTail" | "decide" | "copied";
  /** The copy that a rebuild has made, a member beside the set. */
  rebuilt: RecoveryMember | undefined;
  round: number;
  /** A fence quorum has answered: wait for the rest until this time. 0 = no quorum yet. */
  graceUntilMs: number;
  retryAtMs: number;
  end: number;
  reference: number;
  task: CopyTask | undefined;
  rebuild: RebuildTask | undefined;
  /** Reading the producers out of an object. */
  producersCall: number;
  alarmed: boolean;
  startedMs: number;
}
/** R4 when the set cannot give two copies: a whole new copy. */
export interface RebuildTask {
  readonly replica: ReplicaId;
  call: number;
  next: number;
  deadlineMs: number;
}

/** What a transaction in flight is for. */
export type TxnPurpose = "claim" | "publish" | "roll" | "releasing" | "handOver" | "abandon";
export interface PendingTxn {
  readonly purpose: TxnPurpose;
  readonly body: Omit<MetaTxnEffect, "call" | "kind">;
  call: number;
  deadlineMs: number;
  /** 0 = waiting for the answer. */
  retryAtMs: number;
  attempts: number;
  /** Mutant M28 alone: the read that is to settle it. */
  settleCall: number;
}

/**
 * A transaction of ours that is known to have committed, or a claim that is known to have lost; taken up by advance.ts within the same
 * step.
 */
export interface SettledTxn {
  readonly purpose: TxnPurpose | "claimLost" | "resume";
  readonly segments: readonly SegmentRecord[];
  readonly segment: SegmentRecord | undefined;
}

export type RollReason = "size" | "age" | "slow" | "timeout" | "link" | "io" | "third" | "disk" | "operator" | "refused" | "gap";
export interface Roll {
  readonly reason: RollReason;
  /** prepare: is the metadata reachable and ours? quiesce: nothing new is sent, the members catch up. create and publish: F3, F4. */
  step: "prepare" | "quiesce" | "frozen";
  call: number;
  deadlineMs: number;
  /** F2, once frozen. */
  end: number;
  /** Members of the old segment that hold all up to `end` / lack some. */
  holders: ReplicaId[];
  lacking: ReplicaId[];
}
export interface Release {
  readonly target: MemberId | undefined;
  /** Ends in DELETED instead of UNOWNED. */
  readonly forever: boolean;
  step: "announce" | "drain" | "seal";
  deadlineMs: number;
}

/** Seal requests still to be confirmed; bounded tries, after that the nodes look the key up by themselves. */
export interface SealTask {
  readonly replica: ReplicaId;
  readonly segment: SegmentId;
  readonly end: number;
  /** Whose transaction published the end. */
  readonly epoch: Epoch;
  call: number;
  deadlineMs: number;
  tries: number;
}

/** A1, A2. */
export interface Reading {
  readonly kind: "reading";
  call: number;
  retryAtMs: number;
  deadlineMs: number;
  releasingSinceMs: number;
  /** Politeness ends then: a live member that holds a register it does not serve must not block the partition for ever. */
  politeUntilMs: number;
}
/** A3 (or giving the partition back before it was open): the transaction is in `txn`. */
export interface Claiming {
  readonly kind: "claiming";
}
/** A4. */
export interface Recovering {
  readonly kind: "recovering";
  readonly recovery: Recovery;
}
/** A5, A6. `sealed` is the tail's record as A6 will publish it; undefined when there is none or its key is left alone. */
export interface Opening {
  readonly kind: "opening";
  readonly base: number;
  readonly producers: ProducerTable;
  readonly sealed: SegmentRecord | undefined;
  readonly sealTo: readonly ReplicaId[];
}
export interface Serving {
  readonly kind: "serving";
  active: ActiveSegment;
  roll: Roll | undefined;
}
export type Role = { readonly kind: "idle" } | Reading | Claiming | Recovering | Opening | Serving;

/** A read of the register that stands in for a barrier. */
export interface BarrierRead {
  readonly call: number;
  readonly deadlineMs: number;
  /** 0 = waiting for the answer. */
  retryAtMs: number;
}
export interface BarrierWait {
  readonly requestId: number;
  readonly deadlineMs: number;
  /** Answered by a barrier of this number or a later one. */
  readonly number: number;
  /**
   * An append that is to be refused once the barrier has shown that this is still the owner; undefined = a question for the latest offset.
   */
  readonly refusal: { readonly code: ErrorCode; readonly baseOffset: number } | undefined;
}

/** Everything the machine knows. Changed in place by `step` alone; a test may look at all of it. */
export interface Partition {
  readonly options: PartitionOptions;
  readonly mutants: Mutants;
  config: PartitionConfig;
  role: Role;
  assignmentRevision: number;
  forceInstance: InstanceId | undefined;
  /** The register as our last write left it (from A3 on). */
  register: { readonly state: RegisterState; readonly modRevision: number } | undefined;
  txn: PendingTxn | undefined;
  settled: SettledTxn | undefined;
  /** A part of the machine has found a reason to roll; taken up by advance.ts within the same step. */
  rollWanted: RollReason | undefined;
  creation: Creation | undefined;
  release: Release | undefined;
  seals: SealTask[];
  /** k of the next segment of this epoch. */
  nextK: number;
  pipeline: Pipeline;
  producers: ProducerTable;
  nextOffset: number;
  committed: number;
  logStart: number;
  nodes: readonly CandidateNode[];
  /** Nodes that failed us, until when they are avoided. */
  readonly avoidUntil: Map<MemberId, number>;
  /** Nodes to which the data link is down: they may live, and an append could not reach them. */
  readonly unlinked: Set<MemberId>;
  leaseUntilMs: number;
  rollsInRow: number;
  /** Rolls away from a member wait until then. */
  nextRollMs: number;
  lastRollMs: number;
  barrierNumber: number;
  /** When the barrier of number barrierNumber went out; 0 = it has been answered. */
  barrierSentMs: number;
  barriers: BarrierWait[];
  /** The barrier of number barrierNumber is not an empty append but this. */
  barrierRead: BarrierRead | undefined;
  callCounter: number;
  nonceCounter: number;
  random: number;
  armedAtMs: number;
  wallMs: number;
  wallAtMs: number;
  lastProbeMs: number;
  lastExpiryMs: number;
  /** Why the last ownership ended, for tests and status pages. */
  lastStepDown: StepDownReason | undefined;
}
