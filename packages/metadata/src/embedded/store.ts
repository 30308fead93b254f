import { isSluiceError, SluiceError } from "@sluice/core/model";
import type { Clock } from "@sluice/runtime";
import type { CallOptions, Compare, KeyValue, Lease, MetadataStore, Op, OpResult, Txn, TxnResult, WatchBatch } from "../port.ts";
import { checkFromRevision, checkKey, checkPrefix, checkTtl, checkTxn } from "../txn-check.ts";
import { Leases } from "./leases.ts";
import { Tables } from "./tables.ts";

export interface EmbeddedMetadataOptions {
  /** A file (its folder is made) or ":memory:". */
  readonly path: string;
  readonly clock: Clock;
}
export interface EmbeddedMetadata extends MetadataStore {
  /** Ends a lease as if its time had run out (simulation and tests of early ends). Unknown ids are ignored. */
  expireLease(id: string): void;
}

/** Events that a watch hands out at a time, rounded up to whole revisions. */
const WATCH_BATCH_EVENTS_MAX = 500;
/** A watch that matches nothing reports progress after this many revisions. */
const WATCH_PROGRESS_REVISIONS = 100;

/**
 * The store within one process, on SQLite. Every call runs to its end in one turn of the event loop, a change with its fsync in it
 * (a file; ":memory:" has none): made for `sluice standalone` and for tests, not for many writes.
 * Only one process can have a file open; opening it ends all leases of the process before, whose holders are gone.
 * Throws FOLDER_IN_USE when the file is open elsewhere, VERSION_MISMATCH when its format is of another version.
 */
export function openEmbeddedMetadata(options: EmbeddedMetadataOptions): EmbeddedMetadata {
  return new EmbeddedStore(options);
}

class EmbeddedStore implements EmbeddedMetadata {
  readonly #tables: Tables;
  readonly #leases: Leases;
  #revision: number;
  #compacted: number;
  #closed = false;
  /** Watches that have delivered everything; each is called once at the next change, or at the end. */
  #waiting = new Set<() => void>();

  constructor(options: EmbeddedMetadataOptions) {
    this.#tables = new Tables(options.path);
    this.#revision = this.#tables.meta("revision");
    this.#compacted = this.#tables.meta("compacted");
    this.#leases = new Leases(options.clock, (id) => this.#deleteKeysOfLease(id));
    this.#deleteKeysOfLease("any");
  }

  async get(key: string, options?: CallOptions): Promise<{ entry: KeyValue | undefined; revision: number }> {
    this.#checkOpen(options);
    checkKey(key);
    return { entry: this.#tables.get(key), revision: this.#revision };
  }

  async list(prefix: string, options?: CallOptions): Promise<{ entries: KeyValue[]; revision: number }> {
    this.#checkOpen(options);
    checkPrefix(prefix, "read");
    return { entries: this.#tables.list(prefix), revision: this.#revision };
  }

  async txn(txn: Txn, options?: CallOptions): Promise<TxnResult> {
    this.#checkOpen(options);
    checkTxn(txn);
    return this.#change((revision) => {
      const succeeded = txn.compare.every((compare) => this.#holds(compare));
      const counter = { sub: 0 };
      const results = (succeeded ? txn.then : (txn.else ?? [])).map((op) => this.#apply(op, revision, counter));
      return { changes: counter.sub, value: (now: number) => ({ succeeded, revision: now, results }) };
    });
  }

  async lease(ttlMs: number, options?: CallOptions): Promise<Lease> {
    this.#checkOpen(options);
    checkTtl(ttlMs);
    const id = this.#tables.meta("lease") + 1;
    this.#change(() => {
      this.#tables.setMeta("lease", id);
      return { changes: 0, value: () => undefined };
    });
    return this.#leases.grant(id, ttlMs);
  }

  expireLease(id: string): void {
    this.#checkOpen();
    this.#leases.expire(Number(id));
  }

