import { leaderCodec, type Keys } from "@sluice/catalog";
import { codeOf, SluiceError, type InstanceId, type MemberId, type Timers } from "@sluice/core/model";
import type { Lease, MetadataStore, Txn, TxnResult } from "@sluice/metadata";
import type { Clock, Logger } from "@sluice/runtime";
import { SETTLE_ATTEMPTS_MAX } from "./limits.ts";

/**
 * One leader among the controllers: `leader/controller` under its own lease, won by a compare on its absence.
 *
 *   candidate ── key made by me ──► leader ── lease lost, key replaced, asked to stop ──► candidate
 *       ▲                                                                                    │
 *       └────────────────────────────────────────────────────────────────────────────────────┘
 *
 * Every write of a leader carries a compare on the create-revision of its own key, so one that was deposed writes nothing,
 * whatever it still believes.
 */
export interface Leadership {
  /** Create-revision of the leader key: the term. */
  readonly term: number;
  /** Aborted when this term is over. */
  readonly ended: AbortSignal;
  /**
   * A transaction of this term. Resends while the outcome is unknown; then `unknown` is true, and a failed compare may be this very
   * write, applied earlier: read to tell. Throws NOT_LEADER when the term is over.
   */
  txn(txn: Omit<Txn, "else">): Promise<TxnResult & { readonly unknown: boolean }>;
}

export interface ElectionOptions {
  readonly id: MemberId;
  readonly instance: InstanceId;
  readonly store: MetadataStore;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly timers: Timers;
  readonly healthy: () => boolean;
  /** Resolves when the leader key may be free, or never; a poll runs beside it. */
  readonly vacancy: (signal: AbortSignal) => Promise<void>;
  readonly elected: (leadership: Leadership) => void;
  readonly deposed: (cause: string) => void;
}

export class Election {
  readonly #options: ElectionOptions;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  #lease: Lease | undefined;

  constructor(options: ElectionOptions) {
    this.#options = options;
  }
  start(): void {
    this.#running = this.#run();
  }
  /** Gives the leadership up at once, so that another takes it without waiting for a lease. */
  async close(): Promise<void> {
    this.#stop.abort(new SluiceError("SHUTTING_DOWN", "the controller stops"));
    await this.#running;
    await this.#lease?.revoke().catch(() => undefined);
  }

  async #run(): Promise<void> {
    const { clock, logger, timers } = this.#options;
    while (!this.#stop.signal.aborted) {
      try {
        const leadership = await this.#campaign();
        if (leadership === undefined) await this.#awaitVacancy();
        else await this.#reign(leadership);
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        logger.debug("election failed, trying again", { code: codeOf(error) });
        await clock.sleep(timers.metadataRetryMs, this.#stop.signal).catch(() => undefined);
      }
    }
  }

  /** Undefined when somebody else leads. */
  async #campaign(): Promise<Term | undefined> {
    const { store, keys, timers, instance, id, healthy } = this.#options;
    const held = await store.get(keys.leader);
    if (held.entry !== undefined) return undefined;
    const lease = await store.lease(timers.memberLeaseTtlMs);
    lease.setHealthCheck(healthy);
    this.#lease = lease;
    try {
      await store.txn({
        compare: [{ key: keys.leader, target: "create", equals: 0 }],
        then: [{ kind: "put", key: keys.leader, value: leaderCodec.encode({ instance, member: id }), lease: lease.id }],
      });
    } catch (error) {
      if (codeOf(error) !== "UNKNOWN_OUTCOME") {
        await lease.revoke().catch(() => undefined);
        throw error;
      }
    }
    const { entry } = await store.get(keys.leader).catch(() => ({ entry: undefined }));
    if (entry === undefined || entry.lease !== lease.id) {
      await lease.revoke().catch(() => undefined);
      return undefined;
    }
    return new Term(this.#options, lease, entry.createRevision);
  }

  async #reign(term: Term): Promise<void> {
    const { logger, id, instance, elected, deposed } = this.#options;
    logger.info("elected", { member: id, instance, term: term.term });
    elected(term);
    const over = AbortSignal.any([term.ended, this.#stop.signal]);
    await new Promise<void>((resolve) => {
      if (over.aborted) resolve();
      else over.addEventListener("abort", () => resolve(), { once: true });
    });
    const cause = this.#stop.signal.aborted ? "stopping" : term.cause;
    term.end(cause);
    deposed(cause);
    logger.info("deposed", { member: id, instance, term: term.term, cause });
    await this.#lease?.revoke().catch(() => undefined);
  }

  async #awaitVacancy(): Promise<void> {
    const { clock, timers, vacancy } = this.#options;
    const round = new AbortController();
    const signal = AbortSignal.any([round.signal, this.#stop.signal]);
    const poll = clock.sleep(timers.memberLeaseTtlMs / 5, signal);
    await Promise.race([vacancy(signal), poll]).catch(() => undefined);
    round.abort(new SluiceError("CANCELLED", "the round is over"));
    poll.catch(() => undefined);
  }
}

class Term implements Leadership {
  readonly term: number;
  cause = "";
  readonly #options: ElectionOptions;
  readonly #over = new AbortController();

  constructor(options: ElectionOptions, lease: Lease, term: number) {
    this.#options = options;
    this.term = term;
    if (lease.lost.aborted) this.end("lease lost");
    else lease.lost.addEventListener("abort", () => this.end("lease lost"), { once: true });
  }
  get ended(): AbortSignal {
    return this.#over.signal;
  }
  end(cause: string): void {
    if (this.#over.signal.aborted) return;
    this.cause = cause;
    this.#over.abort(new SluiceError("NOT_LEADER", `this controller leads no more: ${cause}`));
  }

  async txn(txn: Omit<Txn, "else">): Promise<TxnResult & { readonly unknown: boolean }> {
    const { store, keys, clock, timers } = this.#options;
    const guarded: Txn = {
      compare: [{ key: keys.leader, target: "create", equals: this.term }, ...txn.compare],
      then: txn.then,
      else: [{ kind: "get", key: keys.leader }],
    };
    let unknown = false;
    for (let attempt = 0; attempt < SETTLE_ATTEMPTS_MAX; attempt += 1) {
      this.ended.throwIfAborted();
      try {
        const done = await store.txn(guarded);
        if (!done.succeeded) this.#checkTerm(done);
        return { ...done, unknown };
      } catch (error) {
        if (codeOf(error) !== "UNKNOWN_OUTCOME") throw error;
        unknown = true;
        await clock.sleep(timers.metadataRetryMs, this.ended);
      }
    }
    this.end("the metadata store gives no answer");
    throw new SluiceError("OUTCOME_UNKNOWN", "the metadata store gave no answer to a write; it may still be applied");
  }

  #checkTerm(done: TxnResult): void {
    const read = done.results[0];
    const entry = read?.kind === "range" ? read.entries[0] : undefined;
    if (entry?.createRevision === this.term) return;
    this.end("another controller was elected");
    this.ended.throwIfAborted();
  }
}
