/** The credit that a consumer granted, in bytes, shared by the partitions of its stream in order of asking. */
export class ConsumeCredit {
  readonly #usedMax: number;
  readonly #waiters: (() => void)[] = [];
  #granted: number;
  #reserved = 0;
  #closed = false;

  /** `usedMax`: reserved at a time, however much was granted. */
  constructor(granted: number, usedMax: number) {
    this.#granted = granted;
    this.#usedMax = usedMax;
  }
  /** Left to send; below zero when one batch was larger than what was left. */
  get left(): number {
    return this.#granted;
  }
  grant(bytes: number): void {
    this.#granted += bytes;
    this.#wake();
  }
  /** Waits until there is some, then reserves up to `bytes` of it; 0 when closed or aborted. Give it back with `settle`. */
  async reserve(bytes: number, signal: AbortSignal): Promise<number> {
    for (;;) {
      if (this.#closed || signal.aborted) return 0;
      const free = Math.min(this.#granted, this.#usedMax) - this.#reserved;
      if (free > 0) {
        const taken = Math.min(free, bytes);
        this.#reserved += taken;
        return taken;
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiters.push(resolve);
      const onAbort = (): void => resolve();
      signal.addEventListener("abort", onAbort, { once: true });
      await promise;
      signal.removeEventListener("abort", onAbort);
      const at = this.#waiters.indexOf(resolve);
      if (at >= 0) this.#waiters.splice(at, 1);
    }
  }
  /** The reservation is over; `used` bytes of data were sent. */
  settle(reserved: number, used: number): void {
    this.#reserved -= reserved;
    this.#granted -= used;
    this.#wake();
  }
  close(): void {
    this.#closed = true;
    for (const waiter of this.#waiters.splice(0)) waiter();
  }
  /** All look again, in the order in which they came. */
  #wake(): void {
    if (Math.min(this.#granted, this.#usedMax) - this.#reserved > 0) for (const waiter of this.#waiters.splice(0)) waiter();
  }
}
