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
  /** Calls `fn` once after `delayMs`. Does not keep the process alive by itself when `unref` is true (default false). */
  setTimer(delayMs: number, fn: () => void, options?: { readonly unref?: boolean }): Timer;
  /** Resolves after `delayMs`, rejects with the signal's reason when it aborts. */
  sleep(delayMs: number, signal?: AbortSignal): Promise<void>;
  /** Calls `fn` after the I/O of this turn (setImmediate): where writes of a tick are joined. */
  afterTurn(fn: () => void): void;
}

export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  setTimer(delayMs, fn, options) {
    const handle = setTimeout(fn, delayMs);
    if (options?.unref === true) handle.unref();
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
