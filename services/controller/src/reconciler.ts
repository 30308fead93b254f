import type { ViewChange } from "@sluice/catalog";
import { codeOf } from "@sluice/core/model";
import type { Timer } from "@sluice/runtime";
import type { Duty } from "./duty.ts";

/** Changes that come in bursts (registers move with every roll) are looked at together. */
const QUIET_MS = 25;

/**
 * Runs `round` whenever something that it looks at has changed, and every `limits.reconcileMs` anyhow; one at a time.
 * A round that failed is repeated: it starts from what is there, so nothing needs to be undone.
 */
export class Reconciler {
  readonly #duty: Duty;
  readonly #round: () => Promise<void>;
  #timer: Timer | undefined;
  #dueMs = Number.POSITIVE_INFINITY;
  #running = false;
  #asked = false;
  #stopped = false;
  #waiters: (() => void)[] = [];
  #unsubscribe: (() => void) | undefined;

  constructor(duty: Duty, round: () => Promise<void>) {
    this.#duty = duty;
    this.#round = round;
  }
  start(): void {
    this.#unsubscribe = this.#duty.view.onChange((changes) => this.#onChange(changes));
    this.request(0);
  }
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#unsubscribe?.();
    for (const done of this.#waiters.splice(0)) done();
  }
  /** A round within `delayMs`. */
  request(delayMs = 0): void {
    if (this.#stopped) return;
    const { clock } = this.#duty;
    const dueMs = clock.monotonicMs() + delayMs;
    if (this.#running) {
      this.#asked = true;
      return;
    }
    if (dueMs >= this.#dueMs) return;
    this.#timer?.cancel();
    this.#dueMs = dueMs;
    this.#timer = clock.setTimer(delayMs, () => void this.#run());
  }
  /** Resolves after a whole round that began after the call. */
  settled(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
      this.request(0);
    });
  }

  #onChange(changes: readonly ViewChange[]): void {
    let delayMs = Number.POSITIVE_INFINITY;
    for (const { kind } of changes) {
      if (kind === "member" || kind === "topic" || kind === "cluster") delayMs = 0;
      else if (kind === "state" || kind === "assigned") delayMs = Math.min(delayMs, QUIET_MS);
    }
    if (delayMs !== Number.POSITIVE_INFINITY) this.request(delayMs);
  }

  async #run(): Promise<void> {
    const { clock, metrics, logger, timers, limits } = this.#duty;
    this.#timer = undefined;
    this.#dueMs = Number.POSITIVE_INFINITY;
    this.#running = true;
    this.#asked = false;
    const waiters = this.#waiters;
    this.#waiters = [];
    const beganMs = clock.monotonicMs();
    let again: number = limits.reconcileMs;
    try {
      await this.#round();
      metrics.reconcile.observe((clock.monotonicMs() - beganMs) / 1_000);
    } catch (error) {
      if (!this.#stopped) {
        metrics.reconcileFailures.inc();
        logger.warn("reconciliation failed, trying again", { code: codeOf(error), err: error });
        again = timers.metadataRetryMs;
      }
    }
    this.#running = false;
    for (const done of waiters) done();
    if (this.#asked || this.#waiters.length > 0) again = Math.min(again, this.#waiters.length > 0 ? 0 : QUIET_MS);
    this.request(again);
  }
}
