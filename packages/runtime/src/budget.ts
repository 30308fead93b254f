import { SluiceError } from "@sluice/core/model";

interface Waiter {
  readonly bytes: number;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
  readonly signal: AbortSignal | undefined;
  readonly onAbort: () => void;
}

/**
 * A limit in bytes with waiters in order of arrival. `take` waits, `tryTake` does not; a request over the whole limit is refused with
 * FRAME_TOO_LARGE, one beyond `waitersMax` with OVERLOADED. Count things instead of bytes by taking 1 each.
 */
export class ByteBudget {
  readonly name: string;
  readonly limitBytes: number;
  readonly #waitersMax: number;
  readonly #waiters: Waiter[] = [];
  #usedBytes = 0;

  constructor(options: { readonly name: string; readonly limitBytes: number; readonly waitersMax: number }) {
    this.name = options.name;
    this.limitBytes = options.limitBytes;
    this.#waitersMax = options.waitersMax;
  }
  get usedBytes(): number {
    return this.#usedBytes;
  }
  get waiting(): number {
    return this.#waiters.length;
  }
  tryTake(bytes: number): boolean {
    if (this.#waiters.length > 0 || this.#usedBytes + bytes > this.limitBytes) return false;
    this.#usedBytes += bytes;
    return true;
  }
  take(bytes: number, signal?: AbortSignal): Promise<void> {
    if (bytes > this.limitBytes) {
      return Promise.reject(new SluiceError("FRAME_TOO_LARGE", `${bytes} bytes are over ${this.name} of ${this.limitBytes}`));
    }
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
    if (this.tryTake(bytes)) return Promise.resolve();
    if (this.#waiters.length >= this.#waitersMax) {
      return Promise.reject(new SluiceError("OVERLOADED", `${this.name}: ${this.limitBytes} bytes taken and ${this.#waitersMax} waiting`));
    }
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        bytes,
        resolve,
        reject,
        signal,
        onAbort: () => {
          const at = this.#waiters.indexOf(waiter);
          if (at >= 0) this.#waiters.splice(at, 1);
          reject(signal?.reason as Error);
          this.#wake();
        },
      };
      signal?.addEventListener("abort", waiter.onAbort, { once: true });
      this.#waiters.push(waiter);
    });
  }
  release(bytes: number): void {
    if (bytes > this.#usedBytes) throw new RangeError(`${this.name}: ${bytes} bytes released, ${this.#usedBytes} taken`);
    this.#usedBytes -= bytes;
    this.#wake();
  }
  /** Turns every waiter away, when the owner stops. */
  rejectAll(reason: unknown): void {
    for (const waiter of this.#waiters.splice(0)) {
      waiter.signal?.removeEventListener("abort", waiter.onAbort);
      waiter.reject(reason);
    }
  }
  #wake(): void {
    for (let first = this.#waiters[0]; first !== undefined && this.#usedBytes + first.bytes <= this.limitBytes; first = this.#waiters[0]) {
      this.#waiters.shift();
      this.#usedBytes += first.bytes;
      first.signal?.removeEventListener("abort", first.onAbort);
      first.resolve();
    }
  }
}
