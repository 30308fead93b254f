import { SluiceError } from "@sluice/core/model";
import { Fifo } from "./fifo.ts";

/** Something that waits for room, in order. */
export interface Waiter {
  readonly bytes: number;
  readonly deadlineMs: number;
  admit(): void;
  fail(error: SluiceError): void;
}

/**
 * Bytes of a producer that wait or are in flight, and who waits for room. Two bounds: `bytesMax` admitted, and as many bytes again waiting
 * (of callers that did not wait for `send`); beyond that OVERLOADED.
 */
export interface RecordBuffer {
  readonly bytes: number;
  readonly hasRoom: boolean;
  readonly waiting: number;
  /** True = counted. A record larger than the buffer goes alone. */
  take(bytes: number): boolean;
  /** Throws OVERLOADED when too much waits. */
  wait(waiter: Waiter): void;
  give(bytes: number): void;
  room(): Promise<void>;
  /** Resolves when all that waits now has been admitted or has failed. */
  passed(): Promise<void>;
  expire(nowMs: number): void;
  abort(error: SluiceError): void;
}

export function createRecordBuffer(bytesMax: number): RecordBuffer {
  return new Buffered(bytesMax);
}

class Buffered implements RecordBuffer {
  readonly #bytesMax: number;
  #waiters = new Fifo<Waiter>();
  #waitingBytes = 0;
  #admitting = false;
  bytes = 0;
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }
  get hasRoom(): boolean {
    return this.#waiters.length === 0 && this.bytes < this.#bytesMax;
  }
  get waiting(): number {
    return this.#waiters.length;
  }
  take(bytes: number): boolean {
    if (this.#waiters.length > 0 || !this.#fits(bytes)) return false;
    this.bytes += bytes;
    return true;
  }
  wait(waiter: Waiter): void {
    if (this.#waitingBytes + waiter.bytes > this.#bytesMax && this.#waitingBytes > 0)
      throw new SluiceError("OVERLOADED", `${this.bytes} bytes are buffered and ${this.#waitingBytes} wait; wait for send`);
    this.#waitingBytes += waiter.bytes;
    this.#waiters.push(waiter);
  }
  give(bytes: number): void {
    this.bytes -= bytes;
    this.#admit();
  }
  room(): Promise<void> {
    return this.hasRoom ? Promise.resolve() : this.#marker();
  }
  passed(): Promise<void> {
    return this.#waiters.length === 0 ? Promise.resolve() : this.#marker();
  }
  #marker(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiters.push({ bytes: 0, deadlineMs: Number.POSITIVE_INFINITY, admit: resolve, fail: () => resolve() });
    });
  }
  expire(nowMs: number): void {
    // In order of arrival, so in order of deadline; markers have none.
    const first = this.#waiters.first?.deadlineMs ?? Number.POSITIVE_INFINITY;
    if (first > nowMs && first !== Number.POSITIVE_INFINITY) return;
    const kept = new Fifo<Waiter>();
    let late: Waiter[] | undefined;
    for (let w = this.#waiters.shift(); w !== undefined; w = this.#waiters.shift()) {
      if (w.deadlineMs > nowMs) kept.push(w);
      else (late ??= []).push(w);
    }
    this.#waiters = kept;
    for (const w of late ?? []) {
      this.#waitingBytes -= w.bytes;
      w.fail(new SluiceError("TIMED_OUT", "no room in the buffer within deliveryTimeoutMs, so not sent"));
    }
    this.#admit();
  }
  abort(error: SluiceError): void {
    for (let w = this.#waiters.shift(); w !== undefined; w = this.#waiters.shift()) w.fail(error);
    this.#waitingBytes = 0;
  }
  #fits(bytes: number): boolean {
    return this.bytes + bytes <= this.#bytesMax || this.bytes === 0;
  }
  #admit(): void {
    // An admitted record may fail at once and give its bytes back.
    if (this.#admitting) return;
    this.#admitting = true;
    for (let w = this.#waiters.first; w !== undefined; w = this.#waiters.first) {
      if (w.bytes === 0 ? this.bytes >= this.#bytesMax : !this.#fits(w.bytes)) break;
      this.#waiters.shift();
      this.#waitingBytes -= w.bytes;
      this.bytes += w.bytes;
      w.admit();
    }
    this.#admitting = false;
  }
}
