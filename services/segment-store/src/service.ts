import { awaitCluster, ClusterView, Membership } from "@sluice/catalog";
import { codeOf, limits, SluiceError, type ClusterRecord, type Endpoints } from "@sluice/core/model";
import type { ReplicaMutants } from "@sluice/core/replica";
import type { LinkContext } from "@sluice/link";
import { checkClusterMarker } from "@sluice/object-store";
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
import type { ServiceEnvironment, ServiceIdentity } from "@sluice/service";
import { Compactor } from "./compactor.ts";
import { ControllerLink } from "./controller-link.ts";
import { DiskPressure } from "./disk-pressure.ts";
import { nodeDisk, type Disk } from "./disk/disk.ts";
import { FolderLock, openFormat, type Format } from "./disk/format.ts";
import { Engine, engineLimits, type EngineLimits } from "./engine.ts";
import { storeHandlers } from "./handlers/index.ts";
import { StoreLinkServer } from "./link-server.ts";
import { FullMark } from "./full-mark.ts";
import { createStoreMetrics, type StoreMetrics } from "./metrics.ts";
import { registerNode } from "./node-record.ts";
import { SegmentDuty } from "./offload/duty.ts";
import { Uploader } from "./offload/uploader.ts";

export interface SegmentStoreOptions {
  readonly environment: ServiceEnvironment;
  readonly identity: ServiceIdentity;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly linkListener: Listener;
  readonly rpcListener: Listener;
  /** Told in the member record once known. */
  readonly metricsAddress?: () => string;
  /** Folder of this node alone. */
  readonly folder: string;
  /** 0 = the whole disk. */
  readonly capacityBytes: number;
  readonly limits?: Partial<EngineLimits>;
  readonly uploadsMax?: number;
  readonly takeOverMs?: number;
  /** The journal's disk; a wrapped one (slow, failing) in tests. */
  readonly disk?: Disk;
  readonly mutants?: ReplicaMutants;
}
export interface SegmentStore extends Service {
  endpoints(): Readonly<Record<string, string>>;
  /** Known once started. */
  readonly incarnation: string | undefined;
}

/**
 * Puts a storage node together: nothing is bound or read before `start`.
 *
 *   start: cluster record -> lock -> format -> journal -> view -> listeners -> node record -> member key -> duties
 */
export function createSegmentStore(options: SegmentStoreOptions): SegmentStore {
  return new SegmentStoreProcess(options);
}

