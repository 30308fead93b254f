import {
  assignmentCodec,
  ClusterView,
  createKeys,
  memberCodec,
  nodeCodec,
  partitionStateCodec,
  segmentCodec,
  topicCodec,
} from "@sluice/catalog";
import {
  epoch,
  incarnation,
  instanceId,
  memberId,
  partitionKey,
  scaleTimers,
  type MemberRecord,
  type PartitionId,
  type PartitionState,
  type SegmentRecord,
  type ServiceKind,
} from "@sluice/core/model";
import type { ProbeResult } from "@sluice/core/placement";
import { openEmbeddedMetadata, type Lease, type MetadataStore } from "@sluice/metadata";
import { memoryObjectStore, type ObjectStore } from "@sluice/object-store";
import { ControllerService } from "@sluice/proto/internal/v1/controller";
import { createRpcClient, type RpcClient } from "@sluice/rpc";
import { createHealth, createListener, createMetrics, systemClock, systemRandom, type Health, type Metrics } from "@sluice/runtime";
import { RecordingLogger } from "@sluice/runtime/testing";
import { type Controller, type ControllerLimits, createController, type PeerAccess } from "../../src/service.ts";

const CALL_MS = 5_000;
const POLL_MS = 5;

/** Answers for other members, set by the test. */
export class FakePeers implements PeerAccess {
  readonly answers = new Map<string, ProbeResult>();
  readonly probed: string[] = [];
  /** Node id to the segments it holds. */
  readonly held = new Map<string, Set<string>>();
  probe(address: string): Promise<ProbeResult> {
    this.probed.push(address);
    return Promise.resolve(this.answers.get(address) ?? "open");
  }
  segmentsOf(node: MemberRecord): Promise<ReadonlySet<string>> {
    return Promise.resolve(this.held.get(node.id) ?? new Set());
  }
}

export interface RunningController {
  readonly controller: Controller;
  readonly client: RpcClient<typeof ControllerService>;
  readonly log: RecordingLogger;
  readonly metrics: Metrics;
  readonly health: Health;
}

/** One metadata store, controllers on it, and members that are only keys. Everything runs on real time with short timers. */
export class TestCluster implements AsyncDisposable {
  readonly store = openEmbeddedMetadata({ path: ":memory:", clock: systemClock });
  readonly keys = createKeys("test");
  readonly peers = new FakePeers();
  readonly objects: ObjectStore = memoryObjectStore({ clock: systemClock });
  readonly view = new ClusterView({ store: this.store, keys: this.keys, clock: systemClock, logger: new RecordingLogger(), retryMs: 20 });
  readonly timers = scaleTimers(0.1);
  /** What controllers see of the store. */
  wrap: (store: MetadataStore) => MetadataStore = (store) => store;
  readonly #controllers: RunningController[] = [];
  readonly #brokers: FakeBroker[] = [];
  #viewStarted = false;

