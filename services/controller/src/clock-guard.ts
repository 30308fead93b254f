/**
 * The time that retention may use. A wall clock that jumps forward must not delete data, so
 *
 *   now = min(wall clock, largest persisted append time + monotonic time since it was seen + step)
 *
 * and a wall clock that has stepped further than `step` against the monotonic clock is refused until persisted append times, which
 * other machines stamped, come within `step` of it, or until it steps back. Wrong in the safe direction: data of an idle cluster
 * may stay longer, never shorter.
 */
export class ClockGuard {
  readonly #stepMsMax: number;
  #wallMs: number;
  #monotonicMs: number;
  #persistedMs = 0;
  #persistedSeenMs = 0;
  #refused = false;

  constructor(stepMsMax: number, wallMs: number, monotonicMs: number) {
    this.#stepMsMax = stepMsMax;
    this.#wallMs = wallMs;
    this.#monotonicMs = monotonicMs;
  }
  /** True while the wall clock is not trusted. */
  get refused(): boolean {
    return this.#refused;
  }
  /** @returns retention time, or undefined = delete nothing by age now. */
  now(wallMs: number, monotonicMs: number, largestPersistedMs: number): number | undefined {
    if (largestPersistedMs > this.#persistedMs) {
      this.#persistedMs = largestPersistedMs;
      this.#persistedSeenMs = monotonicMs;
    }
    const step = wallMs - this.#wallMs - (monotonicMs - this.#monotonicMs);
    const confirmed = Math.abs(wallMs - this.#persistedNow(monotonicMs)) <= this.#stepMsMax;
    this.#refused = Math.abs(step) > this.#stepMsMax && !confirmed;
    if (this.#refused) return undefined;
    this.#wallMs = wallMs;
    this.#monotonicMs = monotonicMs;
    return Math.min(wallMs, this.#persistedNow(monotonicMs) + this.#stepMsMax);
  }
  #persistedNow(monotonicMs: number): number {
    return this.#persistedMs + (monotonicMs - this.#persistedSeenMs);
  }
}
