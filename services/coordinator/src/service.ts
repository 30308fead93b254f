import { awaitCluster, ClusterView, Membership } from "@sluice/catalog";
import { crc32c } from "@sluice/codec";
import { DEFAULT_TENANT, GROUPS_TOPIC, type ClusterRecord, type Endpoints, type PartitionId } from "@sluice/core/model";
import { createRpcServer, type RpcServer } from "@sluice/rpc";
import { Lifecycle, type Health, type Listener, type Metrics, type Service } from "@sluice/runtime";
import type { ServiceEnvironment, ServiceIdentity } from "@sluice/service";
import { BrokerLogs, type LogAccess } from "./broker-logs.ts";
import { coordinatorHandlers } from "./handlers/index.ts";
import { createCoordinatorMetrics, type CoordinatorMetrics } from "./metrics.ts";
import { ShardOwnership } from "./ownership.ts";
import { ShardRegister } from "./shard-register.ts";
import { Shard } from "./shard.ts";
import type { SnapshotPolicy } from "./snapshot-schedule.ts";
import { Snapshots } from "./snapshots.ts";
import { TopicSweep } from "./topic-sweep.ts";
import { Topics } from "./topics.ts";

export interface CoordinatorOptions {
  readonly environment: ServiceEnvironment;
  readonly identity: ServiceIdentity;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly rpcListener: Listener;
  /** Told in the member record once known. */
  readonly metricsAddress?: () => string;
  readonly snapshotPolicy?: Partial<SnapshotPolicy>;
  /** How often offsets of topics that are gone are looked for, ms; default 60,000. */
  readonly topicSweepMs?: number;
  /** Where the logs of the shards are; default: the partitions of the topic `__sluice_groups`, through their brokers. */
  readonly logs?: LogAccess;
}
export interface Coordinator extends Service {
  endpoints(): Readonly<Record<string, string>>;
  readonly ownership: ShardOwnership;
}

const MiB = 1024 * 1024;
const snapshotPolicyDefault: SnapshotPolicy = { records: 50_000, bytes: 16 * MiB, pauseMs: 5_000 };
const TOPIC_SWEEP_MS = 60_000;
/** How often a draining coordinator looks whether its shards were taken, ms. */
const DRAIN_POLL_MS = 20;

/**
 * Puts a coordinator together: nothing is bound or read before `start`.
 *
 *   start: cluster record -> view -> listener -> member key -> shards
 */
export function createCoordinator(options: CoordinatorOptions): Coordinator {
  return new CoordinatorProcess(options);
}

class CoordinatorProcess implements Coordinator {
  readonly name = "coordinator";
  readonly #options: CoordinatorOptions;
  readonly #view: ClusterView;
  readonly #metrics: CoordinatorMetrics;
  readonly #stop = new AbortController();
  #parts: Parts | undefined;
  #stopped = false;

