/**
 * The port to the cluster's metadata: a small, linearizable, revisioned key-value store with transactions, watches and leases.
 * etcd is the model; the embedded adapter keeps the same promises within one process.
 *
 * Keys are strings, values bytes. Revisions are integers (doubles) that grow with each transaction that changed something.
 * Every unknown outcome is an error with code UNKNOWN_OUTCOME and is never guessed: the transaction may still be applied later,
 * so the caller settles it by sending the identical transaction again, whose compares then tell.
 */
export interface KeyValue {
  readonly key: string;
  readonly value: Uint8Array;
  /** Revision at which the key was created (it changes when a key is deleted and made again). */
  readonly createRevision: number;
  /** Revision of the last change. */
  readonly modRevision: number;
  /** Changes since the creation; 1 for a new key. */
  readonly version: number;
  /** Lease the key is bound to; "0" = none. */
  readonly lease: string;
}

export type Compare =
  | { readonly key: string; readonly target: "mod"; readonly equals: number }
  /** `equals: 0` = the key does not exist. */
  | { readonly key: string; readonly target: "create"; readonly equals: number };

export type Op =
  | { readonly kind: "put"; readonly key: string; readonly value: Uint8Array; readonly lease?: string }
  | { readonly kind: "delete"; readonly key: string }
  | { readonly kind: "deletePrefix"; readonly prefix: string }
  | { readonly kind: "get"; readonly key: string }
  | { readonly kind: "list"; readonly prefix: string };

export type OpResult =
  | { readonly kind: "put" }
  | { readonly kind: "delete"; readonly deleted: number }
  /** For `get` (0 or 1 entries) and `list`, in key order. */
  | { readonly kind: "range"; readonly entries: readonly KeyValue[] };

export interface Txn {
  readonly compare: readonly Compare[];
  readonly then: readonly Op[];
  /** Runs when a compare fails; default empty. */
  readonly else?: readonly Op[];
}
export interface TxnResult {
  /** True when all compares held and `then` ran. */
  readonly succeeded: boolean;
  readonly revision: number;
  /** One per operation of the branch that ran, in order. */
  readonly results: readonly OpResult[];
}

export type WatchEvent =
  | { readonly type: "put"; readonly entry: KeyValue }
  | { readonly type: "delete"; readonly key: string; readonly modRevision: number };

export interface WatchBatch {
  /** All events of one or more whole revisions, in order; may be empty (progress). */
  readonly events: readonly WatchEvent[];
  /** Everything up to and including this revision has been delivered. */
  readonly revision: number;
}

export interface CallOptions {
  /** Milliseconds; the default is `timers.metadataCallTimeoutMs`. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface Lease {
  /** Decimal text (64-bit in etcd). */
  readonly id: string;
  readonly ttlMs: number;
  /**
   * Monotonic milliseconds up to which the lease is known to live: time *at sending* of the last successful keepalive + TTL - margin.
   * Past it the holder is unconfirmed (protocol: leases only make takeover quick; safety never rests on them).
   */
  confirmedUntilMs(): number;
  /** Aborted once the lease is known to be gone (the store said so), never by a mere time-out. */
  readonly lost: AbortSignal;
  /** Renewal goes on only while this returns true (health-gated keepalive); set once by the owner. */
  setHealthCheck(healthy: () => boolean): void;
  /** Ends the lease and deletes its keys. Idempotent. */
  revoke(): Promise<void>;
}

export interface MetadataStore {
  /** Linearizable. */
  get(key: string, options?: CallOptions): Promise<{ readonly entry: KeyValue | undefined; readonly revision: number }>;
  /** Linearizable, one snapshot, in key order (paged inside where the store needs it, at one revision). */
  list(prefix: string, options?: CallOptions): Promise<{ readonly entries: readonly KeyValue[]; readonly revision: number }>;
  /**
   * At most `limits.metadataTxnOpsMax` operations a branch. Two writes to one key in one branch are refused with INVALID_ARGUMENT
   * before anything is sent. Throws UNKNOWN_OUTCOME when the answer was lost, METADATA_UNAVAILABLE only when nothing can have been applied.
   */
  txn(txn: Txn, options?: CallOptions): Promise<TxnResult>;
  /**
   * Batches from `fromRevision` on, inclusive, without loss or repetition across reconnects, until `signal` aborts (then it ends).
   * Throws COMPACTED when the store no longer has that history: list again and watch from the listing's revision + 1.
   */
  watch(prefix: string, fromRevision: number, signal: AbortSignal): AsyncIterable<WatchBatch>;
  /** Grants a lease and keeps it alive until revoked or lost. */
  lease(ttlMs: number, options?: CallOptions): Promise<Lease>;
  /** Forgets history below `revision`. */
  compact(revision: number, options?: CallOptions): Promise<void>;
  /** Idempotent. Calls still open end with METADATA_UNAVAILABLE or UNKNOWN_OUTCOME. */
  close(): Promise<void>;
}
