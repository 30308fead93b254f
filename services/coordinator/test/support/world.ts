import { createKeys, shardCodec, startCodec } from "@sluice/catalog";
import { crc32c } from "@sluice/codec";
import { committedOffsets } from "@sluice/core/group";
import { instanceId, memberId, scaleTimers, topicId, type Timers } from "@sluice/core/model";
import { openEmbeddedMetadata } from "@sluice/metadata";
import { memoryObjectStore, type ObjectStore } from "@sluice/object-store";
import { createMetrics, systemClock, systemRandom, type Metrics } from "@sluice/runtime";
import { RecordingLogger } from "@sluice/runtime/testing";
import { createCoordinatorMetrics, type CoordinatorMetrics } from "../../src/metrics.ts";
import { ShardRegister } from "../../src/shard-register.ts";
import { Shard } from "../../src/shard.ts";
import type { SnapshotPolicy } from "../../src/snapshot-schedule.ts";
import { Snapshots } from "../../src/snapshots.ts";
import { FakeLog, FakePartition } from "./fake-log.ts";

/** A busy machine takes its time. */
const WAIT_MS = 20_000;
const POLL_MS = 2;
export const PARTITION = { topicId: topicId("11111111-1111-4111-8111-111111111111"), partition: 0 };

export async function until(what: string, check: () => boolean | Promise<boolean>): Promise<void> {
  const endsAtMs = Date.now() + WAIT_MS;
  while (!(await check())) {
    if (Date.now() > endsAtMs) throw new Error(`not within ${WAIT_MS} ms: ${what}`);
    await systemClock.sleep(POLL_MS);
  }
}

const zero = (): number => 0;
/** Metrics of a coordinator whose live values nobody asks for. */
export const testMetrics = (metrics: Metrics): CoordinatorMetrics =>
  createCoordinatorMetrics(metrics, {
    wanted: zero,
    active: zero,
    loading: zero,
    groups: zero,
    members: zero,
    waiting: zero,
    offsets: zero,
    stateBytes: zero,
    queued: zero,
  });

export interface Host {
  readonly shard: Shard;
  readonly log: FakeLog;
  readonly lines: RecordingLogger;
}

/** One shard's log and metadata, and coordinators that come and go. Nobody watches anything: what a host knows it learns from log and register. */
export class World implements AsyncDisposable {
  readonly partition = new FakePartition();
  readonly store = openEmbeddedMetadata({ path: ":memory:", clock: systemClock });
  readonly keys = createKeys("test");
  readonly timers: Timers = scaleTimers(0.2);
  objects: ObjectStore | undefined;
  policy: SnapshotPolicy = { records: 1_000_000, bytes: 1 << 30, pauseMs: 0 };
  readonly #hosts: Host[] = [];

  withObjects(store: ObjectStore = memoryObjectStore({ clock: systemClock })): ObjectStore {
    this.objects = store;
    return store;
  }
  /** A coordinator that takes the shard; returns at once. */
  open(name: string, change: (log: FakeLog) => void = () => undefined): Host {
    const log = new FakeLog(this.partition);
    change(log);
    const lines = new RecordingLogger();
    const identity = { id: memberId(name), instance: instanceId(systemRandom.uuid()), zone: "a" };
    const { store, keys, timers } = this;
    const register = new ShardRegister({ store, keys, identity, generation: 0 });
    const metrics = testMetrics(createMetrics({ service: "coordinator" }));
    const snapshots = new Snapshots({
      store,
      keys,
      objects: this.objects,
      random: systemRandom,
      logger: lines,
      crc32c,
      clusterId: "c",
      register,
      partition: () => PARTITION,
      written: () => undefined,
    });
    const shard = new Shard({
      shard: 0,
      identity,
      clock: systemClock,
      logger: lines,
      timers,
      log,
      register,
      snapshots,
      snapshotPolicy: this.policy,
      metrics,
    });
    const host = { shard, log, lines };
    this.#hosts.push(host);
    shard.start();
    return host;
  }
  async take(name: string, change?: (log: FakeLog) => void): Promise<Host> {
    const host = this.open(name, change);
    await until(`${name} serves`, () => host.shard.phase === "active");
    return host;
  }
  commit(host: Host, offset: number, options: { partition?: number; group?: string; withinMs?: number } = {}): Promise<unknown> {
    const { partition = 0, group = "readers", withinMs = WAIT_MS } = options;
    const offsets = [{ topicId: "orders", partition, offset, leaderEpoch: -1, metadata: new Uint8Array(0) }];
    return host.shard.submit({ kind: "commit", tenant: "default", group, offsets }, systemClock.monotonicMs() + withinMs);
  }
  fetch(host: Host, group = "readers", withinMs = WAIT_MS): Promise<Record<string, number>> {
    return host.shard.read(systemClock.monotonicMs() + withinMs, (state) =>
      Object.fromEntries(committedOffsets(state, "default", group).map((e) => [`${e.topicId}/${e.partition}`, e.value.offset])),
    );
  }
  async register() {
    const { entry } = await this.store.get(this.keys.shard(0));
    return entry && shardCodec.decode(entry.value);
  }
  async logStart(): Promise<number> {
    const { entry } = await this.store.get(this.keys.start(PARTITION));
    return entry === undefined ? 0 : startCodec.decode(entry.value).offset;
  }
  async snapshotKeys(): Promise<string[]> {
    const keys: string[] = [];
    for await (const { key } of this.objects?.list("clusters/") ?? []) keys.push(key);
    return keys;
  }
  async [Symbol.asyncDispose](): Promise<void> {
    for (const { shard, log } of this.#hosts) {
      shard.stop();
      log.release();
    }
    await this.objects?.close();
    await this.store.close();
  }
}
