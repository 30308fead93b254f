import type { Metadata } from "@grpc/grpc-js";
import { SluiceError } from "@sluice/core/model";
import type { Clock, Timer } from "@sluice/runtime";
import type { AccessRule, Authorizer, Principal } from "./access.ts";

/** What a handler knows about its call. */
export interface CallContext {
  /** `/sluice.v1.AdminService/CreateTopic`. */
  readonly path: string;
  readonly principal: Principal;
  /** On the monotonic clock; Infinity only for streams whose client set none. */
  readonly deadlineMs: number;
  /** Aborts with a SluiceError when the client gives up (CANCELLED), the time is over (TIMED_OUT) or the server ends (SHUTTING_DOWN). */
  readonly signal: AbortSignal;
  /** Aborts when the server begins to drain: long streams end themselves at the next good moment. */
  readonly draining: AbortSignal;
  /** W3C trace context of the caller; "" when there is none. */
  readonly traceparent: string;
  /** From the header `sluice-client-id`; "" when there is none. */
  readonly clientId: string;
  /** Address of the other end. */
  readonly peer: string;
  readonly metadata: Metadata;
  remainingMs(): number;
  /** Throws PERMISSION_DENIED unless the principal has the method's operation on the named resource. */
  authorize(name: string): Promise<void> | void;
}

export const CLIENT_ID_HEADER = "sluice-client-id";
export const TRACE_HEADER = "traceparent";
const CLIENT_ID_CHARS_MAX = 249;
const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** The part of grpc-js's call that all four kinds have. */
export interface SurfaceCall {
  readonly metadata: Metadata;
  getPeer(): string;
  getPath(): string;
  getDeadline(): Date | number;
  on(event: "cancelled", listener: () => void): unknown;
}

export interface ContextOptions {
  readonly call: SurfaceCall;
  readonly rule: AccessRule;
  readonly principal: Principal;
  readonly authorizer: Authorizer;
  readonly clock: Clock;
  readonly draining: AbortSignal;
  /** Infinity = none. */
  readonly timeoutMaxMs: number;
}

const text = (metadata: Metadata, key: string): string => {
  const value = metadata.get(key)[0];
  return typeof value === "string" ? value : "";
};

/** One per call. The signal and its timer exist only once somebody asks: most unary handlers finish before they would. */
export class ServerCallContext implements CallContext {
  readonly path: string;
  readonly principal: Principal;
  readonly deadlineMs: number;
  readonly draining: AbortSignal;
  readonly metadata: Metadata;
  readonly #options: ContextOptions;
  #controller: AbortController | undefined;
  #timer: Timer | undefined;
  #ended: SluiceError | undefined;
  #refused: unknown;
  readonly #onEnd: ((reason: SluiceError) => void)[] = [];

  constructor(options: ContextOptions) {
    const { call, clock } = options;
    this.#options = options;
    this.path = call.getPath();
    this.principal = options.principal;
    this.draining = options.draining;
    this.metadata = call.metadata;
    const deadline = call.getDeadline();
    const given = typeof deadline === "number" ? deadline : deadline.getTime();
    const leftMs = Math.min(given - clock.wallMs(), options.timeoutMaxMs);
    this.deadlineMs = clock.monotonicMs() + leftMs;
    if (Number.isFinite(leftMs)) {
      this.#timer = clock.setTimer(
        Math.max(0, leftMs),
        () => this.abort(new SluiceError("TIMED_OUT", `${this.path}: not finished within its deadline`)),
        { unref: true },
      );
    }
    call.on("cancelled", () => this.abort(new SluiceError("CANCELLED", `${this.path}: the caller gave up`)));
  }
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#ended !== undefined) this.#controller.abort(this.#ended);
    }
    return this.#controller.signal;
  }
  get traceparent(): string {
    const value = text(this.metadata, TRACE_HEADER);
    return TRACEPARENT.test(value) ? value : "";
  }
  get clientId(): string {
    return text(this.metadata, CLIENT_ID_HEADER).slice(0, CLIENT_ID_CHARS_MAX);
  }
  get peer(): string {
    return this.#options.call.getPeer();
  }
  remainingMs(): number {
    return Math.max(0, this.deadlineMs - this.#options.clock.monotonicMs());
  }
  authorize(name: string): Promise<void> | void {
    return this.check(name);
  }
  /** The caller could not prove who it is: every check fails with this. */
  refuse(reason: unknown): void {
    this.#refused = reason;
  }
  check(name: string | undefined): Promise<void> | void {
    const { rule, authorizer } = this.#options;
    if (rule === "open") return;
    if (this.#refused !== undefined) throw this.#refused;
    const allowed = authorizer.authorize(this.principal, { ...rule, name });
    if (typeof allowed === "boolean") return this.#refuseUnless(allowed, name);
    return allowed.then((yes) => this.#refuseUnless(yes, name));
  }
  #refuseUnless(allowed: boolean, name: string | undefined): void {
    const { rule } = this.#options;
    if (allowed || rule === "open") return;
    const resource = name === undefined ? rule.resource : `${rule.resource} ${name}`;
    throw new SluiceError("PERMISSION_DENIED", `${this.principal.name} may not ${rule.operation} ${resource}`);
  }
  /** The reason why the call ended early; undefined while it runs. */
  get ended(): SluiceError | undefined {
    return this.#ended;
  }
  /** Calls `fn` once when the call ends early, at once when it already has. */
  onEnd(fn: (reason: SluiceError) => void): void {
    if (this.#ended !== undefined) fn(this.#ended);
    else this.#onEnd.push(fn);
  }
  abort(reason: SluiceError): void {
    if (this.#ended !== undefined) return;
    this.#ended = reason;
    this.#timer?.cancel();
    this.#controller?.abort(reason);
    for (const fn of this.#onEnd.splice(0)) fn(reason);
  }
  /** The call is over: no timer stays behind. */
  close(): void {
    this.#timer?.cancel();
    this.#onEnd.length = 0;
  }
}
