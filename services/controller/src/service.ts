import { ClusterView, ensureCluster, Membership } from "@sluice/catalog";
import { codeOf } from "@sluice/core/model";
import { createRpcServer, type Authorizer, type RpcServer } from "@sluice/rpc";
import { Lifecycle, type Component, type Health, type Listener, type Metrics, type Service } from "@sluice/runtime";
import type { ServiceEnvironment, ServiceIdentity } from "@sluice/service";
import type { Duty, PeerAccess } from "./duty.ts";
import { controllerService } from "./handlers/index.ts";
import { Election } from "./leader.ts";
import { type ControllerLimits, defaultControllerLimits } from "./limits.ts";
import { createControllerMetrics } from "./metrics.ts";
import { createNetworkPeers } from "./peers.ts";
import { TermOfOffice } from "./term.ts";

export { type ControllerLimits, defaultControllerLimits } from "./limits.ts";
export type { PeerAccess } from "./duty.ts";

export interface ControllerOptions {
  /** Metadata and object store are not closed here. Without an object store, objects of deleted segments stay, with a warning. */
  readonly environment: ServiceEnvironment;
  readonly identity: ServiceIdentity;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly rpcListener: Listener;
  /** Group shards of a new cluster; an existing one keeps its number. */
  readonly shardCount: number;
  readonly limits?: Partial<ControllerLimits>;
  readonly authorizer?: Authorizer;
  /** Default: TCP connects and the storage nodes' control service. */
  readonly peers?: PeerAccess;
  /** Told to others as this member's metrics endpoint. */
  readonly metricsAddress?: () => string;
}

export interface Controller extends Service {
  readonly leading: boolean;
  endpoints(): Readonly<Record<string, string>>;
}

/**
 * One controller. Many may run; one leads, the others answer NOT_LEADER and wait.
 * Start order: cluster record, view, listener, member key, election. The drain gives the leadership up first.
 */
export function createController(options: ControllerOptions): Controller {
  return new ControllerHost(options);
}

class ControllerHost implements Controller {
  readonly name = "controller";
  readonly #options: ControllerOptions;
  readonly #lifecycle: Lifecycle;
  readonly #view: ClusterView;
  readonly #rpc: RpcServer;
  #term: TermOfOffice | undefined;
  #registered = false;

  constructor(options: ControllerOptions) {
    this.#options = options;
    const { clock, logger, store, keys, timers } = options.environment;
    this.#view = new ClusterView({ store, keys, clock, logger, retryMs: timers.metadataRetryMs });
    this.#rpc = createRpcServer({
      listener: options.rpcListener,
      services: [controllerService({ view: this.#view, term: () => this.#term })],
      logger,
      clock,
      timers,
      metrics: options.metrics,
      ...(options.authorizer && { authorizer: options.authorizer }),
    });
    options.health.ready("registered", () => this.#registered || "no member key in the metadata");
    options.health.ready("leader", () => {
      if (this.#term !== undefined) return this.#term.begun || "beginning a term";
      return this.#view.leader !== undefined || "no controller leads";
    });
    this.#lifecycle = new Lifecycle({ name: "controller", logger, clock, drainMs: timers.shutdownMs });
    this.#lifecycle.add(this.#catalog(), this.#rpc, this.#membership(), this.#election());
  }
  get leading(): boolean {
    return this.#term?.begun === true;
  }
  endpoints(): Readonly<Record<string, string>> {
    return { rpc: this.#rpc.advertised };
  }
  async start(): Promise<void> {
    this.#options.health.markWaiting("the metadata store");
    await this.#lifecycle.start();
    this.#options.health.markStarted();
  }
  drain(): Promise<void> {
    this.#options.health.markDraining();
    return this.#lifecycle.drain();
  }
  stop(): Promise<void> {
    return this.#lifecycle.stop();
  }

  /** The cluster record and the view; both wait for the metadata store. */
  #catalog(): Component {
    const { store, keys, random, logger } = this.#options.environment;
    const { shardCount } = this.#options;
    return {
      name: "catalog",
      start: async () => {
        const cluster = await this.#untilDone("cluster record", () => ensureCluster(store, keys, { random, shardCount }));
        logger.info("cluster", { clusterId: cluster.clusterId, generation: cluster.generation, shards: cluster.shardCount });
        await this.#untilDone("metadata view", () => this.#view.start());
      },
      stop: () => this.#view.close(),
    };
  }
  async #untilDone<T>(what: string, work: () => Promise<T>): Promise<T> {
    const { clock, logger, timers } = this.#options.environment;
    for (;;) {
      try {
        return await work();
      } catch (error) {
        const code = codeOf(error);
        if (code !== "METADATA_UNAVAILABLE" && code !== "UNKNOWN_OUTCOME" && code !== "TIMED_OUT") throw error;
        logger.warn("waiting for the metadata store", { what, code });
        await clock.sleep(timers.metadataRetryMs * 10, this.#lifecycle.signal);
      }
    }
  }

  #membership(): Component {
    const { version, store, keys, clock, logger, timers } = this.#options.environment;
    let membership: Membership | undefined;
    return {
      name: "membership",
      start: async () => {
        const metrics = this.#options.metricsAddress?.();
        membership = new Membership({
          store,
          keys,
          clock,
          logger,
          leaseTtlMs: timers.memberLeaseTtlMs,
          retryMs: timers.metadataRetryMs,
          // The renewal runs on the loop that does the work: a stuck loop renews nothing.
          healthy: () => true,
          member: {
            service: "controller",
            ...this.#options.identity,
            version,
            draining: false,
            endpoints: { rpc: this.#rpc.advertised, ...(metrics !== undefined && { metrics }) },
          },
        });
        await membership.start();
        this.#registered = true;
      },
      stop: () => membership?.close(),
    };
  }

  #election(): Component {
    const { store, keys, clock, random, logger, timers, objectStore } = this.#options.environment;
    const { id, instance } = this.#options.identity;
    const metrics = createControllerMetrics(this.#options.metrics);
    const own = this.#options.peers === undefined ? createNetworkPeers({ clock, timers }) : undefined;
    const peers = this.#options.peers ?? (own as PeerAccess);
    const shared: Omit<Duty, "leadership"> = {
      store,
      keys,
      view: this.#view,
      clock,
      random,
      logger,
      timers,
      limits: { ...defaultControllerLimits, ...this.#options.limits },
      metrics,
      peers,
      objects: objectStore,
    };
    const election = new Election({
      id,
      instance,
      store,
      keys,
      clock,
      logger,
      timers,
      healthy: () => true,
      vacancy: (signal) => this.#vacancy(signal),
      elected: (leadership) => {
        metrics.elections.inc();
        metrics.leader.set(1);
        const term = new TermOfOffice({ ...shared, leadership });
        this.#term = term;
        void term.begin().catch((err: unknown) => logger.error("term did not begin", { err }));
      },
      deposed: () => {
        metrics.leader.set(0);
        this.#term = undefined;
      },
    });
    return {
      name: "election",
      start: () => election.start(),
      drain: () => election.close(),
      stop: async () => {
        await election.close();
        own?.close();
      },
    };
  }
  /** Resolves when the view sees the leader key go. */
  #vacancy(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        unsubscribe();
        resolve();
      };
      const unsubscribe = this.#view.onChange((changes) => {
        if (changes.some((c) => c.kind === "leader") && this.#view.leader === undefined) done();
      });
      signal.addEventListener("abort", done, { once: true });
    });
  }
}
