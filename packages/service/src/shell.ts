import { awaitCluster, ClusterView } from "@sluice/catalog";
import type { ClusterRecord } from "@sluice/core/model";
import type { DrainDeadline, Health } from "@sluice/runtime";
import type { ServiceEnvironment } from "./environment.ts";

/** What exists of a service once the cluster is known. */
export interface ServiceParts {
  start(): Promise<void>;
  stop(): Promise<void>;
  endpoints(): object;
}
export interface ShellOptions<P extends ServiceParts> {
  readonly environment: ServiceEnvironment;
  readonly health: Health;
  /** Called once, when the cluster record has been read and the view is up to date. */
  readonly build: (cluster: ClusterRecord, view: ClusterView) => P;
}

/**
 * The life of a service that follows the cluster's metadata, the same for all of them:
 *
 *   start   wait for the cluster record -> view -> build the parts -> start them
 *   drain   not ready any more; the service's own work, within one deadline
 *   stop    ends a start that still waits; parts, then the view
 */
export class ServiceShell<P extends ServiceParts> {
  readonly view: ClusterView;
  readonly #options: ShellOptions<P>;
  readonly #stop = new AbortController();
  #parts: P | undefined;
  #stopped = false;

  constructor(options: ShellOptions<P>) {
    this.#options = options;
    const { store, keys, clock, logger, timers } = options.environment;
    this.view = new ClusterView({ store, keys, clock, logger, retryMs: timers.metadataRetryMs });
  }
  /** Undefined until the cluster is known. */
  get parts(): P | undefined {
    return this.#parts;
  }
  endpoints(): Readonly<Record<string, string>> {
    return { ...this.#parts?.endpoints() };
  }

  async start(): Promise<void> {
    const { environment, health, build } = this.#options;
    const { store, keys, clock, logger, timers } = environment;
    health.markWaiting("the metadata store and the first controller");
    const cluster = await awaitCluster(store, keys, clock, this.#stop.signal, timers.metadataRetryMs, logger);
    await this.view.start();
    this.#parts = build(cluster, this.view);
    await this.#parts.start();
    health.markStarted();
  }
  /** The deadline's signal aborts after `timers.shutdownMs`. Without parts there is nothing to do. */
  async drain(work: (parts: P, deadline: DrainDeadline) => Promise<void>): Promise<void> {
    const { clock, timers } = this.#options.environment;
    this.#options.health.markDraining();
    if (this.#parts === undefined) return;
    const untilMs = clock.monotonicMs() + timers.shutdownMs;
    const over = new AbortController();
    const timer = clock.setTimer(timers.shutdownMs, () => over.abort());
    try {
      await work(this.#parts, { signal: over.signal, remainingMs: () => Math.max(0, untilMs - clock.monotonicMs()) });
    } finally {
      timer.cancel();
    }
  }
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#stop.abort();
    await this.#parts?.stop();
    await this.view.close();
  }
}
