import { awaitCluster, ClusterView, Membership } from "@sluice/catalog";
import { limits, type ClusterRecord, type Endpoints } from "@sluice/core/model";
import type { Authorizer } from "@sluice/rpc";
import type { Health, Listener, Metrics, Service } from "@sluice/runtime";
import type { ServiceEnvironment, ServiceIdentity } from "@sluice/service";
import { kafkaDefaults, type KafkaSettings } from "./kafka/context.ts";
import { createProxyMetrics } from "./metrics.ts";
import { ProxyParts } from "./parts.ts";

export interface ProxyOptions {
  /** Metadata and object store are not closed here. */
  readonly environment: ServiceEnvironment;
  readonly identity: ServiceIdentity;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly grpcListener: Listener;
  /** Undefined: no Kafka client is served. */
  readonly kafkaListener?: Listener;
  /** For Kafka clients that cannot reach the address of the other one; they are told of the proxies that have such a listener. */
  readonly kafkaOutsideListener?: Listener;
  /** Default: `kafkaDefaults`. */
  readonly kafka?: KafkaSettings;
  /** Told in the member record once known. */
  readonly metricsAddress?: () => string;
  /** Default: everybody may do everything. */
  readonly authorizer?: Authorizer;
  readonly heldBytesMax?: number;
  readonly tailCacheBytes?: number;
  readonly blockCacheBytes?: number;
}
export interface Proxy extends Service {
  endpoints(): Readonly<Record<string, string>>;
}

/**
 * Puts a proxy together: nothing is bound or read before `start`.
 *
 *   start: cluster record -> view -> caches, links -> gRPC and Kafka listeners -> member key
 *   drain: NOT_SERVING, no longer named -> Kafka clients are sent elsewhere, streams end themselves -> what is in flight is finished
 */
export function createProxy(options: ProxyOptions): Proxy {
  return new ProxyProcess(options);
}

class ProxyProcess implements Proxy {
  readonly name = "proxy";
  readonly #options: ProxyOptions;
  readonly #view: ClusterView;
  readonly #stop = new AbortController();
  readonly #metrics;
  #parts: ProxyParts | undefined;
  #membership: Membership | undefined;
  #stopped = false;

  constructor(options: ProxyOptions) {
    this.#options = options;
    const { store, keys, clock, logger, timers } = options.environment;
    this.#view = new ClusterView({ store, keys, clock, logger, retryMs: timers.metadataRetryMs });
    this.#metrics = createProxyMetrics(options.metrics, {
      heldBytes: () => this.#parts?.router.heldBytes ?? 0,
      waitingBytes: () => this.#parts?.path.waitingBytes ?? 0,
      tailBytes: () => this.#parts?.tails.bytes ?? 0,
      tailPartitions: () => this.#parts?.tails.partitions ?? 0,
      tailWaiting: () => this.#parts?.tails.waiting ?? 0,
      blockBytes: () => this.#parts?.blocks?.bytes ?? 0,
    });
    options.health.ready("view", () => this.#view.revision > 0 || "the metadata has not been read");
    options.health.ready("membership", () => this.#membership?.record !== undefined || "not registered");
  }
  endpoints(): Readonly<Record<string, string>> {
    return { ...this.#endpoints() };
  }

  async start(): Promise<void> {
    const { environment, health } = this.#options;
    const { store, keys, clock, logger, timers } = environment;
    health.markWaiting("the metadata store and the first controller");
    const cluster = await awaitCluster(store, keys, clock, this.#stop.signal, timers.metadataRetryMs, logger);
    await this.#view.start();
    this.#parts = this.#build(cluster);
    await this.#parts.rpc.start();
    await this.#parts.kafka?.start();
    this.#membership = this.#member();
    await this.#membership.start();
    health.markStarted();
  }

  async drain(): Promise<void> {
    const { environment, health } = this.#options;
    const { clock, timers } = environment;
    health.markDraining();
    if (this.#parts === undefined) return;
    await this.#membership?.update({ draining: true }).catch(() => undefined);
    const untilMs = clock.monotonicMs() + timers.shutdownMs;
    const deadline = new AbortController();
    const timer = clock.setTimer(timers.shutdownMs, () => deadline.abort());
    const within = { signal: deadline.signal, remainingMs: () => Math.max(0, untilMs - clock.monotonicMs()) };
    await Promise.all([this.#parts.rpc.drain(within), this.#parts.kafka?.drain(within)]);
    timer.cancel();
  }

  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#stop.abort();
    await this.#membership?.close();
    await this.#parts?.stop();
    await this.#view.close();
  }

  #build(cluster: ClusterRecord): ProxyParts {
    const { environment, identity, grpcListener, kafkaListener, kafkaOutsideListener, metrics, authorizer } = this.#options;
    return new ProxyParts({
      environment,
      identity,
      cluster,
      view: this.#view,
      metrics: this.#metrics,
      registry: metrics,
      grpcListener,
      kafkaListeners: {
        ...(kafkaListener === undefined ? {} : { kafka: kafkaListener }),
        ...(kafkaOutsideListener === undefined ? {} : { kafkaOutside: kafkaOutsideListener }),
      },
      kafkaSettings: this.#options.kafka ?? kafkaDefaults,
      ...(authorizer === undefined ? {} : { authorizer }),
      heldBytesMax: this.#options.heldBytesMax ?? limits.proxyHeldProduceBytesMax,
      tailCacheBytes: this.#options.tailCacheBytes ?? limits.tailCacheBytesDefault,
      blockCacheBytes: this.#options.blockCacheBytes ?? limits.blockCacheBytesDefault,
      metadataStale: () => this.#metadataStale(),
    });
  }
  /** The own lease is what the store is asked for all the time. Before there is one, the view has just been read. */
  #metadataStale(): boolean {
    const membership = this.#membership;
    return membership?.record !== undefined && membership.confirmedUntilMs() < this.#options.environment.clock.monotonicMs();
  }
  #member(): Membership {
    const { environment, identity } = this.#options;
    const { store, keys, clock, logger, timers, version } = environment;
    return new Membership({
      store,
      keys,
      clock,
      logger,
      leaseTtlMs: timers.memberLeaseTtlMs,
      retryMs: timers.metadataRetryMs,
      // The renewal runs on the loop that does the work: a stuck loop renews nothing.
      healthy: () => true,
      member: { service: "proxy", ...identity, version, draining: false, endpoints: this.#endpoints() },
    });
  }
  #endpoints(): Endpoints {
    const metrics = this.#options.metricsAddress?.();
    return {
      ...(this.#parts === undefined ? {} : { grpc: this.#parts.rpc.advertised }),
      ...this.#parts?.kafka?.advertised,
      ...(metrics === undefined ? {} : { metrics }),
    };
  }
}