  async compact(revision: number, options?: CallOptions): Promise<void> {
    this.#checkOpen(options);
    if (!Number.isSafeInteger(revision) || revision > this.#revision) {
      throw new SluiceError("INVALID_ARGUMENT", `compact at ${revision}, the store is at ${this.#revision}`);
    }
    if (revision <= this.#compacted) return;
    this.#change(() => {
      this.#tables.forgetHistoryBelow(revision);
      this.#tables.setMeta("compacted", revision);
      return { changes: 0, value: () => undefined };
    });
    this.#compacted = revision;
  }

  /** Pulls from the history table: there is no queue per watch, a slow reader costs nothing and may find its history compacted. */
  async *watch(prefix: string, fromRevision: number, signal: AbortSignal): AsyncGenerator<WatchBatch> {
    checkPrefix(prefix, "read");
    let next = checkFromRevision(fromRevision);
    let reported = next - 1;
    while (!signal.aborted) {
      this.#checkOpen();
      if (next < this.#compacted) throw new SluiceError("COMPACTED", `revision ${next} is gone, history begins at ${this.#compacted}`);
      if (next > this.#revision) {
        await this.#nextChange(signal);
        continue;
      }
      const { events, upTo } = this.#tables.changes(prefix, next, this.#revision, WATCH_BATCH_EVENTS_MAX);
      next = upTo + 1;
      if (events.length === 0 && upTo - reported < WATCH_PROGRESS_REVISIONS) continue;
      reported = upTo;
      yield { events, revision: upTo };
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#leases.close();
    this.#tables.close();
    this.#wake();
  }

  #holds(compare: Compare): boolean {
    const entry = this.#tables.get(compare.key);
    const value = compare.target === "mod" ? entry?.modRevision : entry?.createRevision;
    return (value ?? 0) === compare.equals;
  }

  #apply(op: Op, revision: number, counter: { sub: number }): OpResult {
    const tables = this.#tables;
    if (op.kind === "get") {
      const entry = tables.get(op.key);
      return { kind: "range", entries: entry === undefined ? [] : [entry] };
    }
    if (op.kind === "list") return { kind: "range", entries: tables.list(op.prefix) };
    if (op.kind === "put") {
      const lease = Number(op.lease ?? "0");
      if (lease !== 0 && !this.#leases.has(lease)) throw new SluiceError("LEASE_LOST", `lease ${op.lease} does not exist`);
      tables.put(revision, counter.sub++, op.key, op.value, lease);
      return { kind: "put" };
    }
    const keys = op.kind === "delete" ? [op.key] : tables.list(op.prefix).map((entry) => entry.key);
    let deleted = 0;
    for (const key of keys) if (tables.delete(revision, counter.sub + deleted, key)) deleted++;
    counter.sub += deleted;
    return { kind: "delete", deleted };
  }

  #deleteKeysOfLease(id: number | "any"): void {
    const entries = this.#tables.ofLease(id);
    if (entries.length === 0) return;
    this.#change((revision) => {
      entries.forEach((entry, sub) => this.#tables.delete(revision, sub, entry.key));
      return { changes: entries.length, value: () => undefined };
    });
  }

  /**
   * Runs `work` in one SQLite transaction under the next revision, which counts only when something changed.
   * A failure before COMMIT applied nothing; a COMMIT that failed may still be found in the log after a crash.
   */
  #change<T>(work: (revision: number) => { changes: number; value: (now: number) => T }): T {
    const next = this.#revision + 1;
    let done: { changes: number; value: (now: number) => T };
    try {
      this.#tables.begin();
      done = work(next);
      if (done.changes > 0) this.#tables.setMeta("revision", next);
    } catch (error) {
      this.#tables.rollback();
      if (isSluiceError(error)) throw error;
      throw new SluiceError("METADATA_UNAVAILABLE", "the metadata file refused the change", { cause: error });
    }
    try {
      this.#tables.commit();
    } catch (error) {
      this.#tables.rollback();
      throw new SluiceError("UNKNOWN_OUTCOME", "the metadata file failed while committing", { cause: error });
    }
    if (done.changes > 0) {
      this.#revision = next;
      this.#wake();
    }
    return done.value(this.#revision);
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = new Set();
    for (const wake of waiting) wake();
  }

  #nextChange(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        signal.removeEventListener("abort", done);
        this.#waiting.delete(done);
        resolve();
      };
      this.#waiting.add(done);
      signal.addEventListener("abort", done, { once: true });
    });
  }

  #checkOpen(options?: CallOptions): void {
    if (this.#closed) throw new SluiceError("METADATA_UNAVAILABLE", "the metadata store is closed");
    if (options?.signal?.aborted === true) throw new SluiceError("CANCELLED", "the caller gave up before the call");
  }
}
