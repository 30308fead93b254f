import { createKeys, ensureCluster, partitionStateCodec, segmentCodec, topicCodec } from "@sluice/catalog";
import { epoch, incarnation, instanceId, memberId, scaleTimers, type SegmentRecord } from "@sluice/core/model";
import {
  appendCodec,
  appendedCodec,
  connectLink,
  dataCodec,
  FrameType,
  readCodec,
  type AppendedEntry,
  type Link,
  type LinkContext,
} from "@sluice/link";
import { openEmbeddedMetadata } from "@sluice/metadata";
import type { ObjectStore } from "@sluice/object-store";
import { SegmentStoreService } from "@sluice/proto/internal/v1/segment_store";
import { createRpcClient, type RpcClient } from "@sluice/rpc";
import { createHealth, createListener, createMetrics, systemClock, systemRandom, type Metrics } from "@sluice/runtime";
import { RecordingLogger } from "@sluice/runtime/testing";
import { createSegmentStore, type SegmentStore, type SegmentStoreOptions } from "../src/service.ts";
import { batch, join8, NO_PRODUCERS, partition, TOPIC } from "./support.ts";

export const CALL_MS = 5_000;
// A busy machine takes its time to accept a connection.
export const timers = {
  ...scaleTimers(0.1),
  linkConnectTimeoutMs: 5_000,
  linkHelloTimeoutMs: 5_000,
  offloadScanMs: 30,
  reconcileAfterMs: 200,
};

/** A metadata store with a cluster in it, and real storage nodes on loopback. */
export class StoreCluster implements AsyncDisposable {
  readonly store = openEmbeddedMetadata({ path: ":memory:", clock: systemClock });
  readonly keys = createKeys("test");
  readonly log = new RecordingLogger();
  readonly #open: (() => Promise<void>)[] = [];
  clusterId = "";

  static async create(): Promise<StoreCluster> {
    const c = new StoreCluster();
    c.clusterId = (await ensureCluster(c.store, c.keys, { random: systemRandom, shardCount: 1 })).clusterId;
    return c;
  }
  async node(id: string, folder: string, options: Partial<SegmentStoreOptions> & { objectStore?: ObjectStore } = {}): Promise<RunningNode> {
    const metrics = createMetrics({ service: "store" });
    const { objectStore, ...rest } = options;
    const store = createSegmentStore({
      environment: {
        clock: systemClock,
        random: systemRandom,
        logger: this.log.child({ node: id }),
        timers,
        store: this.store,
        keys: this.keys,
        objectStore,
        secret: undefined,
        version: "test",
      },
      identity: { id: memberId(id), instance: instanceId(systemRandom.uuid()), zone: "a" },
      metrics,
      health: createHealth("segment-store", systemClock),
      linkListener: createListener("link", { bind: "127.0.0.1:0" }),
      rpcListener: createListener("rpc", { bind: "127.0.0.1:0" }),
      folder,
      capacityBytes: 0,
      limits: { journalFileBytes: 1024 * 1024 },
      ...rest,
    });
    await store.start();
    const client = createRpcClient(SegmentStoreService, store.endpoints()["rpc"] as string);
    const node = new RunningNode(this, store, client, metrics);
    this.#open.push(() => node.stop());
    return node;
  }
  linkContext(): LinkContext {
    return {
      clock: systemClock,
      random: systemRandom,
      logger: this.log,
      timers,
      identity: {
        clusterId: this.clusterId,
        generation: 0,
        service: "broker",
        memberId: memberId("broker-1"),
        instance: instanceId(systemRandom.uuid()),
        incarnation: "",
        zone: "a",
      },
    };
  }
  async put(key: string, value: Uint8Array): Promise<void> {
    await this.store.txn({ compare: [], then: [{ kind: "put", key, value }] });
  }
  async topic(config: Record<string, string> = {}): Promise<void> {
    const record = { tenant: "default", name: "t", topicId: TOPIC, partitions: 4, config, phase: "ACTIVE", createdAtMs: 1 } as const;
    await this.put(this.keys.topic("default", "t"), topicCodec.encode(record));
  }
  async register(p: number, e: number): Promise<void> {
    const state = { epoch: epoch(e), owner: memberId("broker-1"), ownerInstance: instanceId("i"), nonce: "n", phase: "OPEN" } as const;
    await this.put(this.keys.state(partition(p)), partitionStateCodec.encode(state));
  }
  async segment(p: number, record: SegmentRecord): Promise<void> {
    await this.put(this.keys.segment(partition(p), record.base, record.segment), segmentCodec.encode(record));
  }
  async readSegment(p: number, base: number, e = 1, k = 0): Promise<SegmentRecord | undefined> {
    const { entry } = await this.store.get(this.keys.segment(partition(p), base, { epoch: epoch(e), k }));
    return entry === undefined ? undefined : segmentCodec.decode(entry.value);
  }
  async [Symbol.asyncDispose](): Promise<void> {
    for (const close of this.#open.reverse()) await close();
    await this.store.close();
  }
}

export class RunningNode {
  readonly cluster: StoreCluster;
  readonly service: SegmentStore;
  readonly client: RpcClient<typeof SegmentStoreService>;
  readonly metrics: Metrics;
  #stopped = false;
  constructor(cluster: StoreCluster, service: SegmentStore, client: RpcClient<typeof SegmentStoreService>, metrics: Metrics) {
    this.cluster = cluster;
    this.service = service;
    this.client = client;
    this.metrics = metrics;
  }
  get incarnation(): string {
    return this.service.incarnation ?? "";
  }
  replica(id: string) {
    return { node: memberId(id), incarnation: incarnation(this.incarnation) };
  }
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.client.close();
    await this.service.stop();
  }
  async create(p: number, base = 0, e = 1, k = 0): Promise<number> {
    const { results } = await this.client.createSegments(
      {
        segments: [
          {
            address: { topicId: TOPIC, partition: p, epoch: e, k },
            base: BigInt(base),
            incarnation: this.incarnation,
            nonce: "n",
            producers: NO_PRODUCERS,
          },
        ],
      },
      { timeoutMs: CALL_MS },
    );
    if (results[0]?.code !== 0) throw new Error(`create: ${results[0]?.code} ${results[0]?.message}`);
    return results[0].segmentNumber;
  }
  async fence(p: number, by: number, e = 1, inc = this.incarnation) {
    const { results } = await this.client.fenceSegments(
      { segments: [{ address: { topicId: TOPIC, partition: p, epoch: e, k: 0 }, epoch: by, incarnation: inc }] },
      { timeoutMs: CALL_MS },
    );
    return results[0] as NonNullable<(typeof results)[0]>;
  }
  async seal(p: number, end: number, by = 1, e = 1) {
    const { results } = await this.client.sealSegments(
      { segments: [{ address: { topicId: TOPIC, partition: p, epoch: e, k: 0 }, end: BigInt(end), epoch: by }] },
      { timeoutMs: CALL_MS },
    );
    return results[0] as NonNullable<(typeof results)[0]>;
  }
  connect(purpose: "log" | "bulk" = "log"): Promise<StoreClient> {
    return StoreClient.connect(this.cluster.linkContext(), this.service.endpoints()["link"] as string, purpose);
  }
}

