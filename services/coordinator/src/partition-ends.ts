import { partitionKey, type PartitionId, type PartitionKey } from "@sluice/core/model";
import type { ConfirmedMarks } from "./broker-offsets.ts";

/** Partitions whose end is remembered; the one asked longest ago is forgotten first. */
const KNOWN_PARTITIONS_MAX = 50_000;

/**
 * No group may have read what is not committed. The high watermark of a partition never goes down, so one that was confirmed once allows
 * every commit up to it; only a commit above it asks the partition's owner, once for all that wait for the same answer.
 */
export class PartitionEnds {
  readonly #ask: (p: PartitionId, deadlineMs: number) => Promise<ConfirmedMarks>;
  readonly #known = new Map<PartitionKey, number>();
  readonly #asking = new Map<PartitionKey, Promise<number>>();

  constructor(ask: (p: PartitionId, deadlineMs: number) => Promise<ConfirmedMarks>) {
    this.#ask = ask;
  }

  /** True when everything below `offset` is committed. Throws what the owner said when none answers before the deadline. */
  async reaches(p: PartitionId, offset: number, deadlineMs: number): Promise<boolean> {
    const key = partitionKey(p);
    if (offset <= (this.#known.get(key) ?? 0)) return true;
    const running = this.#asking.get(key);
    // An answer that was on its way before this commit came may be older than it: one question more decides.
    if (running !== undefined && offset <= (await running.catch(() => -1))) return true;
    const end = await (this.#asking.get(key) ?? this.#begin(p, key, deadlineMs));
    return offset <= end;
  }

  #begin(p: PartitionId, key: PartitionKey, deadlineMs: number): Promise<number> {
    const question = this.#ask(p, deadlineMs)
      .then(({ highWatermark }) => this.#remember(key, highWatermark))
      .finally(() => this.#asking.delete(key));
    this.#asking.set(key, question);
    return question;
  }
  #remember(key: PartitionKey, highWatermark: number): number {
    const end = Math.max(highWatermark, this.#known.get(key) ?? 0);
    this.#known.delete(key);
    this.#known.set(key, end);
    const oldest = this.#known.keys().next();
    if (this.#known.size > KNOWN_PARTITIONS_MAX && oldest.done !== true) this.#known.delete(oldest.value);
    return end;
  }
}
