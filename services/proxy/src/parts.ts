import { unwritableReason, type ClusterView, type ViewChange } from "@sluice/catalog";
import { crc32c, nativeCodecs } from "@sluice/codec";
import type { ClusterRecord } from "@sluice/core/model";
import type { LinkContext } from "@sluice/link";
import { BrokerLinks, directBlocks, ObjectReader, ProduceRouter, SegmentReader, StoreReader, TailFollower } from "@sluice/partition-client";
import { ChannelPool, createRpcServer, type Authorizer, type RpcServer } from "@sluice/rpc";
import type { Listener, Metrics } from "@sluice/runtime";
import type { ServiceEnvironment, ServiceIdentity } from "@sluice/service";
import { BatchEncoder } from "./batch-encoder.ts";
import { BlockCache } from "./block-cache.ts";
import { ControllerClient } from "./controller-client.ts";
import { CoordinatorClient } from "./coordinator-client.ts";
import { adminService } from "./handlers/admin.ts";
import { consumeService } from "./handlers/consume.ts";
import { groupService } from "./handlers/group.ts";
import { produceService } from "./handlers/produce.ts";
import type { KafkaContext, KafkaSettings } from "./kafka/context.ts";
import { FetchSessions } from "./kafka/fetch-sessions.ts";
import { kafkaHandlers } from "./kafka/handlers/index.ts";
import { KafkaListener, type KafkaDoor, type KafkaEndpoint } from "./kafka/listener.ts";
import { Redirects } from "./kafka/redirects.ts";
import { SequenceGaps } from "./kafka/sequence-gaps.ts";
import { Topology } from "./kafka/topology.ts";
import { proxyLimits } from "./limits.ts";
import type { ProxyMetrics } from "./metrics.ts";
import { OwnerOffsets } from "./owner-offsets.ts";
import { Positions } from "./positions.ts";
import { ProducePath } from "./produce-path.ts";
import { ProducerIds } from "./producer-ids.ts";
import { ReadPath } from "./read-path.ts";
import { TailCache } from "./tail-cache.ts";
import { Topics } from "./topics.ts";

export interface ProxyPartsOptions {
  readonly environment: ServiceEnvironment;
  readonly identity: ServiceIdentity;
  readonly cluster: ClusterRecord;
  readonly view: ClusterView;
  readonly metrics: ProxyMetrics;
  readonly registry: Metrics;
  readonly grpcListener: Listener;
  /** None: no Kafka client is served. */
  readonly kafkaListeners: Readonly<Partial<Record<KafkaEndpoint, Listener>>>;
  readonly kafkaSettings: KafkaSettings;
  readonly authorizer?: Authorizer;
  readonly heldBytesMax: number;
  readonly tailCacheBytes: number;
  readonly blockCacheBytes: number;
  readonly metadataStale: () => boolean;
}

/** What both listeners serve from. */
interface Shared {
  readonly topics: Topics;
  readonly path: ProducePath;
  readonly reads: ReadPath;
  readonly positions: Positions;
  readonly producerIds: ProducerIds;
}

/** Everything that exists once the cluster is known, wired together. */
export class ProxyParts {
  readonly rpc: RpcServer;
  readonly kafka: KafkaListener | undefined;
  readonly router: ProduceRouter;
  readonly path: ProducePath;
  readonly tails: TailCache;
  readonly blocks: BlockCache | undefined;
  readonly #options: ProxyPartsOptions;
  readonly #links: BrokerLinks;
  readonly #follower: TailFollower;
  readonly #stores: StoreReader;
  readonly #segments: SegmentReader;
  readonly #channels: ChannelPool;
  readonly #controller: ControllerClient;
  readonly #coordinators: CoordinatorClient;
  readonly #offsets: OwnerOffsets;
  readonly #unsubscribe: () => void;

