import { FakeCoordinator } from "./fake-coordinator.ts";
import {
  assignmentCodec,
  clusterCodec,
  createKeys,
  leaderCodec,
  memberCodec,
  partitionStateCodec,
  segmentCodec,
  shardCodec,
  topicCodec,
} from "@sluice/catalog";
import {
  epoch,
  errorNumber,
  incarnation,
  instanceId,
  memberId,
  scaleTimers,
  SluiceError,
  topicId,
  type Endpoints,
  type ErrorCode,
  type PartitionId,
  type SegmentRecord,
  type ServiceKind,
  type TopicRecord,
} from "@sluice/core/model";
import { BatchCursor, decodeAnnotations, newBatchHeader, readBatchHeader, stampBatch } from "@sluice/core/log";
import {
  dataCodec,
  FrameType,
  listenLinks,
  producedCodec,
  produceCodec,
  readCodec,
  subscribeCodec,
  tailCodec,
  type Frame,
  type Link,
  type LinkContext,
  type LinkServer,
} from "@sluice/link";
import { openEmbeddedMetadata } from "@sluice/metadata";
import { memoryObjectStore } from "@sluice/object-store";
import { BrokerService } from "@sluice/proto/internal/v1/broker";
import { ControllerService } from "@sluice/proto/internal/v1/controller";
import { createRpcServer, defineAccess, implement, type RpcServer } from "@sluice/rpc";
import { createListener, silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import type { ServiceEnvironment } from "@sluice/service";

const CLUSTER_ID = "0c0ffee0-0000-4000-8000-000000000001";
const SHARDS = 2;
const internal = { resource: "cluster", operation: "internal" } as const;

/** The log of one partition, in memory, as its owner and its storage node have it. */
export class FakeLog {
  readonly batches: { readonly first: number; readonly next: number; readonly bytes: Uint8Array }[] = [];
  next = 0;
  epoch = 1;
  append(batch: Uint8Array): { first: number; last: number; bytes: Uint8Array } {
    const bytes = batch.slice();
    const header = newBatchHeader();
    if (readBatchHeader(bytes, 0, bytes.length, header) !== undefined) throw new Error("not a batch");
    const first = this.next;
    stampBatch(bytes, 0, first, this.epoch);
    this.next = first + header.lastOffsetDelta + 1;
    this.batches.push({ first, next: this.next, bytes });
    return { first, last: this.next - 1, bytes };
  }
}

/** Metadata, a broker, a storage node and a controller that are scripts: enough of each for a proxy to work against. */
export class FakeCluster implements AsyncDisposable {
  readonly store = openEmbeddedMetadata({ path: ":memory:", clock: systemClock });
  readonly keys = createKeys("test");
  readonly objects = memoryObjectStore({ clock: systemClock });
  readonly timers = scaleTimers(0.2);
  readonly logs = new Map<string, FakeLog>();
  /** Refuses produce frames with a code, in order; then all are taken. */
  readonly refusals: ErrorCode[] = [];
  /** Produce frames that vouch for their producer. */
  vouched = 0;
  /** False: the owner pushes nothing, as to a proxy that cannot take it. */
  pushing = true;
  /** Produce frames are kept unanswered until `releaseHeld`. */
  holding = false;
  readonly reports: string[] = [];
  /** The coordinator refuses calls with a code, in order; then all are taken. */
  readonly coordinator = new FakeCoordinator(SHARDS);
  reads = 0;
  readonly #held: (() => void)[] = [];
  readonly #subscribers = new Map<string, { readonly link: Link; readonly number: number }[]>();
  #broker: LinkServer | undefined;
  #nodes: LinkServer | undefined;
  #rpc: RpcServer | undefined;

  async start(): Promise<void> {
    await this.put(
      this.keys.cluster,
      clusterCodec.encode({ clusterId: CLUSTER_ID, generation: 0, featureLevel: 1, shardCount: SHARDS, shardHash: "murmur2" }),
    );
    this.#nodes = await listenLinks(this.#context("segment-store", "store-1", "inc-1"), {
      address: "127.0.0.1:0",
      purposes: ["bulk"],
      handlers: { onFrame: (link, frame) => this.#onRead(link, frame) },
    });
    this.#rpc = createRpcServer({
      listener: createListener("rpc", { bind: "127.0.0.1:0" }),
      logger: silentLogger,
      clock: systemClock,
      services: [this.#brokerRpc(), this.#controllerRpc(), this.coordinator.service()],
    });
    await this.#rpc.start();
    await this.startBroker();
    await this.member("segment-store", "store-1", { link: this.#nodes.address }, "inc-1");
    await this.member("controller", "controller-1", { rpc: this.#rpc.address });
    await this.member("coordinator", "coordinator-1", { rpc: this.#rpc.address });
    for (const shard of [0, 1]) {
      const owner = { coordinator: memberId("coordinator-1"), instance: instanceId("coordinator-1-i"), epoch: epoch(1) };
      await this.put(this.keys.shard(shard), shardCodec.encode(owner));
    }
    await this.put(this.keys.leader, leaderCodec.encode({ instance: "controller-1-i", member: "controller-1" }));
  }
  async startBroker(): Promise<void> {
    this.#broker = await listenLinks(this.#context("broker", "broker-1", ""), {
      address: "127.0.0.1:0",
      purposes: ["log"],
      handlers: { onFrame: (link, frame) => this.#onBrokerFrame(link, frame) },
    });
    await this.member("broker", "broker-1", { link: this.#broker.address, rpc: (this.#rpc as RpcServer).address });
  }
  async stopBroker(): Promise<void> {
    this.#subscribers.clear();
    await this.#broker?.close();
  }
  environment(): ServiceEnvironment {
    return {
      clock: systemClock,
      random: systemRandom,
      logger: silentLogger,
      timers: this.timers,
      store: this.store,
      keys: this.keys,
      objectStore: this.objects,
      secret: undefined,
      version: "test",
    };
  }
  async put(key: string, value: Uint8Array): Promise<void> {
    await this.store.txn({ compare: [], then: [{ kind: "put", key, value }] });
  }
  async member(service: ServiceKind, id: string, endpoints: Endpoints, inc?: string): Promise<void> {
    await this.put(
      this.keys.member(service, memberId(id)),
      memberCodec.encode({
        service,
        id: memberId(id),
        instance: instanceId(`${id}-i`),
        numericId: 1,
        zone: "a",
        endpoints,
        version: "test",
        draining: false,
        ...(inc === undefined ? {} : { incarnation: incarnation(inc) }),
      }),
    );
  }
  async topic(name: string, partitions: number, config: Record<string, string> = {}): Promise<TopicRecord> {
    const record: TopicRecord = {
      tenant: "default",
      name,
      topicId: topicId(systemRandom.uuid()),
      partitions,
      config,
      phase: "ACTIVE",
      createdAtMs: systemClock.wallMs(),
    };
    for (let partition = 0; partition < partitions; partition += 1) {
      await this.partition({ topicId: record.topicId, partition });
    }
    await this.put(this.keys.topic("default", name), topicCodec.encode(record));
    return record;
  }
  /** A partition that broker-1 owns at epoch 1, with an open segment on store-1. */
  async partition(p: PartitionId): Promise<void> {
    this.logs.set(`${p.topicId}/${p.partition}`, new FakeLog());
    const tail = { segment: { epoch: epoch(1), k: 0 }, base: 0 };
    await this.put(this.keys.assigned(p), assignmentCodec.encode({ broker: memberId("broker-1"), revision: 1 }));
    const owner = { owner: memberId("broker-1"), ownerInstance: instanceId("broker-1-i") };
    await this.put(this.keys.state(p), partitionStateCodec.encode({ epoch: epoch(1), ...owner, nonce: "n", phase: "OPEN", tail }));
    await this.segment(p, { ...tail, phase: "OPEN", replicas: [{ node: memberId("store-1"), incarnation: incarnation("inc-1") }] });
  }
  async topicRecord(name: string): Promise<TopicRecord> {
    const { entry } = await this.store.get(this.keys.topic("default", name));
    if (entry === undefined) throw new Error(`no topic ${name}`);
    return topicCodec.decode(entry.value);
  }
  async segment(p: PartitionId, record: SegmentRecord): Promise<void> {
    await this.put(this.keys.segment(p, record.base, record.segment), segmentCodec.encode(record));
  }
  log(topic: TopicRecord, partition: number): FakeLog {
    return this.logs.get(`${topic.topicId}/${partition}`) as FakeLog;
  }
  /** Appends past the proxy, as another one's producer would. */
  append(topic: TopicRecord, partition: number, batch: Uint8Array): void {
    this.#commit(`${topic.topicId}/${partition}`, batch);
  }
  releaseHeld(): void {
    this.holding = false;
    for (const answer of this.#held.splice(0)) answer();
  }
  get heldFrames(): number {
    return this.#held.length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#broker?.close();
    await this.#nodes?.close();
    await this.#rpc?.stop();
    await this.objects.close();
    await this.store.close();
  }

  #context(service: ServiceKind, id: string, inc: string): LinkContext {
    const identity = { clusterId: CLUSTER_ID, generation: 0, service, memberId: id, instance: `${id}-i`, incarnation: inc, zone: "a" };
    return { clock: systemClock, random: systemRandom, logger: silentLogger, timers: this.timers, identity };
  }

  #onBrokerFrame(link: Link, frame: Frame): void {
    if (frame.type === FrameType.subscribe) {
      const m = subscribeCodec.decode(frame, subscribeCodec.create());
      const key = `${m.topicId}/${m.partition}`;
      const all = this.#subscribers.get(key) ?? [];
      all.push({ link, number: frame.correlation });
      this.#subscribers.set(key, all);
      const log = this.logs.get(key);
      if (log !== undefined) this.#tail(link, frame.correlation, log, log.next, new Uint8Array(0));
    } else if (frame.type === FrameType.produce) {
      const m = produceCodec.decode(frame, produceCodec.create());
      const { correlation, payload } = frame;
      if (decodeAnnotations(m.annotations).anySequence === true) this.vouched += 1;
      const answer = (): void => this.#produce(link, correlation, `${m.topicId}/${m.partition}`, payload, m.expectedBaseOffset);
      if (this.holding) this.#held.push(answer);
      else answer();
    }
    link.release(frame.creditBytes);
  }
  #produce(link: Link, correlation: number, key: string, payload: Uint8Array, expected: number): void {
    const m = producedCodec.create();
    const refusal = this.refusals.shift();
    const log = this.logs.get(key);
    m.logStart = log === undefined ? -1 : 0;
    if (refusal !== undefined) m.code = errorNumber(refusal);
    else if (log === undefined) m.code = errorNumber("NOT_OWNER");
    else if (expected >= 0 && expected !== log.next) {
      m.code = errorNumber("UNEXPECTED_OFFSET");
      m.baseOffset = log.next;
    } else {
      const { first, last } = this.#commit(key, payload);
      m.baseOffset = first;
      m.lastOffset = last;
    }
    if (!link.closed) link.send(producedCodec, correlation, m, new Uint8Array(0));
  }
  #commit(key: string, batch: Uint8Array): { first: number; last: number } {
    const log = this.logs.get(key) as FakeLog;
    const { first, last, bytes } = log.append(batch);
    if (this.pushing) for (const s of this.#subscribers.get(key) ?? []) if (!s.link.closed) this.#tail(s.link, s.number, log, first, bytes);
    return { first, last };
  }
  #tail(link: Link, number: number, log: FakeLog, first: number, bytes: Uint8Array): void {
    const m = tailCodec.create();
    Object.assign(m, { epoch: log.epoch, firstOffset: first, highWatermark: log.next, lastStableOffset: log.next });
    link.send(tailCodec, number, m, bytes);
  }

  /** The storage node's rule: at most what is committed, in whole batches. */
  #onRead(link: Link, frame: Frame): void {
    this.reads += 1;
    const m = readCodec.decode(frame, readCodec.create());
    const log = this.logs.get(`${m.topicId}/${m.partition}`);
    const out = dataCodec.create();
    const parts: Uint8Array[] = [];
    if (log === undefined) out.code = errorNumber("UNKNOWN_SEGMENT");
    else {
      const limit = m.highWatermarkEpoch === log.epoch ? m.highWatermark : -1;
      out.limit = limit;
      let size = 0;
      for (const b of log.batches) {
        if (b.next <= m.from || b.next - 1 > limit) continue;
        if (size > 0 && size + b.bytes.length > m.maxBytes) break;
        parts.push(b.bytes);
        size += b.bytes.length;
      }
    }
    link.send(dataCodec, frame.correlation, out, Buffer.concat(parts));
    link.release(frame.creditBytes);
  }

  #brokerRpc() {
    return implement(defineAccess(BrokerService, { partitionOffsets: internal, describeBroker: internal }), {
      partitionOffsets: (request) => {
        const log = this.logs.get(`${request.topicId}/${request.partition}`);
        if (log === undefined) return { code: errorNumber("NOT_OWNER"), message: "not here" };
        const end = BigInt(log.next);
        return { epoch: log.epoch, logStartOffset: 0n, lastStableOffset: end, highWatermark: end };
      },
      describeBroker: () => ({ partitions: [] }),
    });
  }
  #controllerRpc() {
    const access = defineAccess(ControllerService, {
      heartbeat: internal,
      reportPeer: internal,
      drain: internal,
      createTopic: internal,
      updateTopicConfig: internal,
      deleteTopic: internal,
      addPartitions: internal,
    });
    const message = (t: TopicRecord) => ({ name: t.name, topicId: t.topicId, partitions: t.partitions, config: { ...t.config } });
    return implement(access, {
      heartbeat: () => ({}),
      reportPeer: (request) => {
        this.reports.push(request.id);
        return {};
      },
      drain: () => ({ remaining: 0 }),
      createTopic: async (request) =>
        request.validateOnly ? {} : { topic: message(await this.topic(request.name, request.partitions, request.config)) },
      updateTopicConfig: async ({ name, set, reset }) => {
        const before = await this.topicRecord(name);
        const config = Object.fromEntries(Object.entries({ ...before.config, ...set }).filter(([key]) => !reset.includes(key)));
        const topic = { ...before, config };
        await this.put(this.keys.topic("default", name), topicCodec.encode(topic));
        return { topic: message(topic) };
      },
      addPartitions: async ({ name, partitions, validateOnly }) => {
        const before = await this.topicRecord(name);
        if (partitions <= before.partitions) throw new SluiceError("INVALID_ARGUMENT", "not more");
        const topic = { ...before, partitions };
        if (validateOnly) return { topic: message(before) };
        for (let n = before.partitions; n < partitions; n += 1) await this.partition({ topicId: topic.topicId, partition: n });
        await this.put(this.keys.topic("default", name), topicCodec.encode(topic));
        return { topic: message(topic) };
      },
      deleteTopic: async (request) => {
        const { entry } = await this.store.get(this.keys.topic("default", request.name));
        if (entry === undefined) throw new SluiceError("UNKNOWN_TOPIC", `there is no topic ${request.name}`);
        const record = topicCodec.decode(entry.value);
        if (request.topicId !== "" && request.topicId !== record.topicId) throw new SluiceError("UNKNOWN_TOPIC", "another has the name");
        const value = topicCodec.encode({ ...record, phase: "DELETING" });
        await this.store.txn({
          compare: [],
          then: [
            { kind: "delete", key: entry.key },
            { kind: "put", key: this.keys.deletedTopic(record.topicId), value },
          ],
        });
        return {};
      },
    });
  }
}

/** Offsets that runs of batches span. */
export function offsetsIn(batches: Uint8Array): number[] {
  const out: number[] = [];
  const cursor = new BatchCursor(batches);
  while (cursor.next()) for (let o = cursor.header.baseOffset; o <= cursor.header.lastOffset; o += 1) out.push(o);
  return out;
}
