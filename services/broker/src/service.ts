import { type ClusterView, Membership } from "@sluice/catalog";
import { crc32c } from "@sluice/codec";
import { SEGMENT_FOOTER_BYTES, readSegmentFooter, segmentParts } from "@sluice/core/log";
import type { ClusterRecord, Endpoints } from "@sluice/core/model";
import type { LinkContext } from "@sluice/link";
import { createRpcServer, type RpcServer } from "@sluice/rpc";
import {
  advertisedAddress,
  formatHostPort,
  Lifecycle,
  parseHostPort,
  type Health,
  type Listener,
  type Metrics,
  type Service,
} from "@sluice/runtime";
import { type ServiceEnvironment, type ServiceIdentity, ServiceShell } from "@sluice/service";
import { ControllerLink } from "./controller-link.ts";
import { brokerHandlers } from "./handlers/index.ts";
import { createMetadataCalls, type MetadataCalls } from "./metadata-calls.ts";
import { createBrokerMetrics, type BrokerMetrics } from "./metrics.ts";
import { Ownership } from "./ownership.ts";
import { ProducePath } from "./produce-path.ts";
import { ProxyLinks } from "./proxy-links.ts";
import { StoreControl } from "./store-control.ts";
import { StoreLinks } from "./store-links.ts";

export interface BrokerOptions {
  readonly environment: ServiceEnvironment;
  readonly identity: ServiceIdentity;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly linkListener: Listener;
  readonly rpcListener: Listener;
  /** Told in the member record once known. */
  readonly metricsAddress?: () => string;
  readonly pendingBytesMax: number;
}
export interface Broker extends Service {
  endpoints(): Readonly<Record<string, string>>;
  readonly ownership: Ownership;
}

/** How often a draining broker asks the controller how many partitions are left, ms. */
const DRAIN_POLL_MS = 50;
const ROUND_TRIP_MS = 1_000;

/**
 * Puts a broker together: nothing is bound or read before `start`.
 *
 *   start: cluster record -> view -> links to storage nodes -> listeners -> member key -> assignments
 */
export function createBroker(options: BrokerOptions): Broker {
  return new BrokerProcess(options);
}

class BrokerProcess implements Broker {
  readonly name = "broker";
  readonly #options: BrokerOptions;
  readonly #shell: ServiceShell<Parts>;

  constructor(options: BrokerOptions) {
    this.#options = options;
    const parts = (): Parts | undefined => this.#shell.parts;
    const metrics = createBrokerMetrics(options.metrics, {
      partitions: () => parts()?.ownership.size ?? 0,
      waiting: () => parts()?.ownership.waiting ?? 0,
      metadataWaiting: () => parts()?.metadata.waiting ?? 0,
      serving: () => [...(parts()?.ownership.hosts ?? [])].filter((h) => h.serving).length,
      starved: () => [...(parts()?.ownership.hosts ?? [])].filter((h) => h.starved).length,
      subscriptions: () => parts()?.proxyLinks.subscriptions ?? 0,
    });
    this.#shell = new ServiceShell({ ...options, build: (cluster, view) => new Parts(options, view, metrics, cluster) });
    options.health.ready("membership", () => parts()?.membership.record !== undefined || "not registered");
  }
  get ownership(): Ownership {
    if (this.#shell.parts === undefined) throw new Error("the broker has not started");
    return this.#shell.parts.ownership;
  }
  endpoints(): Readonly<Record<string, string>> {
    return this.#shell.endpoints();
  }

  start(): Promise<void> {
    return this.#shell.start();
  }
  /** Partitions first: the controller moves them away one by one, and each is sealed and freed before its next owner begins. */
  drain(): Promise<void> {
    const { clock } = this.#options.environment;
    return this.#shell.drain(async ({ membership, controller, ownership, rpc }, deadline) => {
      await membership.update({ draining: true }).catch(() => undefined);
      while (deadline.remainingMs() > 0 && ownership.size > 0 && this.#hasHeir()) {
        const remaining = await controller.drain();
        if (remaining === undefined || remaining === 0) break;
        await clock.sleep(DRAIN_POLL_MS);
      }
      await ownership.drain(deadline.signal);
      await rpc.drain(deadline);
    });
  }
  /** Another broker that stays: without one nothing can be moved, and waiting for it would only delay the end. */
  #hasHeir(): boolean {
    const { instance } = this.#options.identity;
    return this.#shell.view.membersOf("broker").some((member) => member.instance !== instance && !member.draining);
  }
  stop(): Promise<void> {
    return this.#shell.stop();
  }
}

/** Everything that exists once the cluster is known. */
class Parts {
  readonly ownership: Ownership;
  readonly metadata: MetadataCalls;
  readonly membership: Membership;
  readonly controller: ControllerLink;
  readonly proxyLinks: ProxyLinks;
  readonly rpc: RpcServer;
  readonly #options: BrokerOptions;
  readonly #storeLinks: StoreLinks;
  readonly #storeControl: StoreControl;
  readonly #lifecycle: Lifecycle;
  #appendedBefore = 0;
  #appended = 0;

