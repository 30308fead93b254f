import { type BatchHeader, parseBatchHeader } from "@sluice/core/log";
import { type ErrorCode, errorNumber, SluiceError } from "@sluice/core/model";
import { AdminService, type Topic } from "@sluice/proto/v1/admin";
import { ConsumeService, type ConsumeRequest, type Position } from "@sluice/proto/v1/consume";
import { FakeGroups, groups } from "./fake-groups.ts";
import { ProduceService, type ProduceStreamRequest } from "@sluice/proto/v1/produce";
import { type AccessTable, createRpcServer, defineAccess, implement, type RpcServer } from "@sluice/rpc";
import { createListener, systemClock } from "@sluice/runtime";
import { RecordingLogger } from "@sluice/runtime/testing";
import type { DescService } from "@bufbuild/protobuf";
import { FakePartition, type StoredBatch } from "./fake-partition.ts";

export interface Arrival {
  /** Counts from 0 over all produce messages. */
  readonly index: number;
  readonly topic: string;
  readonly partition: number;
  readonly header: BatchHeader;
  readonly request: ProduceStreamRequest;
}
/** What the fake does with a produce message: by default it stores and answers. */
export type Verdict =
  | "store"
  | { readonly error: ErrorCode; readonly throttleMs?: number; readonly stored?: boolean }
  /** The stream breaks; nothing stored, or stored and not answered. */
  | { readonly drop: "before" | "after" }
  /** Stored and answered, or broken off, only when the promise resolves. */
  | { readonly hold: Promise<void> };

/** Topics in memory, shared by any number of fake proxies. */
export class FakeCluster {
  readonly topics = new Map<string, FakePartition[]>();
  readonly configs = new Map<string, Record<string, string>>();
  readonly groups = new FakeGroups(() => this.topics);
  readonly commits = new Map<string, { offset: number; metadata: string }>();
  readonly arrivals: Arrival[] = [];
  produceStreams = 0;
  consumeStreams = 0;
  nextProducerId = 1000;
  initCalls = 0;
  /** Bytes sent to a consumer beyond what it granted, the largest ever. */
  overCreditBytes = 0;
  /** Consume streams break after so many messages; 0 = never. */
  breakConsumeAfter = 0;
  /** Told with batches that are sent to consumers. */
  deliveryTrace = "";
  onProduce: (arrival: Arrival) => Verdict = () => "store";
  unaryError: () => ErrorCode | undefined = () => undefined;
  readonly listeners = new Set<() => void>();

  create(name: string, partitions: number, config: Record<string, string> = {}): void {
    this.topics.set(
      name,
      Array.from({ length: partitions }, () => new FakePartition()),
    );
    this.configs.set(name, { "max.message.bytes": "1048576", ...config });
  }
  topic(name: string): FakePartition[] {
    const topic = this.topics.get(name);
    if (topic === undefined) throw new SluiceError("UNKNOWN_TOPIC", `no topic ${name}`);
    return topic;
  }
  partition(name: string, partition: number): FakePartition {
    const p = this.topic(name)[partition];
    if (p === undefined) throw new SluiceError("UNKNOWN_PARTITION", `no partition ${partition}`);
    return p;
  }
  describe(name: string): Omit<Topic, "$typeName"> {
    const partitions = this.topic(name).length;
    return { name, topicId: "t", partitions, config: this.configs.get(name) ?? {}, internal: false, createdAtMs: 7n, deleting: false };
  }
  notify(): void {
    for (const fn of this.listeners) fn();
  }
  check(): void {
    const code = this.unaryError();
    if (code !== undefined) throw new SluiceError(code, "as the test wants");
  }
}

const open = <S extends DescService>(service: S): AccessTable<S> =>
  Object.fromEntries(service.methods.map((m) => [m.localName, "open"])) as unknown as AccessTable<S>;

export interface FakeProxy extends AsyncDisposable {
  readonly address: string;
  readonly server: RpcServer;
}

export async function startProxy(cluster: FakeCluster, port = 0): Promise<FakeProxy> {
  const server = createRpcServer({
    listener: createListener("fake", { bind: `127.0.0.1:${port}` }),
    logger: new RecordingLogger(),
    clock: systemClock,
    services: [admin(cluster), groups(cluster), produce(cluster), consume(cluster)],
  });
  await server.start();
  return { server, address: server.address, [Symbol.asyncDispose]: () => server.stop() };
}

