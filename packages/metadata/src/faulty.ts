import { SluiceError } from "@sluice/core/model";
import type { Clock, Random } from "@sluice/runtime";
import type { CallOptions, KeyValue, Lease, MetadataStore, Txn, TxnResult, WatchBatch } from "./port.ts";
import { checkTxn, isReadOnly } from "./txn-check.ts";

/** Chances between 0 and 1 for each call; what is left out is 0. */
export interface MetadataFaults {
  readonly random: Random;
  readonly clock: Clock;
  /** Any call but a watch: METADATA_UNAVAILABLE, nothing is applied. */
  readonly unavailable?: number;
  /** Writing transactions: applied, and the answer is lost. */
  readonly unknownApplied?: number;
  /** Writing transactions: UNKNOWN_OUTCOME, and it never arrived. */
  readonly unknownNotApplied?: number;
  /** Writing transactions: UNKNOWN_OUTCOME, and it is applied up to `lateMsMax` after the caller was told. */
  readonly unknownLate?: number;
  readonly lateMsMax?: number;
  /** Before and after every call, and before every watch batch. */
  readonly delayMsMax?: number;
}
export interface FaultyMetadata extends MetadataStore {
  /** How often each fault was injected. */
  readonly injected: Readonly<Record<InjectedFault, number>>;
  /** From now on no faults; delays stay. */
  calm(): void;
}
export type InjectedFault = "unavailable" | "unknownApplied" | "unknownNotApplied" | "unknownLate";

/**
 * A store that fails as a network would, from a seeded random: what a caller does about UNKNOWN_OUTCOME shows within milliseconds.
 * Reads, watches and leases stay true; only answers are lost, late or refused. `close` closes the store below; transactions that
 * were to be applied late and have not been by then never are.
 */
export function faultyMetadata(store: MetadataStore, faults: MetadataFaults): FaultyMetadata {
  return new FaultyStore(store, faults);
}

class FaultyStore implements FaultyMetadata {
  readonly injected = { unavailable: 0, unknownApplied: 0, unknownNotApplied: 0, unknownLate: 0 };
  readonly #store: MetadataStore;
  readonly #faults: MetadataFaults;
  readonly #closing = new AbortController();
  #calm = false;

  constructor(store: MetadataStore, faults: MetadataFaults) {
    this.#store = store;
    this.#faults = faults;
  }

  calm(): void {
    this.#calm = true;
  }

  get(key: string, options?: CallOptions): Promise<{ readonly entry: KeyValue | undefined; readonly revision: number }> {
    return this.#call(options, () => this.#store.get(key, options));
  }
  list(prefix: string, options?: CallOptions): Promise<{ readonly entries: readonly KeyValue[]; readonly revision: number }> {
    return this.#call(options, () => this.#store.list(prefix, options));
  }
  lease(ttlMs: number, options?: CallOptions): Promise<Lease> {
    return this.#call(options, () => this.#store.lease(ttlMs, options));
  }
  compact(revision: number, options?: CallOptions): Promise<void> {
    return this.#call(options, () => this.#store.compact(revision, options));
  }

  async txn(txn: Txn, options?: CallOptions): Promise<TxnResult> {
    checkTxn(txn);
    return this.#call(options, async () => {
      if (isReadOnly(txn)) return this.#store.txn(txn, options);
      if (this.#hit("unknownNotApplied")) throw lost();
      if (this.#hit("unknownLate")) {
        void this.#applyLate(txn);
        throw lost();
      }
      const result = await this.#store.txn(txn, options);
      if (this.#hit("unknownApplied")) throw lost();
      return result;
    });
  }

  async *watch(prefix: string, fromRevision: number, signal: AbortSignal): AsyncGenerator<WatchBatch> {
    for await (const batch of this.#store.watch(prefix, fromRevision, signal)) {
      await this.#delay();
      if (signal.aborted) return;
      yield batch;
    }
  }

  close(): Promise<void> {
    this.#closing.abort();
    return this.#store.close();
  }

  async #call<T>(options: CallOptions | undefined, work: () => Promise<T>): Promise<T> {
    if (options?.signal?.aborted === true) throw new SluiceError("CANCELLED", "the caller gave up before the call");
    await this.#delay();
    if (this.#hit("unavailable")) throw new SluiceError("METADATA_UNAVAILABLE", "injected: no connection");
    const result = await work();
    await this.#delay();
    return result;
  }

  async #applyLate(txn: Txn): Promise<void> {
    const { clock, random, lateMsMax = 0 } = this.#faults;
    try {
      await clock.sleep(random.float() * lateMsMax, this.#closing.signal);
      await this.#store.txn(txn);
    } catch {
      // The caller was told that the outcome is unknown; closed, or refused by a compare, is one.
    }
  }

  async #delay(): Promise<void> {
    const { clock, random, delayMsMax = 0 } = this.#faults;
    if (delayMsMax > 0) await clock.sleep(random.float() * delayMsMax, this.#closing.signal).catch(() => undefined);
  }

  #hit(fault: InjectedFault): boolean {
    const chance = this.#faults[fault] ?? 0;
    // One draw each, also when calm: the course of a run does not depend on when it was calmed.
    if (this.#faults.random.float() >= chance || this.#calm) return false;
    this.injected[fault]++;
    return true;
  }
}

const lost = (): SluiceError => new SluiceError("UNKNOWN_OUTCOME", "injected: the answer was lost");
