import { groupRemovalOffsetsMax, type ShardState } from "@sluice/core/group";
import { codeOf, topicId, type TopicId } from "@sluice/core/model";
import { Repeater, type Clock, type Logger } from "@sluice/runtime";
import type { Shard } from "./shard.ts";
import type { Topics } from "./topics.ts";

export interface TopicSweepOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly topics: Topics;
  readonly shards: ReadonlyMap<number, Shard>;
  /** Between two sweeps, ms. */
  readonly intervalMs: number;
  /** Time for one request to a shard, ms. */
  readonly requestMs: number;
}
interface Removal {
  readonly tenant: string;
  readonly group: string;
  readonly offsets: { readonly topicId: string; readonly partition: number }[];
}

/**
 * Removes committed offsets of topics that are gone, so that a shard does not fill up with them. A topic id never comes back, and the
 * metadata itself is asked before a topic counts as gone, so nothing that is in use is ever removed.
 */
export class TopicSweep {
  readonly #options: TopicSweepOptions;
  readonly #repeater: Repeater;

  constructor(options: TopicSweepOptions) {
    this.#options = options;
    const { clock, intervalMs, logger } = options;
    const onError = (error: unknown): void => logger.warn("removed topics not looked for", { code: codeOf(error), err: error });
    this.#repeater = new Repeater({ clock, intervalMs, work: () => this.#run(), onError });
  }
  start(): void {
    this.#repeater.start();
  }
  stop(): void {
    this.#repeater.stop();
  }

  async #run(): Promise<void> {
    for (const shard of this.#options.shards.values()) {
      if (this.#repeater.stopped || shard.phase !== "active") continue;
      try {
        await this.#sweep(shard);
      } catch (error) {
        // The next sweep looks again.
        this.#options.logger.debug("offsets of removed topics not swept", { shard: shard.shard, code: codeOf(error) });
      }
    }
  }
  async #sweep(shard: Shard): Promise<void> {
    const { topics, logger, clock, requestMs } = this.#options;
    const ids = topicsOf(shard.state);
    const there = await topics.byIds(ids);
    const gone = new Set([...ids].filter((id) => !there.has(id)));
    if (gone.size === 0) return;
    let removed = 0;
    for (const removal of removals(shard.state, gone)) {
      await shard.submit({ kind: "remove", ...removal }, clock.monotonicMs() + requestMs);
      removed += removal.offsets.length;
    }
    logger.info("offsets of removed topics deleted", { shard: shard.shard, epoch: shard.epoch, topics: gone.size, offsets: removed });
  }
}

function topicsOf(state: ShardState): Set<TopicId> {
  const ids = new Set<TopicId>();
  for (const group of state.groups.values()) for (const { topicId: id } of group.offsets.values()) ids.add(topicId(id));
  return ids;
}
/** Requests of at most as many offsets as fit one append, whatever the names. */
function removals(state: ShardState, gone: ReadonlySet<string>): Removal[] {
  const out: Removal[] = [];
  for (const { tenant, group, offsets } of state.groups.values()) {
    let open: Removal | undefined;
    for (const { topicId: id, partition } of offsets.values()) {
      if (!gone.has(id)) continue;
      if (open === undefined || open.offsets.length >= groupRemovalOffsetsMax) out.push((open = { tenant, group, offsets: [] }));
      open.offsets.push({ topicId: id, partition });
    }
  }
  return out;
}
