import { setMaxListeners } from "node:events";
import { timers } from "@sluice/core/model";
import type { Clock } from "./clock.ts";
import type { Logger } from "./logging.ts";

/** How long a drain may take, as seen by one component. */
export interface DrainDeadline {
  /** Aborts when the time is over, or when somebody asks to stop at once. */
  readonly signal: AbortSignal;
  remainingMs(): number;
}
/** A part of a service. Every method is called at most once. */
export interface Component {
  readonly name: string;
  /** Resolves when it serves; rejects when it cannot, after it has undone what it had begun, and soon after the signal aborts. */
  start?(signal: AbortSignal): Promise<void> | void;
  /** Takes nothing new and finishes what is open; must return soon after the deadline's signal aborts. */
  drain?(deadline: DrainDeadline): Promise<void> | void;
  /** Frees everything. Called even when `drain` failed; not called when `start` was not. */
  stop?(): Promise<void> | void;
}
/** What main programs and the standalone run. `Lifecycle` is one. */
export interface Service {
  readonly name: string;
  start(): Promise<void>;
  drain(): Promise<void>;
  stop(): Promise<void>;
}
/**
 *   new -> starting -> running -> draining -> stopping -> stopped
 *              |           |                     ^
 *              +-----------+---------------------+      (a failed start stops what had started, then rethrows)
 */
export type LifecycleState = "new" | "starting" | "running" | "draining" | "stopping" | "stopped";

export interface LifecycleOptions {
  readonly name: string;
  readonly logger: Logger;
  readonly clock: Clock;
  /** For all components together; default `timers.shutdownMs`. */
  readonly drainMs?: number;
}

/** Starts components in order, drains and stops them in reverse. All methods are idempotent and may be called in any state. */
export class Lifecycle implements Service, AsyncDisposable {
  readonly name: string;
  readonly #options: LifecycleOptions;
  readonly #components: Component[] = [];
  readonly #started: Component[] = [];
  readonly #abort = new AbortController();
  readonly #hurry = new AbortController();
  #state: LifecycleState = "new";
  #starting: Promise<void> | undefined;
  #draining: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;

  constructor(options: LifecycleOptions) {
    this.name = options.name;
    this.#options = options;
    // Many loops and waits listen to it.
    setMaxListeners(0, this.#abort.signal);
  }
  get state(): LifecycleState {
    return this.#state;
  }
  /** Aborts when the drain begins: loops and waits of the service listen to it. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }
  add(...components: readonly Component[]): this {
    if (this.#state !== "new") throw new Error(`${this.name}: components are added before the start`);
    this.#components.push(...components);
    return this;
  }
  start(): Promise<void> {
    if (this.#state === "stopped" || this.#stopping !== undefined) return Promise.reject(new Error(`${this.name}: stopped`));
    return (this.#starting ??= this.#start());
  }
  drain(): Promise<void> {
    if (this.#stopping !== undefined) return this.#stopping;
    return (this.#draining ??= this.#drain());
  }
  /** Stops without a drain, or cuts a running one short. */
  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop());
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #enter(state: LifecycleState): void {
    this.#state = state;
    this.#options.logger.debug("lifecycle", { service: this.name, state });
  }
  async #start(): Promise<void> {
    this.#enter("starting");
    try {
      for (const component of this.#components) {
        if (this.#abort.signal.aborted) throw new Error(`${this.name}: stopped while it started`);
        await component.start?.(this.#abort.signal);
        this.#started.push(component);
      }
      if (this.#abort.signal.aborted) throw new Error(`${this.name}: stopped while it started`);
      this.#enter("running");
    } catch (cause) {
      await this.#stopStarted();
      this.#enter("stopped");
      throw cause;
    }
  }
  async #drain(): Promise<void> {
    // A start that still waits for something is given up: there is nothing to drain yet.
    if (this.#state === "starting") this.#abort.abort(new Error(`${this.name}: asked to stop while it started`));
    await this.#starting?.catch(() => undefined);
    if (this.#state !== "running") return;
    this.#enter("draining");
    this.#abort.abort(new Error(`${this.name}: draining`));
    const { clock, logger } = this.#options;
    const endsAtMs = clock.monotonicMs() + (this.#options.drainMs ?? timers.shutdownMs);
    const timeout = new AbortController();
    const timer = clock.setTimer(this.#options.drainMs ?? timers.shutdownMs, () => timeout.abort(new Error("drain deadline")));
    const signal = AbortSignal.any([timeout.signal, this.#hurry.signal]);
    const deadline: DrainDeadline = { signal, remainingMs: () => (signal.aborted ? 0 : Math.max(0, endsAtMs - clock.monotonicMs())) };
    for (const component of this.#started.toReversed()) {
      try {
        await untilAborted(component.drain?.(deadline), signal);
      } catch (err) {
        logger.warn("drain cut short", { service: this.name, component: component.name, err });
      }
    }
    timer.cancel();
  }
  async #stop(): Promise<void> {
    this.#abort.abort(new Error(`${this.name}: stopping`));
    this.#hurry.abort(new Error(`${this.name}: stopping`));
    await this.#starting?.catch(() => undefined);
    await this.#draining;
    if (this.#state === "stopped") return;
    this.#enter("stopping");
    await this.#stopStarted();
    this.#enter("stopped");
  }
  async #stopStarted(): Promise<void> {
    for (const component of this.#started.splice(0).toReversed()) {
      try {
        await component.stop?.();
      } catch (err) {
        this.#options.logger.error("stop failed", { service: this.name, component: component.name, err });
      }
    }
  }
}

/** A component that ignores its deadline must not hold up the others. */
async function untilAborted(work: Promise<void> | void, signal: AbortSignal): Promise<void> {
  if (work === undefined) return;
  let onAbort: (() => void) | undefined;
  const aborted = new Promise<void>((_resolve, reject) => {
    onAbort = () => reject(signal.reason as Error);
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
  });
  try {
    await Promise.race([work, aborted]);
  } finally {
    if (onAbort !== undefined) signal.removeEventListener("abort", onAbort);
    work.catch(() => undefined);
    aborted.catch(() => undefined);
  }
}
