import type { Server, Socket } from "node:net";
import { setMaxListeners } from "node:events";
import { SluiceError } from "@sluice/core/model";
import { acceptingServer, resolveReadPath, type ReadPath } from "@sluice/link";
import type { Authorizer } from "@sluice/rpc";
import {
  advertisedAddress,
  ByteBudget,
  formatHostPort,
  type Clock,
  type DrainDeadline,
  type Listener,
  type Logger,
  type Metrics,
  type Timer,
} from "@sluice/runtime";
import type { AnyHandler } from "./api.ts";
import { KafkaConnection, type ConnectionOptions } from "./connection.ts";
import { ApiTable } from "./dispatch.ts";
import { kafkaLimits } from "./limits.ts";
import { createKafkaMetrics, type KafkaMetrics } from "./metrics.ts";

/** The name of a listener's address in the member record. */
export type KafkaEndpoint = "kafka" | "kafkaOutside";

/** One address that is listened on. What its clients are told of the cluster is up to its handlers. */
export interface KafkaDoor {
  readonly endpoint: KafkaEndpoint;
  readonly listener: Listener;
  readonly handlers: readonly AnyHandler[];
}
export interface KafkaListenerOptions {
  readonly doors: readonly KafkaDoor[];
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly authorizer?: Authorizer | undefined;
  readonly gate: ConnectionOptions["gate"];
  /** Whether there are proxies that stay, to which clients can be sent. */
  readonly hasOthers: () => boolean;
  /** As for links: default auto. */
  readonly readPath?: ReadPath | undefined;
}
const LOOK_MS = 1_000;
const HAND_OVER_LOOK_MS = 50;

interface OpenDoor {
  readonly door: KafkaDoor;
  readonly server: Server;
  /** 0 before it is bound. */
  port: number;
}

/** The TCP listeners for Kafka clients, with limits that they share. Nothing is bound before `start`. */
export class KafkaListener {
  readonly #options: KafkaListenerOptions;
  readonly #doors: readonly OpenDoor[];
  readonly #connections = new Set<KafkaConnection>();
  readonly #metrics: KafkaMetrics;
  /** Clients are sent elsewhere. */
  readonly #draining = new AbortController();
  readonly #largeFrames = new ByteBudget({
    name: "large Kafka requests",
    limitBytes: kafkaLimits.largeFramesBytesMax,
    waitersMax: kafkaLimits.connectionsMax,
  });
  #readPath: "slab" | "data" = "data";
  #timer: Timer | undefined;
  #onEmpty: (() => void) | undefined;
  #closing = false;
  #stopped = false;

  constructor(options: KafkaListenerOptions) {
    this.#options = options;
    this.#metrics = createKafkaMetrics(options.metrics, {
      connections: () => this.#connections.size,
      largeFrameBytes: () => this.#largeFrames.usedBytes,
      heldBytes: () => this.#connections.values().reduce((sum, { heldBytes }) => sum + heldBytes, 0),
    });
    // Every long poll may listen to it.
    setMaxListeners(0, this.#draining.signal);
    this.#doors = options.doors.map((door) => {
      const table = new ApiTable(door.handlers);
      return { door, server: acceptingServer((socket) => this.#accept(socket, table)), port: 0 };
    });
  }
  /** host:port that clients of each are told, known after the start. */
  get advertised(): Readonly<Partial<Record<KafkaEndpoint, string>>> {
    return Object.fromEntries(this.#doors.map(({ door, port }) => [door.endpoint, advertisedAddress(door.listener, port)]));
  }

  /** Throws INVALID_CONFIG when an address cannot be bound. */
  async start(): Promise<void> {
    this.#readPath = await resolveReadPath(this.#options.clock, this.#options.readPath, this.#options.logger);
    for (const open of this.#doors) await this.#bind(open);
    this.#look();
  }
  async #bind(open: OpenDoor): Promise<void> {
    const { listener } = open.door;
    const { server } = open;
    const { logger } = this.#options;
    const at = formatHostPort(listener.host, listener.port);
    await new Promise<void>((resolve, reject) => {
      server.once("error", (cause: NodeJS.ErrnoException) =>
        reject(
          new SluiceError("INVALID_CONFIG", `listener.${listener.name}: cannot listen on ${at}: ${cause.code ?? cause.message}`, { cause }),
        ),
      );
      server.listen({ host: listener.host, port: listener.port }, resolve);
    });
    server.on("error", (err) => logger.error("kafka listener failed", { address: at, err }));
    const bound = server.address();
    if (bound !== null && typeof bound === "object") open.port = bound.port;
    logger.info("kafka listener open", {
      listener: listener.name,
      address: formatHostPort(listener.host, open.port),
      advertised: advertisedAddress(listener, open.port),
    });
  }
  /**
   * Sends clients elsewhere, while there are others. Then: no new connection, long polls end, what is under way is answered; returns when all connections
   * are gone, or at the deadline.
   */
  async drain(deadline: DrainDeadline): Promise<void> {
    // Ended early by the deadline alone.
    if (this.#canHandOver()) await this.#handOver(deadline.signal).catch(() => undefined);
    this.#closing = true;
    for (const { server } of this.#doors) server.close();
    this.#draining.abort(new SluiceError("SHUTTING_DOWN", "the proxy is going away"));
    for (const connection of this.#connections) connection.finish();
    if (this.#connections.size === 0 || deadline.signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#onEmpty = resolve;
      deadline.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
  /** Everything is served on; connections stay open, and new ones are taken, so that clients can ask where to go. */
  async #handOver(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    await clock.sleep(kafkaLimits.announceMs, signal);
    this.#draining.abort(new SluiceError("SHUTTING_DOWN", "the proxy is going away"));
    const startMs = clock.monotonicMs();
    for (;;) {
      await clock.sleep(HAND_OVER_LOOK_MS, signal);
      const nowMs = clock.monotonicMs();
      const quietMs = nowMs - kafkaLimits.redirectQuietMs;
      const isQuiet = quietMs >= startMs && this.#connections.values().every((connection) => connection.isQuietSince(quietMs));
      if (isQuiet || !this.#canHandOver() || nowMs - startMs >= kafkaLimits.redirectMs) return;
    }
  }
  #canHandOver(): boolean {
    return this.#connections.size > 0 && this.#options.hasOthers();
  }
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#timer?.cancel();
    this.#draining.abort(new SluiceError("SHUTTING_DOWN", "the proxy is going away"));
    for (const connection of this.#connections) connection.close("shutdown");
    for (const { server } of this.#doors) server.close();
  }

  #accept(socket: Socket, table: ApiTable): void {
    if (this.#stopped || this.#closing || this.#connections.size >= kafkaLimits.connectionsMax) {
      this.#metrics.closed.labels("too many").inc();
      socket.destroy();
      return;
    }
    const { clock, logger, authorizer, gate } = this.#options;
    this.#connections.add(
      new KafkaConnection(socket, {
        clock,
        logger,
        table,
        metrics: this.#metrics,
        authorizer,
        draining: this.#draining.signal,
        readPath: this.#readPath,
        largeFrames: this.#largeFrames,
        gate,
        onClosed: (connection) => {
          this.#connections.delete(connection);
          if (this.#connections.size === 0) this.#onEmpty?.();
        },
      }),
    );
  }
  #look(): void {
    const { clock } = this.#options;
    this.#timer = clock.setTimer(
      LOOK_MS,
      () => {
        const nowMs = clock.monotonicMs();
        for (const connection of this.#connections) connection.checkTime(nowMs);
        this.#look();
      },
      { unref: true },
    );
  }
}
