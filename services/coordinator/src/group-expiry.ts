import { codeOf } from "@sluice/core/model";
import type { Clock, Logger, Timer } from "@sluice/runtime";
import type { GroupHost } from "./group-host.ts";
import type { Shard } from "./shard.ts";

export interface GroupExpiryOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly shards: ReadonlyMap<number, Shard>;
  readonly groupsOf: (shard: Shard) => GroupHost;
  readonly retentionMs: number;
  /** Between two looks, ms. */
  readonly intervalMs: number;
  /** Time for one request to a shard, ms. */
  readonly requestMs: number;
}

/** Forgets offsets of groups without members once they are old, and groups that hold nothing any more. */
export class GroupExpiry {
  readonly #options: GroupExpiryOptions;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: GroupExpiryOptions) {
    this.#options = options;
  }
  start(): void {
    this.#arm();
  }
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  #arm(): void {
    if (this.#stopped) return;
    const { clock, intervalMs } = this.#options;
    this.#timer = clock.setTimer(intervalMs, () => void this.#run().finally(() => this.#arm()), { unref: true });
  }
  async #run(): Promise<void> {
    const { shards, groupsOf, logger, clock, retentionMs, requestMs } = this.#options;
    for (const shard of shards.values()) {
      if (shard.phase !== "active") continue;
      let records = 0;
      try {
        for (const { tenant, group } of shard.state.groups.values()) {
          if (this.#stopped) return;
          records += await groupsOf(shard).expire({ tenant, group }, retentionMs, clock.monotonicMs() + requestMs);
        }
      } catch (error) {
        // The next look finds them again.
        logger.debug("old offsets not removed", { shard: shard.shard, code: codeOf(error) });
      }
      if (records > 0) logger.info("old offsets removed", { shard: shard.shard, epoch: shard.epoch, records });
    }
  }
}
