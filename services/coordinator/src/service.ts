import { type ClusterView, Membership } from "@sluice/catalog";
import { crc32c } from "@sluice/codec";
import type { GroupConfig } from "@sluice/core/group";
import { DEFAULT_TENANT, GROUPS_TOPIC, type ClusterRecord, type Endpoints, type PartitionId } from "@sluice/core/model";
import { createRpcServer, type RpcServer } from "@sluice/rpc";
import { type Clock, Lifecycle, type Health, type Listener, type Metrics, type Service } from "@sluice/runtime";
import { type ServiceEnvironment, type ServiceIdentity, ServiceShell } from "@sluice/service";
import { BrokerLogs, type LogAccess } from "./broker-logs.ts";
import { coordinatorHandlers } from "./handlers/index.ts";
import { groupConfigDefault } from "./group-config.ts";
import { GroupExpiry } from "./group-expiry.ts";
import { GroupHost } from "./group-host.ts";
import { createCoordinatorMetrics, type CoordinatorMetrics } from "./metrics.ts";
import { ShardOwnership } from "./ownership.ts";
import { PeerWatch } from "./peer-watch.ts";
import { ShardRegister } from "./shard-register.ts";
import { Shard } from "./shard.ts";
import type { SnapshotPolicy } from "./snapshot-schedule.ts";
import { Snapshots } from "./snapshots.ts";
import { ViewTopics } from "./topic-lookup.ts";
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
  readonly groups?: Partial<GroupConfig>;
  /** How often offsets that are too old are looked for, ms; default 600,000. */
  readonly expiryCheckMs?: number;
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
const EXPIRY_CHECK_MS = 600_000;
/** A member that joins waits as long as its group's rebalance may take: each is one open call of its proxy. */
const WAITING_CALLS_MAX = 20_000;
const WAITING_CALL_MS_MAX = 2_000_000;
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
  readonly #clock: Clock;
  readonly #shell: ServiceShell<Parts>;

  constructor(options: CoordinatorOptions) {
    this.#clock = options.environment.clock;
    const parts = (): Parts | undefined => this.#shell.parts;
    const shards = (): Shard[] => [...(parts()?.ownership.shards.values() ?? [])];
    const sum = (of: (s: Shard) => number) => (): number => shards().reduce((n, s) => n + of(s), 0);
    const metrics = createCoordinatorMetrics(options.metrics, {
      wanted: () => parts()?.ownership.wanted ?? 0,
      active: sum((s) => (s.phase === "active" ? 1 : 0)),
      loading: sum((s) => (s.phase === "active" ? 0 : 1)),
      groups: sum((s) => s.state.groups.size),
      members: sum((s) => parts()?.groupsOf(s).memberCount ?? 0),
      waiting: sum((s) => parts()?.groupsOf(s).waiting ?? 0),
      offsets: sum((s) => s.state.offsetCount),
      stateBytes: sum((s) => s.state.bytes),
      queued: sum((s) => s.queued),
    });
    this.#shell = new ServiceShell({ ...options, build: (cluster, view) => new Parts(options, view, metrics, cluster) });
    options.health.ready("membership", () => parts()?.membership.record !== undefined || "not registered");
  }
  get ownership(): ShardOwnership {
    if (this.#shell.parts === undefined) throw new Error("the coordinator has not started");
    return this.#shell.parts.ownership;
  }
  endpoints(): Readonly<Record<string, string>> {
    return this.#shell.endpoints();
  }

  start(): Promise<void> {
    return this.#shell.start();
  }
  /** Shards are served until another coordinator, which sees this one draining, has claimed them. */
  drain(): Promise<void> {
    return this.#shell.drain(async (parts, deadline) => {
      const { membership, ownership, rpc } = parts;
      ownership.drain();
      await membership.update({ draining: true }).catch(() => undefined);
      while (deadline.remainingMs() > 0 && ownership.shards.size > 0 && ownership.hasSuccessor) await this.#clock.sleep(DRAIN_POLL_MS);
      parts.release();
      await rpc.drain(deadline);
    });
  }
  stop(): Promise<void> {
    return this.#shell.stop();
  }
}

/** Everything that exists once the cluster is known. */
class Parts {
  readonly ownership: ShardOwnership;
  readonly membership: Membership;
  readonly rpc: RpcServer;
  readonly groupsOf: (shard: Shard) => GroupHost;
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
    const lookup = new ViewTopics(view);
    const config = { ...groupConfigDefault, ...options.groups };
    const hosts = new WeakMap<Shard, GroupHost>();
    const groupsOf = (shard: Shard): GroupHost => hosts.get(shard) as GroupHost;
    this.groupsOf = groupsOf;
    const open = (number: number): Shard => {
      const shard = new Shard({ ...shared, shard: number, log: logs.log(number), onActive: (s) => groupsOf(s).begin(s.state) });
      hosts.set(shard, new GroupHost({ clock, logger, metrics, config, topics: lookup }, shard));
      return shard;
    };
    const shared = { identity, clock, logger, timers, register, snapshots, snapshotPolicy, metrics };
    const peers = new PeerWatch({
      clock,
      logger,
      view,
      identity,
      intervalMs: timers.heartbeatIntervalMs,
      timeoutMs: timers.linkConnectTimeoutMs,
    });
    this.ownership = new ShardOwnership({
      peers,
      view,
      clock,
      identity,
      shardCount,
      open,
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
    const expiry = new GroupExpiry({
      clock,
      logger,
      shards: this.ownership.shards,
      groupsOf,
      retentionMs: config.offsetsRetentionMs,
      intervalMs: options.expiryCheckMs ?? EXPIRY_CHECK_MS,
      requestMs: timers.produceHoldMs,
    });
    this.rpc = createRpcServer({
      listener: options.rpcListener,
      logger,
      clock,
      timers,
      metrics: options.metrics,
      limits: { concurrentStreamsMax: WAITING_CALLS_MAX, unaryTimeoutMaxMs: WAITING_CALL_MS_MAX },
      services: [
        coordinatorHandlers({
          clock,
          random,
          metrics,
          shards: this.ownership.shards,
          shardCount,
          topics,
          ends: logs.ends,
          lookup,
          groupsOf,
        }),
      ],
    });
    this.#lifecycle = new Lifecycle({ name: "coordinator", logger, clock, drainMs: timers.shutdownMs }).add(
      { name: "shard logs", start: () => logs.start?.(), stop: () => logs.close() },
      this.rpc,
      { name: "membership", start: () => this.membership.start(), stop: () => this.membership.close() },
      { name: "peer watch", start: () => peers.start(), stop: () => peers.stop() },
      { name: "shards", start: () => this.ownership.start(), stop: () => this.ownership.stop() },
      { name: "topic sweep", start: () => sweep.start(), stop: () => sweep.stop() },
      { name: "group expiry", start: () => expiry.start(), stop: () => expiry.stop() },
      { name: "topic lookup", start: () => undefined, stop: () => lookup.close() },
    );
  }
  /** Calls that wait for other members of their groups end: they would hold up the end of the process. */
  release(): void {
    for (const shard of this.ownership.shards.values()) this.groupsOf(shard).release();
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
