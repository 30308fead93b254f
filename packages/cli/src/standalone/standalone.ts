import { access, constants, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { createBroker } from "@sluice/broker";
import { createKeys } from "@sluice/catalog";
import { createController } from "@sluice/controller";
import { createCoordinator } from "@sluice/coordinator";
import { codeOf, instanceId, limits, memberId, SluiceError, scaleTimers, type ServiceKind } from "@sluice/core/model";
import { openEmbeddedMetadata } from "@sluice/metadata";
import { openObjectStore } from "@sluice/object-store";
import { createProxy } from "@sluice/proxy";
import {
  createHealth,
  createHealthServer,
  createListener,
  createMetrics,
  formatHostPort,
  processMetrics,
  systemClock,
  systemRandom,
  type Health,
  type HealthServer,
  type Listener,
  type Logger,
  type Metrics,
  type Service,
} from "@sluice/runtime";
import { createSegmentStore } from "@sluice/segment-store";
import type { ServiceEnvironment, ServiceIdentity } from "@sluice/service";
import type { StandalonePorts } from "../defaults.ts";
import { CommandFailure, exitCodes } from "../exit.ts";
import { checkFolder, makeFolder } from "../folder-kind.ts";
import { VERSION } from "../version.ts";

export interface StandaloneOptions {
  /** Folder of everything; made when it is not there. */
  readonly data: string;
  /** 0 = any free port. */
  readonly ports: StandalonePorts;
  /** Default 127.0.0.1. Any other than loopback needs `allowUnauthenticated`. */
  readonly host?: string;
  readonly allowUnauthenticated?: boolean;
  readonly logger: Logger;
  /** Timers of the protocol in percent of their defaults; for tests. */
  readonly timersScalePercent?: number;
  /** Ends a start that is not complete; `stop` is for later. */
  readonly signal?: AbortSignal;
}
export interface Standalone extends AsyncDisposable {
  readonly data: string;
  readonly endpoints: { readonly grpc: string; readonly kafka: string; readonly metrics: string };
  /** Drains and stops all services, then closes metadata and object store. Idempotent. */
  stop(): Promise<void>;
}

/** A record is written to three storage nodes: here they are three folders of one disk. */
const STORES = 3;
const SHARDS = 8;
const READY_TIMEOUT_MS = 30_000;
const READY_LOOK_MS = 10;

/**
 * All services in one process: the factories, ports and code paths of the cluster, on an embedded metadata store and a folder of objects.
 *
 *   DATA/metadata.sqlite    one process at a time can have it open: this is the lock of the folder
 *   DATA/stores/store-N     journals of the storage nodes
 *   DATA/objects            history
 *   DATA/standalone.json    pid and endpoints of the process that runs, or ran last
 *
 * Resolves when all services are ready. Throws INVALID_CONFIG for a listener that cannot be, FOLDER_IN_USE, or why the folder cannot be used;
 * what is refused leaves no file behind.
 */
export async function startStandalone(options: StandaloneOptions): Promise<Standalone> {
  const data = resolve(options.data);
  const listen = (name: string, port: number): Listener =>
    createListener(name, {
      bind: formatHostPort(options.host ?? "127.0.0.1", port),
      allowUnauthenticated: options.allowUnauthenticated ?? false,
    });
  const { grpc, kafka, metrics } = options.ports;
  const listeners = { grpc: listen("grpc", grpc), kafka: listen("kafka", kafka), health: listen("health", metrics) };
  if ((await checkFolder(data, "standalone", "--data")) === "new")
    for (const listener of Object.values(listeners)) await checkPort(listener);
  await makeFolder(data, "--data");
  await checkWritable(data);
  const environment = await openEnvironment(data, options);
  const process = new StandaloneProcess(data, environment, listeners, options);
  try {
    await process.start(options.signal);
  } catch (error) {
    await process.stop();
    throw error;
  }
  return process;
}

async function checkWritable(data: string): Promise<void> {
  try {
    await access(data, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new CommandFailure(`--data ${data}: ${(cause as NodeJS.ErrnoException).code}: not writable`, exitCodes.usage, { cause });
  }
}
/** A port that something else has is found before the folder is made. (It may still be taken between this and the start: then that says so.) */
async function checkPort({ name, host, port }: Listener): Promise<void> {
  if (port === 0) return;
  await new Promise<void>((resolve, reject) => {
    const server = createServer();
    server.once("error", (cause: NodeJS.ErrnoException) =>
      reject(
        new SluiceError("INVALID_CONFIG", `listener.${name}: cannot listen on ${formatHostPort(host, port)}: ${cause.code}`, { cause }),
      ),
    );
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve()));
  });
}

