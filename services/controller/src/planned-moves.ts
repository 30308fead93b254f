import type { ClusterView } from "@sluice/catalog";
import { partitionKey, type MemberId, type PartitionId, type PartitionKey } from "@sluice/core/model";
import { firstMoveWindow, nextMoveWindow } from "@sluice/core/placement";

interface Move {
  readonly id: PartitionId;
  readonly to: MemberId;
  readonly beganMs: number;
}

/** Planned moves that this term ordered, until their partitions are served again; how long they took says how many may be under way. */
export class PlannedMoves {
  readonly #view: ClusterView;
  readonly #max: number;
  readonly #forgetMs: number;
  readonly #moves = new Map<PartitionKey, Move>();
  #window: number;

  /** @param forgetMs one that takes longer counts as slow, and is waited for no more: others see to it */
  constructor(view: ClusterView, max: number, forgetMs: number) {
    this.#view = view;
    this.#max = max;
    this.#forgetMs = forgetMs;
    this.#window = firstMoveWindow(max);
  }
  /** At a time. */
  get window(): number {
    return Math.floor(this.#window);
  }
  has(id: PartitionId): boolean {
    return this.#moves.has(partitionKey(id));
  }

  began(id: PartitionId, to: MemberId, nowMs: number): void {
    this.#moves.set(partitionKey(id), { id, to, beganMs: nowMs });
  }
  look(nowMs: number): void {
    for (const [key, { id, to, beganMs }] of this.#moves) {
      const p = this.#view.partition(id);
      // Removed, or sent elsewhere meanwhile: it tells nothing.
      if (p?.assigned?.record.broker !== to) {
        this.#moves.delete(key);
        continue;
      }
      const tookMs = nowMs - beganMs;
      const isServed = p.state?.record.phase === "OPEN" && p.state.record.owner === to;
      if (!isServed && tookMs <= this.#forgetMs) continue;
      this.#moves.delete(key);
      this.#window = nextMoveWindow(this.#window, tookMs, this.#max);
    }
  }
}
