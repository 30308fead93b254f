import { createServer, type Server, type Socket } from "node:net";
import { setMaxListeners } from "node:events";
import { SluiceError } from "@sluice/core/model";
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

export interface KafkaListenerOptions {
  readonly listener: Listener;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly handlers: readonly AnyHandler[];
  readonly authorizer?: Authorizer | undefined;
  readonly gate: ConnectionOptions["gate"];
}
const LOOK_MS = 1_000;

/** The TCP listener for Kafka clients. Nothing is bound before `start`. */
export class KafkaListener {
  readonly #options: KafkaListenerOptions;
  readonly #server: Server;
  readonly #connections = new Set<KafkaConnection>();
  readonly #table: ApiTable;
  readonly #metrics: KafkaMetrics;
  readonly #draining = new AbortController();
  readonly #largeFrames = new ByteBudget({
    name: "large Kafka requests",
    limitBytes: kafkaLimits.largeFramesBytesMax,
    waitersMax: kafkaLimits.connectionsMax,
  });
  #timer: Timer | undefined;
  #onEmpty: (() => void) | undefined;
  #port = 0;
  #stopped = false;

  constructor(options: KafkaListenerOptions) {
    this.#options = options;
    this.#table = new ApiTable(options.handlers);
    this.#metrics = createKafkaMetrics(options.metrics, {
      connections: () => this.#connections.size,
      largeFrameBytes: () => this.#largeFrames.usedBytes,
      heldBytes: () => this.#connections.values().reduce((sum, { heldBytes }) => sum + heldBytes, 0),
    });
    // Every long poll may listen to it.
    setMaxListeners(0, this.#draining.signal);
    this.#server = createServer({ noDelay: true }, (socket) => this.#accept(socket));
  }
  /** host:port that clients are told, known after the start. */
  get advertised(): string {
    return advertisedAddress(this.#options.listener, this.#port);
  }

  /** Throws INVALID_CONFIG when the address cannot be bound. */
  async start(): Promise<void> {
    const { listener, logger } = this.#options;
    const at = formatHostPort(listener.host, listener.port);
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", (cause: NodeJS.ErrnoException) =>
        reject(
          new SluiceError("INVALID_CONFIG", `listener.${listener.name}: cannot listen on ${at}: ${cause.code ?? cause.message}`, { cause }),
        ),
      );
      this.#server.listen({ host: listener.host, port: listener.port }, resolve);
    });
    this.#server.on("error", (err) => logger.error("kafka listener failed", { address: at, err }));
    const bound = this.#server.address();
    if (bound !== null && typeof bound === "object") this.#port = bound.port;
    this.#look();
    logger.info("kafka listener open", {
      listener: listener.name,
      address: formatHostPort(listener.host, this.#port),
      advertised: this.advertised,
    });
  }
  /** No new connection, long polls end, what is under way is answered; returns when all connections are gone, or at the deadline. */
  async drain(deadline: DrainDeadline): Promise<void> {
    this.#server.close();
    this.#draining.abort(new SluiceError("SHUTTING_DOWN", "the proxy is going away"));
    for (const connection of this.#connections) connection.finish();
    if (this.#connections.size === 0 || deadline.signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#onEmpty = resolve;
      deadline.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#timer?.cancel();
    this.#draining.abort(new SluiceError("SHUTTING_DOWN", "the proxy is going away"));
    for (const connection of this.#connections) connection.close("shutdown");
    this.#server.close();
  }

  #accept(socket: Socket): void {
    if (this.#stopped || this.#draining.signal.aborted || this.#connections.size >= kafkaLimits.connectionsMax) {
      this.#metrics.closed.labels("too many").inc();
      socket.destroy();
      return;
    }
    const { clock, logger, authorizer, gate } = this.#options;
    this.#connections.add(
      new KafkaConnection(socket, {
        clock,
        logger,
        table: this.#table,
        metrics: this.#metrics,
        authorizer,
        draining: this.#draining.signal,
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
