import { codeOf } from "@sluice/core/model";
import { Repeater, type Clock, type Logger } from "@sluice/runtime";
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
  readonly #repeater: Repeater;

  constructor(options: GroupExpiryOptions) {
    this.#options = options;
    const { clock, intervalMs, logger } = options;
    const onError = (error: unknown): void => logger.warn("old offsets not looked at", { code: codeOf(error), err: error });
    this.#repeater = new Repeater({ clock, intervalMs, work: () => this.#run(), onError });
  }
  start(): void {
    this.#repeater.start();
  }
  stop(): void {
    this.#repeater.stop();
  }

  async #run(): Promise<void> {
    const { shards, groupsOf, logger, clock, retentionMs, requestMs } = this.#options;
    for (const shard of shards.values()) {
      if (shard.phase !== "active") continue;
      let records = 0;
      try {
        for (const { tenant, group } of shard.state.groups.values()) {
          if (this.#repeater.stopped) return;
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