async function openEnvironment(data: string, options: StandaloneOptions): Promise<ServiceEnvironment> {
  const { logger } = options;
  let store;
  try {
    store = openEmbeddedMetadata({ path: join(data, "metadata.sqlite"), clock: systemClock });
  } catch (cause) {
    if (codeOf(cause) !== "FOLDER_IN_USE") throw cause;
    const holder = await readFile(runFile(data), "utf8")
      .then((text) => JSON.parse(text) as { pid: number; grpc: string })
      .then(
        ({ pid, grpc }) => ` (a standalone, it seems: pid ${pid}, gRPC ${grpc})`,
        () => "",
      );
    throw new SluiceError("FOLDER_IN_USE", `${data} is in use by another process${holder}`, { cause });
  }
  try {
    const objectStore = await openObjectStore(join(data, "objects"), { clock: systemClock, random: systemRandom, logger });
    return {
      clock: systemClock,
      random: systemRandom,
      logger,
      timers: scaleTimers((options.timersScalePercent ?? 100) / 100),
      store,
      keys: createKeys("sluice"),
      objectStore,
      // Nobody else can know it: other users of the machine cannot speak to the services behind the proxy.
      secret: systemRandom.bytes(32),
      version: VERSION,
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}
const runFile = (data: string): string => join(data, "standalone.json");

interface Embedded {
  readonly service: Service;
  readonly health: Health;
}

class StandaloneProcess implements Standalone {
  readonly data: string;
  readonly #environment: ServiceEnvironment;
  readonly #healthServer: HealthServer;
  /** In the order of the way in: what others need comes first. */
  readonly #services: readonly Embedded[];
  readonly #proxy: { endpoints(): Readonly<Record<string, string>> };
  #stopping: Promise<void> | undefined;

  constructor(
    data: string,
    environment: ServiceEnvironment,
    listeners: { readonly grpc: Listener; readonly kafka: Listener; readonly health: Listener },
    options: StandaloneOptions,
  ) {
    this.data = data;
    this.#environment = environment;
    this.#healthServer = createHealthServer({
      listener: listeners.health,
      logger: options.logger,
      version: VERSION,
      services: [],
      metrics: [processMetrics()],
    });
    const controller = this.#part("controller", "controller", "controller-1", "a");
    const broker = this.#part("broker", "broker", "broker-1", "a");
    const coordinator = this.#part("coordinator", "coordinator", "coordinator-1", "a");
    const proxy = this.#part("proxy", "proxy", "proxy-1", "a");
    const stores = ["a", "b", "c"].slice(0, STORES).map((zone, i) => this.#part("segment-store", "store", `store-${i + 1}`, zone));
    const proxyService = createProxy({ ...proxy, grpcListener: listeners.grpc, kafkaListener: listeners.kafka });
    this.#proxy = proxyService;
    this.#services = [
      { health: controller.health, service: createController({ ...controller, rpcListener: inner("rpc"), shardCount: SHARDS }) },
      ...stores.map((store) => ({
        health: store.health,
        service: createSegmentStore({
          ...store,
          linkListener: inner("link"),
          rpcListener: inner("rpc"),
          folder: join(data, "stores", store.identity.id),
          capacityBytes: 0,
        }),
      })),
      {
        health: broker.health,
        service: createBroker({
          ...broker,
          linkListener: inner("link"),
          rpcListener: inner("rpc"),
          pendingBytesMax: limits.brokerPendingBytesMax,
        }),
      },
      { health: coordinator.health, service: createCoordinator({ ...coordinator, rpcListener: inner("rpc") }) },
      { health: proxy.health, service: proxyService },
    ];
  }
  get endpoints(): Standalone["endpoints"] {
    const { grpc = "", kafka = "" } = this.#proxy.endpoints();
    return { grpc, kafka, metrics: this.#healthServer.address };
  }

  /** Storage first: a broker that finds no storage node raises an alarm, and the first start would greet its user with one. */
  async start(signal: AbortSignal | undefined): Promise<void> {
    await this.#healthServer.start();
    for (const some of [this.#services.slice(0, 1 + STORES), this.#services.slice(1 + STORES)])
      await Promise.all(some.map(({ service }) => service.start()));
    await this.#awaitReady(signal);
    await writeFile(runFile(this.data), `${JSON.stringify({ pid: process.pid, ...this.endpoints })}\n`);
  }
  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop());
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
  /** The way out: the clients' side first. A service that fails to stop does not keep the others from it. */
  async #stop(): Promise<void> {
    const { logger, objectStore, store } = this.#environment;
    for (const { service } of this.#services.toReversed()) {
      try {
        await service.drain();
        await service.stop();
      } catch (err) {
        logger.error("service did not stop in order", { service: service.name, err });
      }
    }
    await this.#healthServer.stop();
    await objectStore?.close();
    await store.close();
    await rm(runFile(this.data), { force: true });
  }

  async #awaitReady(signal: AbortSignal | undefined): Promise<void> {
    const untilMs = systemClock.monotonicMs() + READY_TIMEOUT_MS;
    for (;;) {
      const reports = await Promise.all(this.#services.map(({ health }) => health.report("ready")));
      if (reports.every((report) => report.ok)) return;
      if (systemClock.monotonicMs() >= untilMs) {
        const failed = reports.flatMap((report) => Object.entries(report.checks).filter(([, text]) => text !== "ok"));
        throw new SluiceError(
          "NOT_READY",
          `not ready after ${READY_TIMEOUT_MS / 1_000} s: ${failed.map(([n, t]) => `${n}: ${t}`).join("; ")}`,
        );
      }
      await systemClock.sleep(READY_LOOK_MS, signal);
    }
  }
  /** What every service takes. `metricsName` is the middle part of its metrics' names. */
  #part(
    kind: ServiceKind,
    metricsName: string,
    id: string,
    zone: string,
  ): { environment: ServiceEnvironment; identity: ServiceIdentity; metrics: Metrics; health: Health; metricsAddress: () => string } {
    const environment = { ...this.#environment, logger: this.#environment.logger.child({ service: kind, id }) };
    const identity = { id: memberId(id), instance: instanceId(systemRandom.uuid()), zone };
    const metrics = createMetrics({ service: metricsName, instance: id });
    const health = createHealth(id, systemClock);
    this.#healthServer.add(health, metrics);
    return { environment, identity, metrics, health, metricsAddress: () => this.#healthServer.address };
  }
}
/** Between the services: a free port of loopback. */
const inner = (name: string): Listener => createListener(name, { bind: "127.0.0.1:0" });
