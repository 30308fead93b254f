/** Time, as a component: wall clock for timestamps and retention, monotonic clock for everything else. */
export interface Timer {
  /** Idempotent. */
  cancel(): void;
}
export interface Clock {
  /** Milliseconds since 1970; may jump. */
  wallMs(): number;
  /** Milliseconds since some start; never goes back; has fractions. */
  monotonicMs(): number;
  /** Calls `fn` once after `delayMs`, never before, by the monotonic clock. Does not keep the process alive by itself when `unref` is true (default false). */
  setTimer(delayMs: number, fn: () => void, options?: { readonly unref?: boolean }): Timer;
  /** Resolves after `delayMs`, rejects with the signal's reason when it aborts. */
  sleep(delayMs: number, signal?: AbortSignal): Promise<void>;
  /** Calls `fn` after the I/O of this turn (setImmediate): where writes of a tick are joined. */
  afterTurn(fn: () => void): void;
}

/** Node takes longer delays for 1 ms. */
const NODE_TIMER_MS_MAX = 2 ** 31 - 1;

export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  setTimer(delayMs, fn, options) {
    const dueMs = performance.now() + delayMs;
    // Node cuts fractions off and counts from a truncated now: its timers come up to a millisecond early.
    const look = (): void => {
      const leftMs = dueMs - performance.now();
      if (leftMs <= 0) fn();
      else wait(leftMs);
    };
    let handle: NodeJS.Timeout;
    const wait = (ms: number): void => {
      handle = setTimeout(look, Math.min(Math.ceil(ms), NODE_TIMER_MS_MAX));
      if (options?.unref === true) handle.unref();
    };
    wait(delayMs);
    return { cancel: () => clearTimeout(handle) };
  },
  sleep(delayMs, signal) {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason as Error);
        return;
      }
      const onAbort = (): void => {
        clearTimeout(handle);
        reject(signal?.reason as Error);
      };
      const handle = setTimeout(() => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      }, delayMs);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  },
  afterTurn: (fn) => void setImmediate(fn),
};