  constructor(options: BrokerOptions, view: ClusterView, metrics: BrokerMetrics, cluster: ClusterRecord) {
    this.#options = options;
    const { environment, identity } = options;
    const { clock, random, logger, timers, store, keys, objectStore } = environment;
    const context: LinkContext = {
      clock,
      random,
      logger,
      timers,
      identity: {
        clusterId: cluster.clusterId,
        generation: cluster.generation,
        service: "broker",
        memberId: identity.id,
        instance: identity.instance,
        incarnation: "",
        zone: identity.zone,
      },
      ...(environment.secret === undefined ? {} : { secret: environment.secret }),
    };
    this.controller = new ControllerLink({
      clock,
      logger,
      timers,
      view,
      identity,
      load: () => ({ appendBytesPerSecond: this.#rate(), openPartitions: this.ownership.size }),
      onSuspects: (suspects) => this.ownership.setSuspects(suspects),
    });
    this.#storeLinks = new StoreLinks({
      context,
      logger,
      view,
      onLink: (node, up, reason) => {
        this.ownership.nodeLink(node, up, reason);
        if (!up && reason !== "timeout") this.controller.report("segment-store", node, reason);
      },
    });
    this.#storeControl = new StoreControl({ clock, metrics, address: (replica) => this.#storeLinks.controlAddress(replica) });
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
        service: "broker",
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
    this.metadata = createMetadataCalls(store, keys, ({ topicId }) => view.topicEntry(topicId));
    this.ownership = new Ownership({
      self: identity.id,
      instance: identity.instance,
      generation: cluster.generation,
      timers,
      random,
      logger,
      view,
      environment: {
        clock,
        logger,
        metrics,
        metadata: this.metadata,
        control: (to, timeoutMs, body) => this.#storeControl.call(to, timeoutMs, body),
        sendAppend: (host, effect) => this.#storeLinks.send(host, effect),
        readProducers: async (object) => {
          if (objectStore === undefined) return undefined;
          const footerAt = object.at + object.length - SEGMENT_FOOTER_BYTES;
          const footer = readSegmentFooter(await objectStore.getRange(object.key, footerAt, SEGMENT_FOOTER_BYTES), object.length, crc32c);
          const { from, to } = segmentParts(footer).producers;
          const producers = from === to ? new Uint8Array(0) : await objectStore.getRange(object.key, object.at + from, to - from);
          return crc32c(producers) === footer.producerCrc ? producers : undefined;
        },
        reportSuspect: (node, reason) => {
          metrics.suspects.labels(reason).inc();
          if (reason === "reset" || reason === "refused") this.controller.report("segment-store", node, reason);
        },
        leaseConfirmedUntilMs: () => this.membership.confirmedUntilMs(),
      },
    });
    const producePath = new ProducePath({
      clock,
      timers,
      crc32c,
      metrics: { ...metrics, appendBytes: { inc: (by = 1) => (metrics.appendBytes.inc(by), void (this.#appended += by)) } },
      ownership: this.ownership,
      tracer: environment.tracer,
      pendingBytesMax: options.pendingBytesMax,
    });
    const { linkListener, rpcListener } = options;
    this.proxyLinks = new ProxyLinks({
      context,
      address: formatHostPort(linkListener.host, linkListener.port),
      ownership: this.ownership,
      producePath,
    });
    this.rpc = createRpcServer({
      listener: rpcListener,
      logger,
      clock,
      timers,
      metrics: options.metrics,
      services: [brokerHandlers(this.ownership, clock, timers)],
    });
    this.#lifecycle = new Lifecycle({ name: "broker", logger, clock, drainMs: timers.shutdownMs }).add(
      { name: "storage links", start: () => this.#storeLinks.start(), stop: () => this.#storeLinks.stop() },
      { name: "data link", start: () => this.proxyLinks.start(), stop: () => this.proxyLinks.stop() },
      this.rpc,
      { name: "membership", start: () => this.membership.start(), stop: () => this.membership.close() },
      { name: "controller link", start: () => this.controller.start(), stop: () => this.controller.stop() },
      {
        name: "ownership",
        start: () => this.ownership.start(),
        stop: () => {
          this.ownership.close();
          this.#storeControl.close();
        },
      },
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
    const { port } = parseHostPort(this.proxyLinks.address);
    return {
      link: advertisedAddress(this.#options.linkListener, port),
      rpc: this.rpc.advertised,
      ...(metrics === undefined ? {} : { metrics }),
    };
  }
  /** Bytes appended since the last heartbeat, as a rate. */
  #rate(): number {
    const bytes = this.#appended - this.#appendedBefore;
    this.#appendedBefore = this.#appended;
    return (bytes * ROUND_TRIP_MS) / this.#options.environment.timers.heartbeatIntervalMs;
  }
}
