import type { PartitionKey } from "@sluice/core/model";
import type { Clock, Timer } from "@sluice/runtime";

/** First what holds records that clients wait for, then what is new, then what is to be deleted. */
export const transitionRanks = { existing: 0, fresh: 1, deleted: 2 } as const;
export type TransitionRank = (typeof transitionRanks)[keyof typeof transitionRanks];

export interface TransitionQueueOptions {
  readonly clock: Clock;
  /** Partitions under way at a time. */
  readonly runningMax: number;
  /** One that takes longer, because it waits for a lease or for storage nodes, no longer counts. */
  readonly slotMs: number;
  /** Starts it; false = there is nothing to do any more. */
  readonly begin: (key: PartitionKey) => boolean;
}

/**
 * Partitions that are to be taken or deleted, so many at a time. A topic of thousands of partitions, made or deleted, would otherwise ask all of the
 * metadata and the storage nodes at once: every answer comes late, what is late is asked for again, and nothing ends.
 *
 *   add ─► waiting, by rank and order of arrival ─► running (at most `runningMax`) ─► ended | slow
 */
export class TransitionQueue {
  readonly #options: TransitionQueueOptions;
  readonly #waiting = [new Set<PartitionKey>(), new Set<PartitionKey>(), new Set<PartitionKey>()] as const;
  readonly #running = new Map<PartitionKey, Timer>();
  #pumping = false;

  constructor(options: TransitionQueueOptions) {
    this.#options = options;
  }
  get waiting(): number {
    return this.#waiting.reduce((sum, { size }) => sum + size, 0);
  }

  /** One that waits already changes its rank, and keeps its place within the same. */
  add(key: PartitionKey, rank: TransitionRank): void {
    this.#waiting.forEach((keys, r) => (r === rank ? keys.add(key) : keys.delete(key)));
    this.#pump();
  }
  /** It is done, given up or gone. */
  ended(key: PartitionKey): void {
    if (this.#forget(key)) this.#pump();
  }
  close(): void {
    for (const keys of this.#waiting) keys.clear();
    for (const timer of this.#running.values()) timer.cancel();
    this.#running.clear();
  }

  #pump(): void {
    // What is begun may end at once.
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      const { runningMax, begin } = this.#options;
      while (this.#running.size < runningMax) {
        const key = this.#next();
        if (key === undefined) break;
        // Before it begins: it may end within.
        this.#run(key);
        if (!begin(key)) this.#forget(key);
      }
    } finally {
      this.#pumping = false;
    }
  }
  #run(key: PartitionKey): void {
    const { clock, slotMs } = this.#options;
    this.#forget(key);
    this.#running.set(
      key,
      clock.setTimer(slotMs, () => this.ended(key), { unref: true }),
    );
  }
  #next(): PartitionKey | undefined {
    for (const keys of this.#waiting)
      for (const key of keys) {
        keys.delete(key);
        return key;
      }
    return undefined;
  }
  #forget(key: PartitionKey): boolean {
    this.#running.get(key)?.cancel();
    return this.#running.delete(key);
  }
}