/** The broker's and the proxy's side of the link. */
export class StoreClient {
  readonly link: Link;
  readonly answers: AppendedEntry[] = [];
  frames = 0;
  #waiting: (() => void)[] = [];
  constructor(link: Link) {
    this.link = link;
  }
  static async connect(context: LinkContext, address: string, purpose: "log" | "bulk"): Promise<StoreClient> {
    const holder: { client?: StoreClient } = {};
    const message = appendedCodec.create();
    const link = await connectLink(context, {
      address,
      purpose,
      handlers: {
        onFrame(_link, frame) {
          const { client } = holder;
          if (frame.type !== FrameType.appended || client === undefined) return;
          appendedCodec.decode(frame, message);
          client.frames++;
          for (const e of message.entries.slice(0, message.count)) client.answers.push({ ...e });
          client.wake();
        },
        onClose() {
          holder.client?.wake();
        },
      },
    });
    holder.client = new StoreClient(link);
    return holder.client;
  }
  wake(): void {
    for (const resume of this.#waiting.splice(0)) resume();
  }
  append(segmentNumber: number, first: number, last: number, more: { e?: number; lac?: number; base?: number; bytes?: number } = {}): void {
    const batches: Uint8Array[] = [];
    for (let o = first; o <= last; o++)
      batches.push(batch({ first: o, epoch: more.e ?? 1, ...(more.bytes !== undefined && { bytes: more.bytes }) }));
    const m = appendCodec.create();
    Object.assign(m, {
      segmentNumber,
      epoch: more.e ?? 1,
      base: more.base ?? 0,
      firstOffset: first,
      lastOffset: last,
      lac: more.lac ?? -1,
      barrier: 0,
    });
    if (!this.link.send(appendCodec, 0, m, join8(batches))) throw new Error("the link refused the frame");
  }
  async until(segmentNumber: number, durable: number): Promise<AppendedEntry> {
    for (;;) {
      const found = this.answers.find((a) => a.segmentNumber === segmentNumber && (a.code !== 0 || a.durable >= durable));
      if (found !== undefined) return found;
      if (this.link.closed) throw new Error("the link is closed");
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }
  read(
    p: number,
    from: number,
    options: { hw?: number; maxBytes?: number; e?: number } = {},
  ): Promise<{ code: number; sealed: boolean; limit: number; payload: Uint8Array }> {
    const m = readCodec.create();
    Object.assign(m, {
      topicId: TOPIC,
      partition: p,
      segmentEpoch: options.e ?? 1,
      segmentK: 0,
      maxBytes: options.maxBytes ?? 1024 * 1024,
      from,
      highWatermark: options.hw ?? -1,
      highWatermarkEpoch: options.hw === undefined ? -1 : (options.e ?? 1),
    });
    return new Promise((resolve, reject) => {
      const sent = this.link.request(readCodec, m, new Uint8Array(0), CALL_MS, (frame, failure) => {
        if (frame === undefined) {
          reject(new Error(failure?.message));
          return;
        }
        const answer = dataCodec.decode(frame, dataCodec.create());
        const { payload } = frame;
        this.link.release(frame.creditBytes);
        resolve({ ...answer, payload });
      });
      if (!sent) reject(new Error("the link refused the read"));
    });
  }
}

export async function until(condition: () => boolean | Promise<boolean>, what: string, timeoutMs = 25_000): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await systemClock.sleep(5);
  }
}
