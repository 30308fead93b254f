import { SluiceError } from "@sluice/core/model";
import type { Clock, Timer } from "@sluice/runtime";
import type { Lease } from "../port.ts";
import { leaseMarginMs, leaseRenewMs } from "../lease-times.ts";

interface Held {
  readonly id: number;
  readonly ttlMs: number;
  readonly lost: AbortController;
  healthy: () => boolean;
  renewedAtMs: number;
  timer: Timer | undefined;
}

/**
 * Leases of one process. Holder and store share the process, so a renewal is a look at the holder's health by timer; a holder that
 * is not healthy for a TTL loses its keys in one revision. A timer that comes late (the process was paused) finds a healthy holder
 * and renews: nobody else can have seen the lease end meanwhile.
 */
export class Leases {
  readonly #clock: Clock;
  readonly #deleteKeys: (id: number) => void;
  readonly #held = new Map<number, Held>();

  /** `deleteKeys` removes the keys of a lease in one revision. */
  constructor(clock: Clock, deleteKeys: (id: number) => void) {
    this.#clock = clock;
    this.#deleteKeys = deleteKeys;
  }

  has(id: number): boolean {
    return this.#held.has(id);
  }

  grant(id: number, ttlMs: number): Lease {
    const held: Held = {
      id,
      ttlMs,
      lost: new AbortController(),
      healthy: () => true,
      renewedAtMs: this.#clock.monotonicMs(),
      timer: undefined,
    };
    this.#held.set(id, held);
    this.#schedule(held, leaseRenewMs(ttlMs));
    return {
      id: String(id),
      ttlMs,
      confirmedUntilMs: () => held.renewedAtMs + ttlMs - leaseMarginMs(ttlMs),
      lost: held.lost.signal,
      setHealthCheck: (healthy) => {
        held.healthy = healthy;
      },
      revoke: async () => {
        if (this.#held.has(id)) this.#end(held);
      },
    };
  }

  /** Ends a lease as if its time had run out: deletes its keys and tells the holder. Unknown ids are ignored. */
  expire(id: number): void {
    const held = this.#held.get(id);
    if (held === undefined) return;
    this.#end(held);
    held.lost.abort(new SluiceError("LEASE_LOST", `lease ${id} has ended`));
  }

  /** Stops the timers; keys stay until the file is opened again. */
  close(): void {
    for (const held of this.#held.values()) held.timer?.cancel();
    this.#held.clear();
  }

  /** The lease stays held when its keys could not be deleted (the disk failed): the error is the caller's, the next tick tries again. */
  #end(held: Held): void {
    this.#deleteKeys(held.id);
    held.timer?.cancel();
    this.#held.delete(held.id);
  }

  #schedule(held: Held, delayMs: number): void {
    held.timer = this.#clock.setTimer(Math.max(1, delayMs), () => this.#tick(held), { unref: true });
  }

  #tick(held: Held): void {
    if (!this.#held.has(held.id)) return;
    const now = this.#clock.monotonicMs();
    if (isHealthy(held)) {
      held.renewedAtMs = now;
    } else if (now >= held.renewedAtMs + held.ttlMs) {
      try {
        this.expire(held.id);
        return;
      } catch {
        // The disk refused; the lease lives on (a TTL is a floor) and the next tick tries again.
      }
    }
    const untilEnd = held.renewedAtMs + held.ttlMs - now;
    this.#schedule(held, untilEnd > 0 ? Math.min(leaseRenewMs(held.ttlMs), untilEnd) : leaseRenewMs(held.ttlMs));
  }
}

/** A check that throws is not healthy. */
function isHealthy(held: Held): boolean {
  try {
    return held.healthy();
  } catch {
    return false;
  }
}
