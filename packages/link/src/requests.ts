import type { Clock, Timer } from "@sluice/runtime";
import type { Frame } from "./frame.ts";
import { LINK_REQUESTS_PENDING_MAX, type AnswerCallback, type RequestFailure } from "./link.ts";

interface Pending {
  readonly callback: AnswerCallback;
  readonly deadlineMs: number;
  /** Number of its frame among the credited frames of the link. */
  readonly frameNumber: number;
}
/** Deadlines are looked at no more often than this. */
const DEADLINE_GRAIN_MS = 5;

/** The requests of a link that have no answer yet. */
export class RequestTable {
  readonly #clock: Clock;
  readonly #withdraw: (frameNumber: number) => boolean;
  readonly #pending = new Map<number, Pending>();
  #timer: Timer | undefined;
  #timerDueMs = Infinity;

  /** `withdraw` takes a frame back out of the queue; false when it was handed to the socket. */
  constructor(clock: Clock, withdraw: (frameNumber: number) => boolean) {
    this.#clock = clock;
    this.#withdraw = withdraw;
  }
  get size(): number {
    return this.#pending.size;
  }
  get full(): boolean {
    return this.#pending.size >= LINK_REQUESTS_PENDING_MAX;
  }
  has(correlation: number): boolean {
    return this.#pending.has(correlation);
  }
  add(correlation: number, frameNumber: number, timeoutMs: number, callback: AnswerCallback): void {
    const deadlineMs = this.#clock.monotonicMs() + timeoutMs;
    this.#pending.set(correlation, { callback, deadlineMs, frameNumber });
    if (deadlineMs < this.#timerDueMs) this.#arm(deadlineMs);
  }
  /** False: no such request (its deadline has passed). */
  answer(frame: Frame): boolean {
    const pending = this.#pending.get(frame.correlation);
    if (pending === undefined) return false;
    this.#pending.delete(frame.correlation);
    pending.callback(frame, undefined);
    return true;
  }
  fail(correlation: number, failure: RequestFailure): boolean {
    const pending = this.#pending.get(correlation);
    if (pending === undefined) return false;
    this.#pending.delete(correlation);
    pending.callback(undefined, failure);
    return true;
  }
  /** At the end of the link: sent ones have an unknown outcome, the others had none. */
  failAll(message: string): void {
    this.#timer?.cancel();
    const all = [...this.#pending.values()];
    this.#pending.clear();
    for (const { callback, frameNumber } of all) {
      const sent = !this.#withdraw(frameNumber);
      callback(undefined, { code: sent ? "OUTCOME_UNKNOWN" : "LINK_DOWN", message, sent, answered: false });
    }
  }

  #arm(deadlineMs: number): void {
    this.#timer?.cancel();
    this.#timerDueMs = deadlineMs;
    const delayMs = Math.max(DEADLINE_GRAIN_MS, Math.ceil(deadlineMs - this.#clock.monotonicMs()));
    this.#timer = this.#clock.setTimer(delayMs, () => this.#expire(), { unref: true });
  }
  #expire(): void {
    const now = this.#clock.monotonicMs();
    let next = Infinity;
    this.#timerDueMs = Infinity;
    const expired: Pending[] = [];
    for (const [correlation, pending] of this.#pending) {
      if (pending.deadlineMs <= now) {
        this.#pending.delete(correlation);
        expired.push(pending);
      } else if (pending.deadlineMs < next) next = pending.deadlineMs;
    }
    if (next !== Infinity) this.#arm(next);
    for (const { callback, frameNumber } of expired)
      callback(undefined, {
        code: "TIMED_OUT",
        message: "no answer within the deadline",
        sent: !this.#withdraw(frameNumber),
        answered: false,
      });
  }
}
