import type { ClientDuplexStream } from "@grpc/grpc-js";
import { isSluiceError, SluiceError, timers } from "@sluice/core/model";
import type { Logger, Timer } from "@sluice/runtime";
import { leaseMarginMs, leaseRenewMs } from "../lease-times.ts";
import type { CallOptions, Lease } from "../port.ts";
import { requireLeader, type Calls } from "./calls.ts";
import type { Endpoint, Endpoints } from "./endpoints.ts";
import type { LeaseClient, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse } from "./protocol.ts";
import { Backoff, type Clock, type Random } from "./retry.ts";

export interface LeaseParts {
  readonly endpoints: Endpoints;
  readonly calls: Calls;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly closing: AbortSignal;
}

/**
 * The id is chosen here, so that a grant whose answer was lost is asked for again under the same id and cannot leave a second lease.
 * etcd counts in whole seconds and has a least TTL of its own: `ttlMs` of the lease is what it granted.
 */
export async function grantLease(parts: LeaseParts, ttlMs: number, options: CallOptions | undefined): Promise<Lease> {
  const id = leaseId(parts.random);
  const seconds = Math.ceil(ttlMs / 1000);
  const sentAtMs = parts.clock.monotonicMs();
  const answer = await parts.calls.repeat<Pick<LeaseGrantResponse, "TTL">>(
    "Lease",
    "leaseGrant",
    { ID: id, TTL: seconds },
    options,
    (failure) => (failure.details.includes("lease already exists") ? { TTL: String(seconds) } : undefined),
  );
  return new EtcdLease(parts, id, Number(answer.TTL) * 1000, sentAtMs);
}

/** 63 random bits that are not zero, as decimal text. */
function leaseId(random: Random): string {
  const bytes = random.bytes(8);
  const id = new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0) & 0x7fff_ffff_ffff_ffffn;
  return (id === 0n ? 1n : id).toString();
}

type KeepAliveStream = ClientDuplexStream<LeaseKeepAliveRequest, LeaseKeepAliveResponse>;

/**
 * Keeps a lease alive.
 *
 *   tick every TTL/3 --healthy?--> keepalive on the stream --answer, TTL > 0--> confirmed until (time at sending) + TTL - margin
 *                    \--no: send nothing                   \-TTL 0: lost (etcd does not know the lease)
 *                                                           \-stream broke, or no answer until the next tick: new stream, next member
 *
 * Time alone never makes it lost: an etcd that was away for longer than the TTL starts the TTL again when it is back, so the keys may
 * well live on. Renewal therefore goes on after the deadline; the holder sees the deadline in `confirmedUntilMs`.
 */
class EtcdLease implements Lease {
  readonly id: string;
  readonly ttlMs: number;
  readonly #parts: LeaseParts;
  readonly #lost = new AbortController();
  readonly #backoff: Backoff;
  readonly #onClosing = (): void => this.#stop();
  #healthy: () => boolean = () => true;
  #renewedAtMs: number;
  #timer: Timer | undefined;
  #stream: KeepAliveStream | undefined;
  #endpoint: Endpoint | undefined;
  /** Times at sending of keepalives without an answer; etcd answers in order. */
  #sentAtMs: number[] = [];
  #stopped = false;
  #revoked: Promise<void> | undefined;

  constructor(parts: LeaseParts, id: string, ttlMs: number, sentAtMs: number) {
    this.#parts = parts;
    this.id = id;
    this.ttlMs = ttlMs;
    this.#renewedAtMs = sentAtMs;
    this.#backoff = new Backoff(timers.metadataRetryMs, parts.random);
    parts.closing.addEventListener("abort", this.#onClosing, { once: true });
    this.#schedule(leaseRenewMs(ttlMs));
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }
  confirmedUntilMs(): number {
    return this.#renewedAtMs + this.ttlMs - leaseMarginMs(this.ttlMs);
  }
  setHealthCheck(healthy: () => boolean): void {
    this.#healthy = healthy;
  }

  async revoke(): Promise<void> {
    this.#stop();
    this.#revoked ??= this.#revoke();
    return this.#revoked;
  }
  async #revoke(): Promise<void> {
    if (this.#lost.signal.aborted) return;
    try {
      await this.#parts.calls.repeat<object>("Lease", "leaseRevoke", { ID: this.id }, undefined);
    } catch (error) {
      if (isSluiceError(error) && error.code === "LEASE_LOST") return;
      this.#revoked = undefined;
      throw error;
    }
  }

  #schedule(delayMs: number): void {
    this.#timer?.cancel();
    if (!this.#stopped) this.#timer = this.#parts.clock.setTimer(delayMs, () => this.#tick(), { unref: true });
  }

  #tick(): void {
    if (this.#stopped) return;
    // No answer since the last tick: that stream hangs.
    if (this.#sentAtMs.length > 0) this.#dropStream("no answer");
    if (this.#isHealthy()) this.#send();
    this.#schedule(leaseRenewMs(this.ttlMs));
  }

  #isHealthy(): boolean {
    try {
      return this.#healthy();
    } catch {
      return false;
    }
  }

  #send(): void {
    this.#stream ??= this.#open();
    this.#sentAtMs.push(this.#parts.clock.monotonicMs());
    this.#stream.write({ ID: this.id });
  }

  #open(): KeepAliveStream {
    const endpoint = this.#parts.endpoints.current();
    this.#endpoint = endpoint;
    const stream = (endpoint.client("Lease") as unknown as LeaseClient).leaseKeepAlive(requireLeader());
    stream.on("data", (answer: LeaseKeepAliveResponse) => {
      if (stream === this.#stream) this.#answered(Number(answer.TTL));
    });
    const ended = (why: string): void => {
      if (stream !== this.#stream) return;
      this.#dropStream(why);
      this.#schedule(Math.min(this.#backoff.next(), leaseRenewMs(this.ttlMs)));
    };
    stream.on("error", (error) => ended(error.message));
    stream.on("end", () => ended("the stream ended"));
    return stream;
  }

  #answered(ttlSeconds: number): void {
    const sentAtMs = this.#sentAtMs.shift();
    if (sentAtMs === undefined) return;
    if (ttlSeconds > 0) {
      this.#renewedAtMs = sentAtMs;
      this.#backoff.reset();
      return;
    }
    this.#stop();
    this.#parts.logger.warn("lease lost", { lease: this.id });
    this.#lost.abort(new SluiceError("LEASE_LOST", `lease ${this.id} has ended`));
  }

  #dropStream(why: string): void {
    const stream = this.#stream;
    this.#stream = undefined;
    this.#sentAtMs = [];
    if (stream === undefined) return;
    stream.cancel();
    if (this.#stopped || this.#endpoint === undefined) return;
    this.#parts.logger.debug("lease keepalive interrupted", { lease: this.id, endpoint: this.#endpoint.address, why });
    this.#parts.endpoints.failed(this.#endpoint);
  }

  #stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#parts.closing.removeEventListener("abort", this.#onClosing);
    this.#dropStream("stopped");
  }
}