  constructor(options: CoordinatorOptions) {
    this.#options = options;
    const { store, keys, clock, logger, timers } = options.environment;
    this.#view = new ClusterView({ store, keys, clock, logger, retryMs: timers.metadataRetryMs });
    const shards = (): Shard[] => [...(this.#parts?.ownership.shards.values() ?? [])];
    const sum = (of: (s: Shard) => number) => (): number => shards().reduce((n, s) => n + of(s), 0);
    this.#metrics = createCoordinatorMetrics(options.metrics, {
      wanted: () => this.#parts?.ownership.wanted ?? 0,
      active: sum((s) => (s.phase === "active" ? 1 : 0)),
      loading: sum((s) => (s.phase === "active" ? 0 : 1)),
      groups: sum((s) => s.state.groups.size),
      offsets: sum((s) => s.state.offsetCount),
      stateBytes: sum((s) => s.state.bytes),
      queued: sum((s) => s.queued),
    });
    options.health.ready("membership", () => this.#parts?.membership.record !== undefined || "not registered");
  }
  get ownership(): ShardOwnership {
    if (this.#parts === undefined) throw new Error("the coordinator has not started");
    return this.#parts.ownership;
  }
  endpoints(): Readonly<Record<string, string>> {
    return { ...this.#parts?.endpoints() };
  }

  async start(): Promise<void> {
    const { environment, health } = this.#options;
    const { store, keys, clock, logger, timers } = environment;
    health.markWaiting("the metadata store and the first controller");
    const cluster = await awaitCluster(store, keys, clock, this.#stop.signal, timers.metadataRetryMs, logger);
    await this.#view.start();
    this.#parts = new Parts(this.#options, this.#view, this.#metrics, cluster);
    await this.#parts.start();
    health.markStarted();
  }

  /** Shards are served until another coordinator, which sees this one draining, has claimed them. */
  async drain(): Promise<void> {
    const { environment, health } = this.#options;
    const { clock, timers } = environment;
    health.markDraining();
    if (this.#parts === undefined) return;
    const { membership, ownership, rpc } = this.#parts;
    const untilMs = clock.monotonicMs() + timers.shutdownMs;
    ownership.drain();
    await membership.update({ draining: true }).catch(() => undefined);
    while (clock.monotonicMs() < untilMs && ownership.shards.size > 0 && ownership.hasSuccessor) await clock.sleep(DRAIN_POLL_MS);
    const deadline = new AbortController();
    const timer = clock.setTimer(Math.max(0, untilMs - clock.monotonicMs()), () => deadline.abort());
    await rpc.drain({ signal: deadline.signal, remainingMs: () => Math.max(0, untilMs - clock.monotonicMs()) });
    timer.cancel();
  }

  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#stop.abort();
    await this.#parts?.stop();
    await this.#view.close();
  }
}

/** Everything that exists once the cluster is known. */
class Parts {
  readonly ownership: ShardOwnership;
  readonly membership: Membership;
  readonly rpc: RpcServer;
  readonly #options: CoordinatorOptions;
  readonly #lifecycle: Lifecycle;

  constructor(options: CoordinatorOptions, view: ClusterView, metrics: CoordinatorMetrics, cluster: ClusterRecord) {
    this.#options = options;
    const { environment, identity } = options;
    const { clock, random, logger, timers, store, keys, objectStore } = environment;
    const { shardCount } = cluster;
    const partition = (shard: number): PartitionId | undefined => {
      const topic = view.topic(DEFAULT_TENANT, GROUPS_TOPIC);
      return topic === undefined ? undefined : { topicId: topic.topicId, partition: shard };
    };
    const logs = options.logs ?? new BrokerLogs(environment, identity, view, cluster, partition);
    const register = new ShardRegister({ store, keys, identity, generation: cluster.generation });
    const snapshots = new Snapshots({
      store,
      keys,
      objects: objectStore,
      random,
      logger,
      crc32c,
      clusterId: cluster.clusterId,
      register,
      partition,
      written: (bytes) => metrics.snapshotBytes.set(bytes),
    });
    const snapshotPolicy = { ...snapshotPolicyDefault, ...options.snapshotPolicy };
    const shared = { identity, clock, logger, timers, register, snapshots, snapshotPolicy, metrics };
    this.ownership = new ShardOwnership({
      view,
      clock,
      identity,
      shardCount,
      open: (shard) => new Shard({ ...shared, shard, log: logs.log(shard) }),
      retakeMs: timers.releasingWaitMs,
    });
    const endpoints = (): Endpoints => this.endpoints();
    this.membership = new Membership({
      store,
      keys,
      clock,
      logger,
      leaseTtlMs: timers.memberLeaseTtlMs,
      retryMs: timers.metadataRetryMs,
      healthy: () => true,
      member: {
        service: "coordinator",
        id: identity.id,
        instance: identity.instance,
        zone: identity.zone,
        version: environment.version,
        draining: false,
        get endpoints(): Endpoints {
          return endpoints();
        },
      },
    });
    const topics = new Topics(view, store, keys);
    const sweep = new TopicSweep({
      clock,
      logger,
      topics,
      shards: this.ownership.shards,
      intervalMs: options.topicSweepMs ?? TOPIC_SWEEP_MS,
      requestMs: timers.produceHoldMs,
    });
    this.rpc = createRpcServer({
      listener: options.rpcListener,
      logger,
      clock,
      timers,
      metrics: options.metrics,
      services: [coordinatorHandlers({ clock, metrics, shards: this.ownership.shards, shardCount, topics, ends: logs.ends })],
    });
    this.#lifecycle = new Lifecycle({ name: "coordinator", logger, clock, drainMs: timers.shutdownMs }).add(
      { name: "shard logs", start: () => logs.start?.(), stop: () => logs.close() },
      this.rpc,
      { name: "membership", start: () => this.membership.start(), stop: () => this.membership.close() },
      { name: "shards", start: () => this.ownership.start(), stop: () => this.ownership.stop() },
      { name: "topic sweep", start: () => sweep.start(), stop: () => sweep.stop() },
    );
  }
  start(): Promise<void> {
    return this.#lifecycle.start();
  }
  stop(): Promise<void> {
    return this.#lifecycle.stop();
  }
  endpoints(): Endpoints {
    const metrics = this.#options.metricsAddress?.();
    return { rpc: this.rpc.advertised, ...(metrics === undefined ? {} : { metrics }) };
  }
}
