import { Metadata, status, type Client, type ClientUnaryCall, type ServiceError } from "@grpc/grpc-js";
import { SluiceError, timers } from "@sluice/core/model";
import type { CallOptions } from "../port.ts";
import type { Endpoint, Endpoints } from "./endpoints.ts";
import type { ServiceName } from "./protocol.ts";
import { Backoff, type Clock, type Random } from "./retry.ts";

/** A call that got no answer, or an answer that is an error. */
export interface CallFailure {
  readonly reason: "timeout" | "aborted" | "status";
  /** CANCELLED for the first two. */
  readonly status: status;
  readonly details: string;
}
type Method = (request: unknown, metadata: Metadata, done: (error: ServiceError | null, answer: unknown) => void) => ClientUnaryCall;

/**
 * Streams and calls with it are ended by a member that has lost touch with its leader, instead of being left without answers.
 * etcd looks for the key, not the value.
 */
export function requireLeader(): Metadata {
  const metadata = new Metadata();
  metadata.set("hasleader", "true");
  return metadata;
}

/**
 * Unary calls. The question behind every failure is whether etcd may have carried the call out:
 *
 *   no connection, nothing was sent           METADATA_UNAVAILABLE   certainly not applied
 *   etcd's answer refuses the request         the code of the answer certainly not applied (see `refusal`)
 *   anything after the call was handed over   UNKNOWN_OUTCOME        for writes; reads are asked again until the time is up
 *
 * gRPC's status does not tell the second from the third line: UNAVAILABLE is a refused connection, a connection that broke after the
 * request arrived, and a leader that changed while the entry was in its log. So a write waits for a connection first and counts as
 * sent from then on. RESOURCE_EXHAUSTED is no refusal: etcd answers "database space exceeded" also to the transaction that it has
 * just applied.
 */
export class Calls {
  readonly #endpoints: Endpoints;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #closing: AbortSignal;
  readonly #metadata = requireLeader();

  constructor(endpoints: Endpoints, clock: Clock, random: Random, closing: AbortSignal) {
    this.#endpoints = endpoints;
    this.#clock = clock;
    this.#random = random;
    this.#closing = closing;
  }

  /** For calls that may be carried out more than once. `accept` may turn a failure into an answer or throw; undefined = try again. */
  async repeat<T>(
    service: ServiceName,
    method: string,
    request: object,
    options: CallOptions | undefined,
    accept?: (failure: CallFailure) => T | undefined,
  ): Promise<T> {
    const timeoutMs = options?.timeoutMs ?? timers.metadataCallTimeoutMs;
    const untilMs = this.#clock.monotonicMs() + timeoutMs;
    const signal = this.#signal(options);
    const backoff = new Backoff(timers.metadataRetryMs, this.#random);
    for (let last: CallFailure | undefined; ;) {
      const endpoint = await this.#ready(untilMs, signal, last);
      // One member that hangs must not use up the time of the others.
      const leftMs = untilMs - this.#clock.monotonicMs();
      const attemptMs = this.#endpoints.count === 1 ? leftMs : Math.min(leftMs, timeoutMs / this.#endpoints.count);
      const failure = await this.#send(endpoint, service, method, request, attemptMs, signal);
      if ("answer" in failure) return failure.answer as T;
      const accepted = accept?.(failure);
      if (accepted !== undefined) return accepted;
      const refused = refusal(failure);
      if (refused !== undefined) throw refused;
      this.#endpoints.failed(endpoint);
      last = failure;
      const pauseMs = Math.min(backoff.next(), untilMs - this.#clock.monotonicMs());
      if (pauseMs > 0 && !signal.aborted) await this.#clock.sleep(pauseMs, signal).catch(() => undefined);
    }
  }

  /** Sent at most once. */
  async once<T>(service: ServiceName, method: string, request: object, options: CallOptions | undefined): Promise<T> {
    const untilMs = this.#clock.monotonicMs() + (options?.timeoutMs ?? timers.metadataCallTimeoutMs);
    const signal = this.#signal(options);
    const endpoint = await this.#ready(untilMs, signal, undefined);
    const failure = await this.#send(endpoint, service, method, request, untilMs - this.#clock.monotonicMs(), signal);
    if ("answer" in failure) return failure.answer as T;
    const refused = refusal(failure);
    if (refused !== undefined) throw refused;
    this.#endpoints.failed(endpoint);
    throw new SluiceError("UNKNOWN_OUTCOME", `${method} on ${endpoint.address}: ${failure.details}`, { cause: failure });
  }

  #signal(options: CallOptions | undefined): AbortSignal {
    return options?.signal === undefined ? this.#closing : AbortSignal.any([options.signal, this.#closing]);
  }

  /** Throws when nothing has been sent (by this try) and nothing will be. */
  async #ready(untilMs: number, signal: AbortSignal, last: CallFailure | undefined): Promise<Endpoint> {
    const endpoint = await this.#endpoints.ready(untilMs, signal);
    if (endpoint !== undefined && !signal.aborted && this.#clock.monotonicMs() < untilMs) return endpoint;
    if (this.#closing.aborted) throw new SluiceError("METADATA_UNAVAILABLE", "the metadata store is closed");
    if (signal.aborted) throw new SluiceError("CANCELLED", "the caller gave up", { cause: signal.reason });
    throw new SluiceError("METADATA_UNAVAILABLE", `etcd: ${last?.details ?? "no connection"}`, { cause: last });
  }

  #send(
    endpoint: Endpoint,
    service: ServiceName,
    method: string,
    request: object,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<CallFailure | { readonly answer: unknown }> {
    const client = endpoint.client(service) as Client & Record<string, Method>;
    return new Promise((resolve) => {
      let reason: CallFailure["reason"] = "status";
      const cancel = (why: "timeout" | "aborted"): void => {
        reason = why;
        call.cancel();
      };
      const onAbort = (): void => cancel("aborted");
      const call = (client[method] as Method).call(client, request, this.#metadata, (error, answer) => {
        timer.cancel();
        signal.removeEventListener("abort", onAbort);
        if (error === null) resolve({ answer });
        else resolve({ reason, status: error.code, details: reason === "status" ? error.details : `${reason} after the request was sent` });
      });
      // Own timer instead of a gRPC deadline, which is a moment of the wall clock.
      const timer = this.#clock.setTimer(timeoutMs, () => cancel("timeout"));
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }
}

/** Answers by which etcd refuses a request before it does anything. Everything else leaves the outcome open. */
export function refusal(failure: CallFailure): SluiceError | undefined {
  if (failure.reason !== "status") return undefined;
  const { details } = failure;
  switch (failure.status) {
    case status.INVALID_ARGUMENT:
      return new SluiceError("INVALID_ARGUMENT", details);
    case status.NOT_FOUND:
      return details.includes("lease not found") ? new SluiceError("LEASE_LOST", details) : undefined;
    case status.OUT_OF_RANGE:
      return details.includes("compacted") ? new SluiceError("COMPACTED", details) : new SluiceError("INVALID_ARGUMENT", details);
    case status.PERMISSION_DENIED:
      return new SluiceError("PERMISSION_DENIED", details);
    case status.UNAUTHENTICATED:
      return new SluiceError("UNAUTHENTICATED", details);
    default:
      return undefined;
  }
}
