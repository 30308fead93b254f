import type { Process } from "./process.ts";
import type { Rng } from "./random.ts";
import type { Scheduler } from "./scheduler.ts";

export interface NetworkFaults {
  readonly dropChance: number;
  readonly duplicateChance: number;
  /** Chance that a message is late by up to `lateMs`: later ones overtake it. */
  readonly lateChance: number;
  readonly lateMs: number;
}
export const noNetworkFaults: NetworkFaults = { dropChance: 0, duplicateChance: 0, lateChance: 0, lateMs: 0 };

/** Messages with delay, loss, repetition and overtaking; cuts are one-way. */
export class Network {
  faults: NetworkFaults = noNetworkFaults;
  readonly #scheduler: Scheduler;
  readonly #rng: Rng;
  readonly #cuts = new Set<string>();
  readonly #lastAt = new Map<string, number>();

  constructor(scheduler: Scheduler, rng: Rng) {
    this.#scheduler = scheduler;
    this.#rng = rng;
  }
  cut(from: string, to: string): void {
    this.#cuts.add(`${from}>${to}`);
  }
  join(from: string, to: string): void {
    this.#cuts.delete(`${from}>${to}`);
  }
  joinAll(): void {
    this.#cuts.clear();
  }
  isCut(from: string, to: string): boolean {
    return this.#cuts.has(`${from}>${to}`);
  }
  send(from: string, to: Process, run: () => void): void {
    const { faults } = this;
    if (this.isCut(from, to.name) || this.#rng.chance(faults.dropChance)) return;
    const copies = this.#rng.chance(faults.duplicateChance) ? 2 : 1;
    for (let i = 0; i < copies; i++) {
      // In order between two ends, as a connection keeps it; a late one is overtaken.
      const pair = `${from}>${to.name}`;
      let at = Math.max(this.#scheduler.now + this.#rng.between(0.2, 1), this.#lastAt.get(pair) ?? 0);
      if (this.#rng.chance(faults.lateChance)) at += this.#rng.between(0, faults.lateMs);
      else this.#lastAt.set(pair, at);
      this.#scheduler.at(at, () => {
        if (!this.isCut(from, to.name)) to.deliver(run);
      });
    }
  }
}