  async controller(id: string, limits: Partial<ControllerLimits> = {}, clock = systemClock): Promise<RunningController> {
    if (!this.#viewStarted) await this.view.start();
    this.#viewStarted = true;
    const log = new RecordingLogger();
    const metrics = createMetrics({ service: "controller" });
    const health = createHealth("controller", clock);
    const { keys, timers, objects, peers } = this;
    const controller = createController({
      environment: {
        clock,
        random: systemRandom,
        logger: log,
        timers,
        store: this.wrap(this.store),
        keys,
        objectStore: objects,
        secret: undefined,
        version: "test",
      },
      identity: { id: memberId(id), instance: instanceId(systemRandom.uuid()), zone: "a" },
      metrics,
      health,
      rpcListener: createListener("rpc", { bind: "127.0.0.1:0" }),
      shardCount: 2,
      peers,
      limits: {
        balanceQuietMs: 50,
        reconcileMs: 50,
        garbageMs: 20,
        retentionMs: 20,
        segmentDeleteGraceMs: 50,
        topicDeleteGraceMs: 20,
        ...limits,
      },
    });
    await controller.start();
    const client = createRpcClient(ControllerService, controller.endpoints()["rpc"] as string);
    const running = { controller, client, log, metrics, health };
    this.#controllers.push(running);
    return running;
  }
  async broker(id: string, zone = "a"): Promise<FakeBroker> {
    const broker = new FakeBroker(this, id, zone);
    await broker.join();
    this.#brokers.push(broker);
    return broker;
  }
  async member(
    service: ServiceKind,
    id: string,
    instance: string,
    options: { zone?: string; link?: string; incarnation?: string } = {},
  ): Promise<Lease> {
    const lease = await this.store.lease(60_000);
    const record: MemberRecord = {
      service,
      id: memberId(id),
      instance: instanceId(instance),
      numericId: 1,
      zone: options.zone ?? "a",
      endpoints: { link: options.link ?? `127.0.0.1:${id}` },
      version: "test",
      draining: false,
      ...(options.incarnation !== undefined && { incarnation: incarnation(options.incarnation) }),
    };
    await this.put(this.keys.member(service, record.id), memberCodec.encode(record), lease.id);
    return lease;
  }
  async node(id: string, inc: string): Promise<void> {
    const record = { id: memberId(id), incarnation: incarnation(inc), zone: "a", phase: "ACTIVE" as const };
    await this.put(this.keys.node(record.id), nodeCodec.encode(record));
  }
  async put(key: string, value: Uint8Array, lease?: string): Promise<void> {
    await this.store.txn({ compare: [], then: [{ kind: "put", key, value, ...(lease !== undefined && { lease }) }] });
  }
  async segment(p: PartitionId, record: SegmentRecord): Promise<void> {
    await this.put(this.keys.segment(p, record.base, record.segment), segmentCodec.encode(record));
  }
  async state(p: PartitionId, change: Partial<PartitionState>): Promise<void> {
    const before = (await this.store.get(this.keys.state(p))).entry;
    const old = before && partitionStateCodec.decode(before.value);
    const fresh = { epoch: epoch(1), owner: memberId("x"), ownerInstance: instanceId("x"), nonce: "n", phase: "OPEN" as const };
    await this.put(this.keys.state(p), partitionStateCodec.encode({ ...fresh, ...old, ...change }));
  }

  /** Waits until `check` gives something, looking again at every change of the metadata and now and then. */
  async until<T>(what: string, check: () => T | undefined | false | Promise<T | undefined | false>, timeoutMs = CALL_MS): Promise<T> {
    const endsAtMs = Date.now() + timeoutMs;
    for (;;) {
      const found = await check();
      if (found !== undefined && found !== false) return found;
      if (Date.now() > endsAtMs) throw new Error(`not within ${timeoutMs} ms: ${what}`);
      await systemClock.sleep(POLL_MS);
    }
  }
  /** Partitions per broker, by assignment. */
  counts(): Record<string, number> {
    const out: Record<string, number> = {};
    for (const p of this.view.partitions.values()) {
      const broker = p.assigned?.record.broker;
      if (broker !== undefined) out[broker] = (out[broker] ?? 0) + 1;
    }
    return out;
  }
  topic(name: string) {
    return this.view.topic("default", name);
  }
  async topicOf(name: string) {
    const { entry } = await this.store.get(this.keys.topic("default", name));
    return entry && topicCodec.decode(entry.value);
  }
  /** Records of deleted topics of which something is left. */
  async deleted() {
    const { entries } = await this.store.list(this.keys.deleted);
    return entries.map((entry) => topicCodec.decode(entry.value));
  }
  async assignmentOf(p: PartitionId) {
    const { entry } = await this.store.get(this.keys.assigned(p));
    return entry && assignmentCodec.decode(entry.value);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const b of this.#brokers) b.stop();
    for (const { client, controller } of this.#controllers) {
      client.close();
      await controller.stop();
    }
    await this.view.close();
    await this.objects.close();
    await this.store.close();
  }
}

/**
 * A broker as far as the metadata shows one: takes what is assigned to it, by epoch, when the owner is free, gone or forced away;
 * gives up what is not; writes DELETED for partitions of a topic that is being deleted.
 */
export class FakeBroker {
  readonly id: string;
  readonly link: string;
  instance = "";
  /** What was taken, and whether it was forced. */
  readonly taken: { readonly partition: string; readonly forced: boolean }[] = [];
  /** False: nothing is taken or given any more. */
  working = true;
  readonly #cluster: TestCluster;
  readonly #zone: string;
  #lease: Lease | undefined;
  #unsubscribe: (() => void) | undefined;
  #busy = Promise.resolve();

  constructor(cluster: TestCluster, id: string, zone: string) {
    this.#cluster = cluster;
    this.#zone = zone;
    this.id = id;
    this.link = `127.0.0.1:${id}`;
  }
  async join(): Promise<void> {
    this.instance = systemRandom.uuid();
    this.#lease = await this.#cluster.member("broker", this.id, this.instance, { zone: this.#zone, link: this.link });
    this.#unsubscribe = this.#cluster.view.onChange(() => this.#work());
    this.#work();
  }
  /** The process is gone, its lease is not. */
  freeze(): void {
    this.working = false;
  }
  async leave(): Promise<void> {
    this.stop();
    await this.#lease?.revoke();
  }
  stop(): void {
    this.working = false;
    this.#unsubscribe?.();
  }
  #work(): void {
    this.#busy = this.#busy.then(() => this.#round()).catch(() => undefined);
  }
  async #round(): Promise<void> {
    const { view, keys, store } = this.#cluster;
    for (const p of view.partitions.values()) {
      if (!this.working) return;
      const state = p.state?.record;
      const mine = state?.ownerInstance === this.instance && state.phase === "OPEN";
      const assigned = p.assigned?.record;
      const deleting = view.topicsById.get(p.id.topicId)?.phase === "DELETING";
      let next: PartitionState | undefined;
      if (assigned?.broker === this.id) {
        if (state?.phase === "DELETED" || (mine && !deleting)) continue;
        const forced = assigned.forceInstance === state?.ownerInstance;
        const free = state === undefined || mine || state.phase === "UNOWNED" || forced;
        if (!free) continue;
        const phase = deleting ? "DELETED" : "OPEN";
        const owner = { owner: memberId(this.id), ownerInstance: instanceId(this.instance), nonce: systemRandom.uuid() };
        next = { ...state, epoch: epoch((state?.epoch ?? 0) + 1), ...owner, phase };
        if (!mine) this.taken.push({ partition: partitionKey(p.id), forced: forced && state !== undefined });
      } else if (mine && state !== undefined) next = { ...state, phase: "UNOWNED" };
      if (next === undefined) continue;
      const key = keys.state(p.id);
      await store.txn({
        compare: [{ key, target: "mod", equals: p.state?.modRevision ?? 0 }],
        then: [{ kind: "put", key, value: partitionStateCodec.encode(next) }],
      });
    }
  }
}
