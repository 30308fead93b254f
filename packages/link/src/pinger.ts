import { LINK_PINGS_MISSED_DEAD, type Timers } from "@sluice/core/model";
import type { Clock, Timer } from "@sluice/runtime";

/**
 * Finds half-open links. Every interval without a byte from the peer counts as a miss and sends a ping; after LINK_PINGS_MISSED_DEAD pings
 * without an answer the link is dead. When the timer itself fired late, this process was paused: what the peer sent may lie unread, so the
 * misses start again.
 */
export class Pinger {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #ping: () => void;
  readonly #dead: () => void;
  #timer: Timer | undefined;
  #dueMs = 0;
  #unanswered = 0;
  #heard = false;

  constructor(clock: Clock, timers: Timers, ping: () => void, dead: () => void) {
    this.#clock = clock;
    this.#timers = timers;
    this.#ping = ping;
    this.#dead = dead;
  }
  start(): void {
    this.#arm();
  }
  stop(): void {
    this.#timer?.cancel();
  }
  /** Bytes came from the peer. */
  heard(): void {
    this.#heard = true;
  }
  #arm(): void {
    this.#dueMs = this.#clock.monotonicMs() + this.#timers.linkPingIntervalMs;
    this.#timer = this.#clock.setTimer(this.#timers.linkPingIntervalMs, () => this.#tick(), { unref: true });
  }
  #tick(): void {
    const late = this.#clock.monotonicMs() - this.#dueMs > this.#timers.linkPingLateToleranceMs;
    if (this.#heard || late) this.#unanswered = 0;
    const idle = !this.#heard;
    this.#heard = false;
    if (idle && this.#unanswered >= LINK_PINGS_MISSED_DEAD) {
      this.#dead();
      return;
    }
    this.#arm();
    if (!idle) return;
    this.#unanswered++;
    this.#ping();
  }
}
