import type { Random } from "@sluice/runtime";

export type { Clock, Random } from "@sluice/runtime";

/** Between half of `ms` and `ms`, so that many clients do not come back at once. */
export const jittered = (ms: number, random: Random): number => ms * (0.5 + random.float() / 2);

const BACKOFF_MS_MAX = 1_000;

/** Growing pauses between tries, from `baseMs` up to one second. */
export class Backoff {
  readonly #baseMs: number;
  readonly #random: Random;
  #nextMs: number;
  constructor(baseMs: number, random: Random) {
    this.#baseMs = baseMs;
    this.#random = random;
    this.#nextMs = baseMs;
  }
  next(): number {
    const ms = jittered(this.#nextMs, this.#random);
    this.#nextMs = Math.min(BACKOFF_MS_MAX, this.#nextMs * 2);
    return ms;
  }
  reset(): void {
    this.#nextMs = this.#baseMs;
  }
}