  constructor(options: ProxyPartsOptions) {
    this.#options = options;
    const { environment, identity, view, metrics } = options;
    const { clock, logger, timers, store, keys, objectStore } = environment;
    const context = linkContext(options);
    this.#channels = new ChannelPool({ clock, clientId: identity.id });
    this.#controller = new ControllerClient({
      clock,
      logger,
      timers,
      view,
      identity,
      channels: this.#channels,
      metadataStale: options.metadataStale,
    });
    this.#coordinators = new CoordinatorClient({ clock, timers, view, channels: this.#channels });
    this.#links = new BrokerLinks(context, view, {
      onFrame: (_broker, link, frame) => this.#follower.onFrame(link, frame),
      onUp: (broker) => {
        this.#follower.linkUp(broker);
        this.router.linksChanged();
      },
      onDown: (broker, reason) => {
        this.#follower.linkDown(broker);
        this.router.linksChanged();
        if (reason.kind !== "reset" && reason.kind !== "refused") return;
        metrics.peerReports.labels(reason.kind).inc();
        this.#controller.report("broker", broker, reason.kind);
      },
      onWritable: () => this.router.linksChanged(),
    });
    this.router = new ProduceRouter({
      clock,
      timers,
      links: this.#links,
      heldBytesMax: options.heldBytesMax,
      unwritable: () => unwritableReason(view),
      gone: (topic) => view.isGone(topic),
    });
    this.#follower = new TailFollower(clock, this.#links);
    this.tails = new TailCache({ clock, follower: this.#follower, bytesMax: options.tailCacheBytes, idleMs: proxyLimits.tailIdleMs });
    if (objectStore !== undefined) {
      this.blocks = new BlockCache({
        source: directBlocks(objectStore),
        bytesMax: options.blockCacheBytes,
        onRead: (from, bytes) => metrics.readBytes.labels(from === "cache" ? "block" : "object").inc(bytes),
      });
    }
    this.#stores = new StoreReader(context, view);
    this.#segments = new SegmentReader({
      view,
      store,
      keys,
      stores: this.#stores,
      objects: objectStore === undefined ? undefined : new ObjectReader(objectStore, crc32c, this.blocks),
    });
    this.#offsets = new OwnerOffsets({ clock, timers, view, links: this.#links, channels: this.#channels });
    const shared = this.#shared();
    this.path = shared.path;
    this.rpc = this.#server(shared);
    this.kafka = this.#kafkaListener(shared);
    this.#unsubscribe = view.onChange((changes) => this.#follow(changes));
  }

  async stop(): Promise<void> {
    this.#unsubscribe();
    await Promise.all([this.rpc.stop(), this.kafka?.stop()]);
    this.tails.close();
    this.router.close();
    this.#follower.close();
    this.#links.close();
    this.#stores.close();
    this.#channels.close();
  }

  #shared(): Shared {
    const { environment, view, metrics, heldBytesMax } = this.#options;
    const { clock, store, keys } = environment;
    const encoder = new BatchEncoder({ crc32c, codecs: nativeCodecs, clock });
    const reads = new ReadPath({
      clock,
      view,
      tails: this.tails,
      segments: this.#segments,
      offsets: this.#offsets,
      // Bytes out of objects are counted by the block cache, which knows where they came from.
      onRead: (source, bytes) => source === "object" || metrics.readBytes.labels(source).inc(bytes),
    });
    return {
      topics: new Topics(view, store, keys),
      path: new ProducePath({ clock, router: this.router, encoder, metrics, heldBytesMax, tracer: environment.tracer }),
      reads,
      positions: new Positions({ view, segments: this.#segments, offsets: this.#offsets, codecs: nativeCodecs }),
      producerIds: new ProducerIds(store, keys),
    };
  }
  #server({ topics, path, reads, positions, producerIds }: Shared): RpcServer {
    const { environment, view, metrics, registry, grpcListener, authorizer } = this.#options;
    const { clock, logger, timers } = environment;
    return createRpcServer({
      listener: grpcListener,
      logger,
      clock,
      metrics: registry,
      timers,
      ...(authorizer === undefined ? {} : { authorizer }),
      services: [
        produceService({ clock, timers, topics, path, producerIds }),
        consumeService({ clock, timers, codecs: nativeCodecs, topics, positions, reads, metrics, tracer: environment.tracer }),
        adminService({ clock, timers, view, topics, controller: this.#controller, metadataStale: this.#options.metadataStale }),
        groupService(this.#coordinators, topics),
      ],
    });
  }
  #kafkaListener(shared: Shared): KafkaListener | undefined {
    const { environment, identity, view, metrics, registry, kafkaListeners, kafkaSettings, authorizer } = this.#options;
    const { clock, logger, timers, store, keys } = environment;
    const context: Omit<KafkaContext, "topology" | "redirects"> = {
      ...shared,
      clock,
      timers,
      view,
      store,
      keys,
      metrics,
      controller: this.#controller,
      coordinators: this.#coordinators,
      tails: this.tails,
      offsets: this.#offsets,
      fetchSessions: new FetchSessions(clock, registry),
      sequenceGaps: new SequenceGaps(),
      settings: kafkaSettings,
    };
    const doors: KafkaDoor[] = [];
    const topologies: Topology[] = [];
    for (const endpoint of ["kafka", "kafkaOutside"] as const) {
      const listener = kafkaListeners[endpoint];
      if (listener === undefined) continue;
      const topology = new Topology(view, identity, endpoint, logger);
      topologies.push(topology);
      doors.push({ endpoint, listener, handlers: kafkaHandlers({ ...context, topology, redirects: new Redirects(clock, topology) }) });
    }
    if (doors.length === 0) return undefined;
    const hasOthers = (): boolean => topologies.some((topology) => topology.hasOthers());
    return new KafkaListener({ doors, clock, logger, metrics: registry, authorizer, gate: shared.path, hasOthers });
  }

  /** What changed in the metadata, told to whoever waits for it. */
  #follow(changes: readonly ViewChange[]): void {
    for (const change of changes) {
      if (change.kind === "assigned" || change.kind === "state") {
        this.router.routeChanged(change.partition);
        this.#follower.routeChanged(change.partition);
      } else if (change.kind === "member" && change.service === "broker") this.#brokerChanged(change);
      else if (change.kind === "member") {
        if (change.before !== undefined && change.before.endpoints.rpc !== change.after?.endpoints.rpc)
          this.#forget(change.before.endpoints.rpc);
      } else if (change.kind === "topic") this.#topicChanged(change);
    }
  }
  /** Who waits for a topic that is deleted waits for nothing. */
  #topicChanged({ before, after }: Extract<ViewChange, { kind: "topic" }>): void {
    const topic = after ?? before;
    if (topic === undefined || !this.#options.view.isGone(topic.topicId)) return;
    for (let number = 0; number < topic.partitions; number += 1) {
      const partition = { topicId: topic.topicId, partition: number };
      this.router.routeChanged(partition);
      this.tails.wake(partition);
    }
  }
  #brokerChanged(change: Extract<ViewChange, { kind: "member" }>): void {
    const { before, after } = change;
    if (before?.instance === after?.instance && before?.endpoints.link === after?.endpoints.link) return;
    if (before !== undefined && before.endpoints.rpc !== after?.endpoints.rpc) this.#forget(before.endpoints.rpc);
    this.router.linksChanged();
    for (const { id } of this.#options.view.partitions.values()) this.#follower.routeChanged(id);
  }
  #forget(address: string | undefined): void {
    if (address === undefined) return;
    for (const { record } of this.#options.view.members.values()) if (record.endpoints.rpc === address) return;
    this.#channels.forget(address);
  }
}

function linkContext({ environment, identity, cluster }: ProxyPartsOptions): LinkContext {
  const { clock, random, logger, timers, secret } = environment;
  return {
    clock,
    random,
    logger,
    timers,
    identity: {
      clusterId: cluster.clusterId,
      generation: cluster.generation,
      service: "proxy",
      memberId: identity.id,
      instance: identity.instance,
      incarnation: "",
      zone: identity.zone,
    },
    ...(secret === undefined ? {} : { secret }),
  };
}
