import type { Clock, Timer } from "../clock.ts";

/** Where `ManualClock` starts unless told otherwise: 2026-01-01T00:00:00Z. */
const START_WALL_MS = 1_767_225_600_000;

interface Pending {
  readonly dueMs: number;
  /** Order of creation: timers due at the same moment fire in it. */
  readonly order: number;
  readonly fn: () => void;
}

/**
 * A clock that moves only when the test moves it.
 *
 *   advance(ms)       runs turns, then every timer due in order of (due, creation), a turn after each
 *   advanceAsync(ms)  the same, and lets promises and I/O callbacks run in between
 *   runTurn()         runs what `afterTurn` collected
 *
 * A timer that a timer sets fires in the same `advance` when it is due within it.
 */
export class ManualClock implements Clock {
  readonly #timers = new Set<Pending>();
  #turn: (() => void)[] = [];
  #nowMs = 0;
  #wallAtZeroMs: number;
  #order = 0;

  constructor(options: { readonly wallMs?: number } = {}) {
    this.#wallAtZeroMs = options.wallMs ?? START_WALL_MS;
  }
  wallMs(): number {
    return this.#wallAtZeroMs + this.#nowMs;
  }
  monotonicMs(): number {
    return this.#nowMs;
  }
  setTimer(delayMs: number, fn: () => void): Timer {
    const pending: Pending = { dueMs: this.#nowMs + Math.max(0, delayMs), order: this.#order++, fn };
    this.#timers.add(pending);
    return { cancel: () => void this.#timers.delete(pending) };
  }
  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason as Error);
        return;
      }
      const onAbort = (): void => {
        timer.cancel();
        reject(signal?.reason as Error);
      };
      const timer = this.setTimer(delayMs, () => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      });
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }
  afterTurn(fn: () => void): void {
    this.#turn.push(fn);
  }

  /** Timers that have not fired. */
  get pendingTimers(): number {
    return this.#timers.size;
  }
  /** Callbacks that wait for the end of the turn. */
  get pendingTurn(): number {
    return this.#turn.length;
  }
  /** Milliseconds until the next timer; undefined when there is none. */
  nextTimerInMs(): number | undefined {
    const next = this.#next();
    return next === undefined ? undefined : next.dueMs - this.#nowMs;
  }
  /** Moves the wall clock alone, as an administrator or NTP would. */
  jumpWall(deltaMs: number): void {
    this.#wallAtZeroMs += deltaMs;
  }
  /** Runs what `afterTurn` collected; what that collects waits for the next turn, as with setImmediate. */
  runTurn(): void {
    const turn = this.#turn;
    this.#turn = [];
    for (const fn of turn) fn();
  }
  advance(ms: number): void {
    const untilMs = this.#nowMs + ms;
    this.runTurn();
    for (let next = this.#next(); next !== undefined && next.dueMs <= untilMs; next = this.#next()) {
      this.#fire(next);
      this.runTurn();
    }
    this.#nowMs = untilMs;
  }
  async advanceAsync(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    await this.#settle();
    for (let next = this.#next(); next !== undefined && next.dueMs <= untilMs; next = this.#next()) {
      this.#fire(next);
      await this.#settle();
    }
    this.#nowMs = untilMs;
  }
  #fire(pending: Pending): void {
    this.#timers.delete(pending);
    this.#nowMs = Math.max(this.#nowMs, pending.dueMs);
    pending.fn();
  }
  #next(): Pending | undefined {
    let first: Pending | undefined;
    for (const t of this.#timers) {
      if (first === undefined || t.dueMs < first.dueMs || (t.dueMs === first.dueMs && t.order < first.order)) first = t;
    }
    return first;
  }
  async #settle(): Promise<void> {
    this.runTurn();
    await new Promise<void>((resolve) => void setImmediate(resolve));
    this.runTurn();
    await new Promise<void>((resolve) => void setImmediate(resolve));
  }
}