const admin = (cluster: FakeCluster) =>
  implement(defineAccess(AdminService, open(AdminService)), {
    async createTopic(request) {
      cluster.check();
      if (cluster.topics.has(request.name)) throw new SluiceError("TOPIC_EXISTS", request.name);
      cluster.create(request.name, request.partitions, request.config);
      return { topic: cluster.describe(request.name) };
    },
    async listTopics() {
      cluster.check();
      return { topics: [...cluster.topics.keys()].map((name) => cluster.describe(name)) };
    },
    async describeTopic(request) {
      cluster.check();
      return { topic: cluster.describe(request.name) };
    },
    async updateTopicConfig(request) {
      cluster.configs.set(request.name, { ...cluster.configs.get(request.name), ...request.set });
      return { topic: cluster.describe(request.name) };
    },
    async addPartitions({ name, partitions, validateOnly }) {
      const { config } = cluster.describe(name);
      if (!validateOnly) cluster.create(name, partitions, config);
      return { topic: cluster.describe(name) };
    },
    async deleteTopic(request) {
      cluster.topic(request.name);
      cluster.topics.delete(request.name);
      return {};
    },
    async describeCluster() {
      cluster.check();
      return { clusterId: "c", generation: 1, members: [], controller: "controller-1", topics: cluster.topics.size };
    },
  });

const produce = (cluster: FakeCluster) =>
  implement(defineAccess(ProduceService, open(ProduceService)), {
    async produce() {
      throw new SluiceError("INTERNAL", "not used");
    },
    async initProducer() {
      cluster.initCalls++;
      cluster.check();
      return { producerId: BigInt(cluster.nextProducerId++), producerEpoch: 0 };
    },
    produceStream: {
      stream: (duplex, context) => {
        cluster.produceStreams++;
        const { promise, resolve, reject } = Promise.withResolvers<void>();
        context.signal.addEventListener("abort", () => resolve(), { once: true });
        if (context.signal.aborted) resolve();
        let topic = "";
        let dropped = false;
        duplex.listen((request) => {
          if (dropped) return;
          topic = request.topic === "" ? topic : request.topic;
          const bytes = request.data.value as Uint8Array;
          const index = cluster.arrivals.length;
          const arrival = { index, topic, partition: request.partition, header: parseBatchHeader(bytes), request };
          cluster.arrivals.push(arrival);
          const verdict = cluster.onProduce(arrival);
          if (typeof verdict === "object" && "drop" in verdict) {
            dropped = true;
            if (verdict.drop === "after") cluster.partition(topic, request.partition).append(bytes);
            reject(new SluiceError("SHUTTING_DOWN", "dropped by the test"));
          } else if (typeof verdict === "object" && "hold" in verdict) {
            const heldTopic = topic;
            void verdict.hold.then(() => answer(cluster, duplex, request, heldTopic, bytes, "store"));
          } else answer(cluster, duplex, request, topic, bytes, verdict);
        }, resolve);
        return promise;
      },
    },
  });

function answer(
  cluster: FakeCluster,
  duplex: { write(message: { id: number; partition: number }): boolean },
  request: ProduceStreamRequest,
  topic: string,
  bytes: Uint8Array,
  verdict: "store" | { readonly error: ErrorCode; readonly throttleMs?: number; readonly stored?: boolean },
): void {
  const { id, partition } = request;
  const say = (fields: object): void => void duplex.write({ id, partition, ...fields });
  if (verdict !== "store") {
    if (verdict.stored === true) cluster.partition(topic, partition).append(bytes);
    say({ error: errorNumber(verdict.error), errorMessage: "as the test wants", throttleMs: verdict.throttleMs ?? 0 });
    return;
  }
  const p = cluster.topics.get(topic)?.[partition];
  if (p === undefined) {
    say({ error: errorNumber("UNKNOWN_TOPIC"), errorMessage: "unknown" });
    return;
  }
  if (request.expectedBaseOffset !== undefined && Number(request.expectedBaseOffset) !== p.end) {
    say({ error: errorNumber("UNEXPECTED_OFFSET"), errorMessage: `the end is ${p.end}` });
    return;
  }
  const stored = p.append(bytes);
  if (typeof stored === "string") say({ error: errorNumber(stored), errorMessage: "refused" });
  else say({ baseOffset: BigInt(stored.base), lastOffset: BigInt(stored.last), appendTimeMs: -1n });
  cluster.notify();
}

function offsetAt(p: FakePartition, position: Position | undefined): number {
  const at = position?.at;
  if (at?.case === "offset") return Number(at.value);
  if (at?.case === "latest") return p.end;
  if (at?.case === "timestampMs") return p.batches.find((b) => b.header.maxTimestamp >= Number(at.value))?.header.baseOffset ?? -1;
  return p.start;
}

