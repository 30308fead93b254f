import type { ShardState } from "@sluice/core/group";
import { codeOf } from "@sluice/core/model";
import type { Clock, Logger } from "@sluice/runtime";
import type { CoordinatorMetrics } from "./metrics.ts";
import type { Claim } from "./shard-register.ts";
import type { Snapshots } from "./snapshots.ts";

/** When a snapshot is due: after so many records or bytes of the log since the last one. */
export interface SnapshotPolicy {
  readonly records: number;
  readonly bytes: number;
  /** At least this long between two attempts, ms. */
  readonly pauseMs: number;
}
export interface SnapshotScheduleOptions {
  readonly shard: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: CoordinatorMetrics;
  readonly snapshots: Snapshots;
  readonly snapshotPolicy: SnapshotPolicy;
  /** Ends with the shard. */
  readonly signal: AbortSignal;
}

/** Counts what the log of one shard has grown by and has a snapshot written, beside the appends, when that is enough. One at a time. */
export class SnapshotSchedule {
  readonly #options: SnapshotScheduleOptions;
  #records = 0;
  #bytes = 0;
  #writing = false;
  #notBeforeMs = 0;

  constructor(options: SnapshotScheduleOptions) {
    this.#options = options;
  }

  count(record: { readonly key: Uint8Array | null; readonly value: Uint8Array | null }): void {
    this.#records += 1;
    this.#bytes += (record.key?.length ?? 0) + (record.value?.length ?? 0);
  }

  /** `written` gets the claim as the register holds it then. */
  writeIfDue(claim: Claim, state: ShardState, written: (claim: Claim) => void): void {
    const { clock, snapshots, snapshotPolicy } = this.#options;
    const due = this.#records >= snapshotPolicy.records || this.#bytes >= snapshotPolicy.bytes;
    if (!due || !snapshots.enabled || this.#writing || clock.monotonicMs() < this.#notBeforeMs) return;
    this.#writing = true;
    void this.#write(claim, state, written).finally(() => {
      this.#writing = false;
      this.#notBeforeMs = clock.monotonicMs() + snapshotPolicy.pauseMs;
    });
  }

  async #write(claim: Claim, state: ShardState, written: (claim: Claim) => void): Promise<void> {
    const { shard, snapshots, metrics, logger, signal } = this.#options;
    const ids = { shard, epoch: claim.record.epoch, offset: state.nextOffset };
    const counted = { records: this.#records, bytes: this.#bytes };
    try {
      const next = await snapshots.write(shard, claim, state, signal);
      if (next === undefined) return metrics.snapshots.labels("lost").inc();
      written(next);
      this.#records -= counted.records;
      this.#bytes -= counted.bytes;
      metrics.snapshots.labels("written").inc();
      logger.info("shard snapshot written", { ...ids, key: next.record.snapshotKey });
    } catch (error) {
      metrics.snapshots.labels("failed").inc();
      if (!signal.aborted) logger.warn("shard snapshot failed", { ...ids, code: codeOf(error), err: error });
    }
  }
}
