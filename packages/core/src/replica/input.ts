import type {
  AppendedAnswer,
  AppendRequest,
  CreateAnswer,
  CreateRequest,
  FenceAnswer,
  FenceRequest,
  RebuildAnswer,
  RebuildRequest,
  RecoveryAppendAnswer,
  RecoveryAppendRequest,
  SealAnswer,
  SealRequest,
  SegmentAddress,
} from "./api.ts";
import type { JournalEntry } from "../journal/entry.ts";

/**
 * Drops the local copy. `released`: the segment's key was read and says LOCAL_DELETING or DELETING. `orphan`: the caller has made the one
 * linearizable read of the drop rule (drop-rule.ts) and it allows the drop; `stateEpoch` is the epoch of the register in that read.
 */
export interface DeleteRequest extends SegmentAddress {
  readonly cause: "released" | "orphan";
  readonly stateEpoch: number;
}
export interface DeleteAnswer {
  readonly code: number;
  readonly message?: string;
}

export type ControlRequest =
  | ({ readonly op: "create" } & CreateRequest)
  | ({ readonly op: "fence" } & FenceRequest)
  | ({ readonly op: "recovery-append" } & RecoveryAppendRequest)
  | ({ readonly op: "rebuild" } & RebuildRequest)
  | ({ readonly op: "seal" } & SealRequest)
  | ({ readonly op: "delete" } & DeleteRequest);
export type ControlAnswer =
  | ({ readonly op: "create" } & CreateAnswer)
  | ({ readonly op: "fence" } & FenceAnswer)
  | ({ readonly op: "recovery-append" } & RecoveryAppendAnswer)
  | ({ readonly op: "rebuild" } & RebuildAnswer)
  | ({ readonly op: "seal" } & SealAnswer)
  | ({ readonly op: "delete" } & DeleteAnswer);

export type ReplicaInput =
  /** `origin`: number of the connection it came on. Wall time `nowMs` is used when the request carries no append time. */
  | { readonly kind: "append"; readonly origin: number; readonly nowMs: number; readonly request: AppendRequest }
  /** One call, one or many segments (CreateMany, FenceMany, SealMany): the answers leave together. `ref` is the caller's own number. */
  | { readonly kind: "control"; readonly ref: number; readonly nowMs: number; readonly requests: readonly ControlRequest[] }
  /** Every entry with a sequence up to this one is on disk. */
  | { readonly kind: "durable"; readonly upTo: number }
  /** A write or a sync failed. For good: nothing after this makes the node trusted again. */
  | { readonly kind: "journal-failed" }
  /** Above the write limit of the disk: appends are refused until it is lifted. */
  | { readonly kind: "disk-full"; readonly full: boolean }
  /** The disk fills up: this segment's owner shall roll it away (only sealed segments can be offloaded). */
  | { readonly kind: "ask-roll"; readonly segmentNumber: number }
  /** The connection is gone: nobody waits for its answers. */
  | { readonly kind: "origin-gone"; readonly origin: number };

export type ReplicaEffect =
  /** Write this entry. Sequences grow by one; entries go to the journal in this order. */
  | { readonly kind: "journal"; readonly sequence: number; readonly entry: JournalEntry }
  /** Cumulative answers to appends of one connection. */
  | { readonly kind: "appended"; readonly origin: number; readonly answers: readonly AppendedAnswer[] }
  /** Answers to a control call, in the order of its requests; all that was promised in them is durable. */
  | { readonly kind: "answer"; readonly ref: number; readonly answers: readonly ControlAnswer[] }
  /** The deletion is durable: the bytes of the segment may go. */
  | { readonly kind: "dropped"; readonly segmentNumber: number }
  /** Something that must never happen: an operator has to see it. */
  | { readonly kind: "alarm"; readonly segmentNumber: number; readonly message: string };

/** The bugs that the suites must be able to find: planted for tests alone, all off by default. */
export interface ReplicaMutants {
  /** An append to a segment that was never created makes it. */
  readonly M7?: boolean;
  /** A fence is kept in memory only. */
  readonly M8?: boolean;
  /** Answers leave before the sync. */
  readonly M9?: boolean;
  /** Epoch checks let the predecessor through. */
  readonly M16?: boolean;
  /** An unsealed segment is read up to the mark of any epoch. */
  readonly M22?: boolean;
  /** Entries that are unknown count as absent. */
  readonly M24?: boolean;
  /** A copy that ends before the end counts as sealed. */
  readonly M25?: boolean;
  /** A fence does not check the incarnation. */
  readonly M26?: boolean;
  /** A retry is answered before the first copy of its entry is durable. */
  readonly M27?: boolean;
  /** A copy that is no member is dropped while its epoch is current. */
  readonly M30?: boolean;
}