const consume = (cluster: FakeCluster) =>
  implement(defineAccess(ConsumeService, open(ConsumeService)), {
    async fetch() {
      throw new SluiceError("INTERNAL", "not used");
    },
    async listOffsets(request) {
      cluster.check();
      const all = cluster.topic(request.topic);
      const partitions = request.partitions.length > 0 ? request.partitions : all.map((_, i) => i);
      return {
        offsets: partitions.map((partition) => {
          const offset = offsetAt(cluster.partition(request.topic, partition), request.position);
          return { partition, offset: BigInt(offset), timestampMs: -1n };
        }),
      };
    },
    consume: {
      stream: (duplex, context) => {
        cluster.consumeStreams++;
        const { promise, resolve, reject } = Promise.withResolvers<void>();
        const run = new ConsumeRun(cluster, (message) => duplex.write(message), reject);
        cluster.listeners.add(run.pump);
        context.signal.addEventListener("abort", () => resolve(), { once: true });
        if (context.signal.aborted) resolve();
        duplex.listen((request) => run.take(request), resolve);
        return promise.finally(() => cluster.listeners.delete(run.pump));
      },
    },
  });

class ConsumeRun {
  readonly #cluster: FakeCluster;
  readonly #write: (message: object) => void;
  readonly #fail: (error: unknown) => void;
  readonly #at = new Map<number, { next: number; seekNumber: number; paused: boolean; told?: number }>();
  #topic = "";
  #reportEnd = false;
  #begun = false;
  #credit = 0;
  #granted = 0;
  #sent = 0;
  #messages = 0;
  #over = false;
  constructor(cluster: FakeCluster, write: (message: object) => void, fail: (error: unknown) => void) {
    this.#cluster = cluster;
    this.#write = write;
    this.#fail = fail;
  }
  take(request: ConsumeRequest): void {
    const r = request.request;
    if (r.case === "start") {
      this.#topic = r.value.topic;
      this.#reportEnd = r.value.reportEnd;
      this.#grant(r.value.creditBytes);
      for (const { partition, position } of r.value.partitions) {
        const next = offsetAt(this.#cluster.partition(this.#topic, partition), position);
        this.#at.set(partition, { next, seekNumber: 0, paused: false });
      }
    } else if (r.case === "creditBytes") this.#grant(r.value);
    else if (r.case === "seek") {
      const { partition, seekNumber } = r.value;
      // As the proxy: a stream takes seeks once it has begun, of its own partitions.
      if (!this.#at.has(partition) || !this.#begun) {
        this.#fail(new SluiceError("INVALID_ARGUMENT", "not in this stream, or it has not begun"));
        return;
      }
      const next = offsetAt(this.#cluster.partition(this.#topic, partition), r.value.position);
      this.#at.set(partition, { next, seekNumber, paused: false });
    }
    // What the proxy looks up first takes a moment.
    if (this.#begun) this.pump();
    else
      setTimeout(() => {
        this.#begun = true;
        this.pump();
      }, 5);
  }
  readonly pump = (): void => {
    if (!this.#begun) return;
    for (const [partition, at] of this.#at) {
      const p = this.#cluster.partition(this.#topic, partition);
      if (at.paused || this.#over) continue;
      if (at.next < p.start || at.next > p.end) {
        at.paused = true;
        this.#write({
          topic: this.#topic,
          partition,
          error: errorNumber("OFFSET_OUT_OF_RANGE"),
          errorMessage: "gone",
          seekNumber: at.seekNumber,
        });
        continue;
      }
      for (const batch of p.batches) {
        if (batch.header.lastOffset < at.next || this.#credit <= 0) continue;
        if (batch.header.isControl) {
          at.next = batch.header.lastOffset + 1;
          continue;
        }
        if (batch.bytes.length > this.#credit && this.#sent > 0) break;
        this.#send(partition, at, batch, p.end);
        if (this.#over) return;
      }
      if (!this.#reportEnd || at.next < p.end || at.told === p.end) continue;
      at.told = p.end;
      const { seekNumber } = at;
      this.#write({
        topic: this.#topic,
        partition,
        endReached: true,
        nextOffset: BigInt(at.next),
        highWatermark: BigInt(p.end),
        seekNumber,
      });
    }
  };
  #send(partition: number, at: { next: number; seekNumber: number }, batch: StoredBatch, end: number): void {
    const { breakConsumeAfter } = this.#cluster;
    at.next = batch.header.lastOffset + 1;
    this.#credit -= batch.bytes.length;
    this.#sent += batch.bytes.length;
    this.#cluster.overCreditBytes = Math.max(this.#cluster.overCreditBytes, this.#sent - this.#granted);
    this.#write({
      topic: this.#topic,
      partition,
      batches: batch.bytes,
      nextOffset: BigInt(at.next),
      highWatermark: BigInt(end),
      seekNumber: at.seekNumber,
      traceparent: this.#cluster.deliveryTrace,
    });
    if (breakConsumeAfter > 0 && ++this.#messages >= breakConsumeAfter) {
      this.#over = true;
      this.#fail(new SluiceError("SHUTTING_DOWN", "broken by the test"));
    }
  }
  #grant(bytes: number): void {
    this.#credit += bytes;
    this.#granted += bytes;
  }
}
