import type { Clock, Timer } from "@sluice/runtime";

/** A timer that fires this late means that the process stood still: nobody else's silence is counted for that time, ms. */
const STANDSTILL_MS = 1_000;

/** One timer for each group: it fires at the earliest moment that was asked for and says how long the process stood still before it. */
export class GroupTimers {
  readonly #clock: Clock;
  readonly #fire: (key: string, stoodStillMs: number) => void;
  readonly #timers = new Map<string, { readonly timer: Timer; readonly atMs: number }>();
  #closed = false;

  constructor(clock: Clock, fire: (key: string, stoodStillMs: number) => void) {
    this.#clock = clock;
    this.#fire = fire;
  }
  /** Monotonic ms; Infinity = not at all. A later moment than the one asked for before is left to the next look. */
  arm(key: string, atMs: number): void {
    const known = this.#timers.get(key);
    if (this.#closed || atMs === Infinity || (known !== undefined && known.atMs <= atMs)) return;
    known?.timer.cancel();
    const timer = this.#clock.setTimer(
      Math.max(0, atMs - this.#clock.monotonicMs()),
      () => {
        this.#timers.delete(key);
        const lateMs = this.#clock.monotonicMs() - atMs;
        this.#fire(key, lateMs > STANDSTILL_MS ? lateMs : 0);
      },
      { unref: true },
    );
    this.#timers.set(key, { timer, atMs });
  }
  forget(key: string): void {
    this.#timers.get(key)?.timer.cancel();
    this.#timers.delete(key);
  }
  /** Nothing is armed any more. */
  close(): void {
    this.#closed = true;
    for (const { timer } of this.#timers.values()) timer.cancel();
    this.#timers.clear();
  }
}