class SegmentStoreProcess implements SegmentStore {
  readonly name = "segment-store";
  readonly #options: SegmentStoreOptions;
  readonly #stop = new AbortController();
  readonly #metrics: StoreMetrics;
  #lock: FolderLock | undefined;
  #parts: Parts | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: SegmentStoreOptions) {
    this.#options = options;
    const engine = (): Engine | undefined => this.#parts?.engine;
    this.#metrics = createStoreMetrics(options.metrics, {
      journalBytes: () => engine()?.files.totalBytes ?? 0,
      spareBytes: () => engine()?.files.spareBytes ?? 0,
      liveBytes: () => engine()?.host.locations.totalLiveBytes ?? 0,
      queuedBytes: () => engine()?.queuedBytes ?? 0,
      freeBytes: () => this.#parts?.pressure.freeBytes ?? 0,
      segments: (status) => [...(engine()?.host.state.byNumber.values() ?? [])].filter((s) => s.status === status).length,
      failed: () => engine()?.failed ?? false,
      diskFull: () => this.#parts?.pressure.isFull ?? false,
    });
    options.health.ready("membership", () => this.#parts?.membership.record !== undefined || "not registered");
    options.health.ready("journal", () => engine()?.failed !== true || "the journal has failed: replace the node");
    // No reason against readiness: it serves what it has, and its votes and uploads are what frees room.
    options.health.warn("disk", () => this.#parts?.pressure.isFull !== true || this.#parts.pressure.toString());
  }
  get incarnation(): string | undefined {
    return this.#parts?.format.incarnation;
  }
  endpoints(): Readonly<Record<string, string>> {
    return { ...this.#parts?.endpoints() };
  }

  async start(): Promise<void> {
    const { environment, identity, health, folder } = this.#options;
    const { store, keys, clock, logger, timers, random, objectStore } = environment;
    health.markWaiting("the metadata store and the first controller");
    const cluster = await awaitCluster(store, keys, clock, this.#stop.signal, timers.metadataRetryMs, logger);
    if (objectStore !== undefined)
      await checkClusterMarker(objectStore, cluster.clusterId, cluster.generation).catch((error: unknown) => {
        // A store that is away is no reason not to serve: each upload asks again. Another cluster's store is.
        if (codeOf(error) !== "OBJECT_STORE_UNAVAILABLE" && codeOf(error) !== "TIMED_OUT") throw error;
        logger.warn("object store does not answer, starting without it", { code: codeOf(error) });
      });
    const disk = this.#options.disk ?? nodeDisk;
    await disk.makeDirectory(folder);
    this.#lock = new FolderLock(folder);
    try {
      health.markWaiting(undefined);
      const format = await openFormat(disk, folder, { clusterId: cluster.clusterId, node: identity.id }, random);
      const engine = await Engine.open({
        disk,
        folder,
        format,
        clock,
        logger,
        timers,
        metrics: this.#metrics,
        limits: { ...engineLimits, ...this.#options.limits },
        onNoSpace: () => health.markWaiting("room on the disk"),
        ...(this.#options.mutants !== undefined && { mutants: this.#options.mutants }),
      });
      health.markWaiting("the metadata store");
      const view = new ClusterView({ store, keys, clock, logger, retryMs: timers.metadataRetryMs });
      this.#parts = new Parts(this.#options, this.#metrics, cluster, format, engine, view);
      await this.#parts.start();
    } catch (error) {
      this.#lock.release();
      this.#lock = undefined;
      throw error;
    }
    health.markStarted();
  }

  /** Takes no new segments: brokers and the controller see `draining` and roll their open segments away; what is here stays served until the stop. */
  async drain(): Promise<void> {
    this.#options.health.markDraining();
    await this.#parts?.drain();
  }
  stop(): Promise<void> {
    return (this.#stopped ??= this.#stopNow());
  }
  async #stopNow(): Promise<void> {
    this.#stop.abort(new SluiceError("SHUTTING_DOWN", "the storage node stops"));
    await this.#parts?.stop();
    this.#lock?.release();
  }
}

/** Segments uploaded at one time when the disk is nearly full. */
const UPLOADS_UNDER_PRESSURE = 4;

/** Everything that exists once the cluster is known and the journal is read. */
class Parts {
  readonly format: Format;
  readonly engine: Engine;
  readonly membership: Membership;
  readonly pressure: DiskPressure;
  readonly #options: SegmentStoreOptions;
  readonly #rpc: RpcServer;
  readonly #link: StoreLinkServer;
  readonly #lifecycle: Lifecycle;

  constructor(
    options: SegmentStoreOptions,
    metrics: StoreMetrics,
    cluster: ClusterRecord,
    format: Format,
    engine: Engine,
    view: ClusterView,
  ) {
    this.#options = options;
    this.format = format;
    this.engine = engine;
    const { environment, identity } = options;
    const { clock, random, logger, timers, store, keys, objectStore } = environment;
    const { host } = engine;
    const mark = new FullMark(() => this.membership);
    this.pressure = new DiskPressure({
      folder: options.folder,
      capacityBytes: options.capacityBytes,
      files: engine.files,
      host,
      clock,
      logger,
      intervalMs: timers.diskCheckMs,
      onShort: () => void compactor.runSoon(),
      waitsForRoom: () => engine.journal.waitsForRoom,
      tellFull: (full) => mark.set(full),
    });
    host.onNoSpace = () => this.pressure.full();
    const context: LinkContext = {
      clock,
      random,
      logger,
      timers,
      identity: {
        clusterId: cluster.clusterId,
        generation: cluster.generation,
        service: "segment-store",
        memberId: identity.id,
        instance: identity.instance,
        incarnation: format.incarnation,
        zone: identity.zone,
      },
      ...(environment.secret === undefined ? {} : { secret: environment.secret }),
    };
    const { linkListener, rpcListener } = options;
    this.#link = new StoreLinkServer({
      context,
      address: formatHostPort(linkListener.host, linkListener.port),
      host,
      reader: engine.reader,
      metrics,
      tracer: environment.tracer,
    });
    this.#rpc = createRpcServer({
      listener: rpcListener,
      logger,
      clock,
      timers,
      metrics: options.metrics,
      services: [
        storeHandlers({
          host,
          reader: engine.reader,
          format,
          space: () => ({
            journalBytes: engine.files.totalBytes,
            liveBytes: host.locations.totalLiveBytes,
            capacityBytes: this.pressure.capacityBytes,
            freeBytes: this.pressure.freeBytes,
          }),
        }),
      ],
      limits: { receiveBytesMax: limits.linkFrameBytesMax },
    });
    this.membership = this.#makeMembership();
    const controller = new ControllerLink({
      clock,
      timers,
      view,
      identity,
      space: () => this.pressure,
      healthy: () => !engine.failed,
    });
    const compactor = new Compactor({
      engine,
      logger,
      metrics,
      clock,
      waitMs: timers.journalCompactAfterMs,
      pressed: () => this.pressure.level !== "low",
    });
    const uploader =
      objectStore === undefined
        ? undefined
        : new Uploader({
            store,
            keys,
            objects: objectStore,
            cluster,
            host,
            reader: engine.journalReader,
            clock,
            random,
            logger,
            metrics,
          });
    const duty = new SegmentDuty({
      store,
      keys,
      view,
      host,
      uploader,
      self: { node: identity.id, incarnation: format.incarnation },
      clock,
      logger,
      timers,
      uploadsMax: () => (this.pressure.isHigh ? UPLOADS_UNDER_PRESSURE : (options.uploadsMax ?? 1)),
      takeOverMs: options.takeOverMs ?? timers.offloadTakeOverMs,
      onDropped: () => compactor.runSoon(),
      ...(options.mutants !== undefined && { mutants: options.mutants }),
    });
    this.#lifecycle = new Lifecycle({ name: "segment-store", logger, clock, drainMs: timers.shutdownMs }).add(
      { name: "engine", stop: () => engine.close() },
      { name: "disk pressure", start: () => this.pressure.start(), stop: () => this.pressure.stop() },
      { name: "view", start: () => view.start(), stop: () => view.close() },
      { name: "data link", start: () => this.#link.start(), stop: () => this.#link.stop() },
      this.#rpc,
      {
        name: "node record",
        start: (signal) =>
          registerNode(
            {
              store,
              keys,
              clock,
              logger,
              retryMs: timers.metadataRetryMs,
              id: identity.id,
              incarnation: format.incarnation,
              zone: identity.zone,
            },
            signal,
          ),
      },
      { name: "membership", start: () => this.membership.start(), stop: () => this.membership.close() },
      { name: "controller link", start: () => controller.start(), stop: () => controller.stop() },
      { name: "segment duty", start: () => duty.start(), stop: () => duty.stop() },
      // The duty waits for the compactor and for control calls; on a full disk those would wait for room.
      { name: "compactor", stop: () => compactor.stop() },
      { name: "control calls", stop: () => host.stopWaiting() },
    );
  }
  #makeMembership(): Membership {
    const { environment, identity } = this.#options;
    const { store, keys, clock, logger, timers } = environment;
    const endpoints = (): Endpoints => this.endpoints();
    const { pressure, engine, format } = this;
    return new Membership({
      store,
      keys,
      clock,
      logger,
      leaseTtlMs: timers.memberLeaseTtlMs,
      retryMs: timers.metadataRetryMs,
      healthy: () => !engine.failed,
      member: {
        service: "segment-store",
        id: identity.id,
        instance: identity.instance,
        zone: identity.zone,
        version: environment.version,
        draining: false,
        incarnation: format.incarnation,
        get capacityBytes(): number {
          return pressure.capacityBytes;
        },
        get diskFull(): boolean {
          return pressure.isFull;
        },
        get endpoints(): Endpoints {
          return endpoints();
        },
      },
    });
  }
  start(): Promise<void> {
    return this.#lifecycle.start();
  }
  async drain(): Promise<void> {
    await this.membership.update({ draining: true }).catch(() => undefined);
    await this.engine.journal.settled();
  }
  stop(): Promise<void> {
    return this.#lifecycle.stop();
  }
  endpoints(): Endpoints {
    const metrics = this.#options.metricsAddress?.();
    const { port } = parseHostPort(this.#link.address);
    return {
      link: advertisedAddress(this.#options.linkListener, port),
      rpc: this.#rpc.advertised,
      ...(metrics === undefined ? {} : { metrics }),
    };
  }
}
