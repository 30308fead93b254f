import type { Random } from "@sluice/runtime";
import { clientTimers } from "./timing.ts";

/** Waiting times that double, each drawn between half and all of its bound, so that many clients do not come back together. */
export class Backoff {
  readonly #random: Random;
  #failures = 0;
  constructor(random: Random) {
    this.#random = random;
  }
  get failures(): number {
    return this.#failures;
  }
  nextMs(): number {
    const bound = Math.min(clientTimers.retryMaxMs, clientTimers.retryMinMs * 2 ** this.#failures);
    if (bound < clientTimers.retryMaxMs) this.#failures++;
    return bound / 2 + this.#random.float() * (bound / 2);
  }
  reset(): void {
    this.#failures = 0;
  }
}
