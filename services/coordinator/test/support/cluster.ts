import { ClusterView, clusterCodec, createKeys, shardCodec, topicCodec } from "@sluice/catalog";
import { GROUPS_TOPIC, instanceId, memberId, scaleTimers, topicId, type PartitionId } from "@sluice/core/model";
import { openEmbeddedMetadata } from "@sluice/metadata";
import { CoordinatorService } from "@sluice/proto/internal/v1/coordinator";
import { createRpcClient, type RpcClient } from "@sluice/rpc";
import { createHealth, createListener, createMetrics, systemClock, systemRandom, type Health, type Metrics } from "@sluice/runtime";
import { RecordingLogger } from "@sluice/runtime/testing";
import { PartitionEnds } from "../../src/partition-ends.ts";
import { createCoordinator, type Coordinator, type CoordinatorOptions } from "../../src/service.ts";
import { FakeLog, FakePartition } from "./fake-log.ts";

export const SHARDS = 4;
export const ORDERS = topicId("22222222-2222-4222-8222-222222222222");

export interface Running {
  readonly id: string;
  readonly coordinator: Coordinator;
  readonly client: RpcClient<typeof CoordinatorService>;
  readonly lines: RecordingLogger;
  readonly metrics: Metrics;
  readonly health: Health;
}

/** A metadata store with a cluster, a topic and shard logs in memory; coordinators are real services on it. */
export class TestCluster implements AsyncDisposable {
  readonly store = openEmbeddedMetadata({ path: ":memory:", clock: systemClock });
  readonly keys = createKeys("test");
  readonly timers = scaleTimers(0.2);
  readonly view = new ClusterView({ store: this.store, keys: this.keys, clock: systemClock, logger: new RecordingLogger(), retryMs: 20 });
  readonly partitions = Array.from({ length: SHARDS }, () => new FakePartition());
  /** High watermark by `<topicId>/<n>`. */
  readonly highWatermarks = new Map<string, number>();
  asked = 0;
  readonly #running: Running[] = [];

  async start(): Promise<void> {
    await this.put(
      this.keys.cluster,
      clusterCodec.encode({ clusterId: "c", generation: 0, featureLevel: 1, shardCount: SHARDS, shardHash: "murmur2" }),
    );
    await this.topic(GROUPS_TOPIC, "33333333-3333-4333-8333-333333333333", SHARDS);
    await this.topic("orders", ORDERS, 4);
    await this.view.start();
  }
  async topic(name: string, id: string, partitions: number): Promise<void> {
    const record = { tenant: "default", name, topicId: topicId(id), partitions, config: {}, phase: "ACTIVE" as const, createdAtMs: 1 };
    await this.put(this.keys.topic("default", name), topicCodec.encode(record));
  }
  async put(key: string, value: Uint8Array): Promise<void> {
    await this.store.txn({ compare: [], then: [{ kind: "put", key, value }] });
  }
  async coordinator(id: string, more: Pick<CoordinatorOptions, "groups" | "expiryCheckMs"> = {}): Promise<Running> {
    const lines = new RecordingLogger();
    const metrics = createMetrics({ service: "coordinator" });
    const health = createHealth("coordinator", systemClock);
    const { store, keys, timers } = this;
    const coordinator = createCoordinator({
      environment: {
        clock: systemClock,
        random: systemRandom,
        logger: lines,
        timers,
        store,
        keys,
        objectStore: undefined,
        secret: undefined,
        version: "test",
      },
      identity: { id: memberId(id), instance: instanceId(systemRandom.uuid()), zone: "a" },
      metrics,
      health,
      topicSweepMs: 20,
      ...more,
      rpcListener: createListener("rpc", { bind: "127.0.0.1:0" }),
      logs: {
        log: (shard) => new FakeLog(this.partitions[shard] as FakePartition),
        ends: new PartitionEnds((p) => this.#marks(p)),
        close: () => undefined,
      },
    });
    await coordinator.start();
    const client = createRpcClient(CoordinatorService, coordinator.endpoints()["rpc"] as string);
    const running = { id, coordinator, client, lines, metrics, health };
    this.#running.push(running);
    return running;
  }
  /** Who has each shard, by the register. */
  async owners(): Promise<string[]> {
    const { entries } = await this.store.list(this.keys.shards);
    return entries.map((e) => shardCodec.decode(e.value).coordinator);
  }
  serves(running: Running, shards: readonly number[]): boolean {
    const here = [...running.coordinator.ownership.shards].filter(([, s]) => s.phase === "active").map(([n]) => n);
    return here.length === shards.length && shards.every((n) => here.includes(n));
  }
  async [Symbol.asyncDispose](): Promise<void> {
    for (const { client, coordinator } of this.#running) {
      client.close();
      await coordinator.stop();
    }
    await this.view.close();
    await this.store.close();
  }

  #marks(p: PartitionId): Promise<{ epoch: number; logStart: number; lastStable: number; highWatermark: number }> {
    this.asked += 1;
    const highWatermark = this.highWatermarks.get(`${p.topicId}/${p.partition}`) ?? 0;
    return Promise.resolve({ epoch: 1, logStart: 0, lastStable: highWatermark, highWatermark });
  }
}
