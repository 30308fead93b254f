import { setMaxListeners } from "node:events";
import type { Socket } from "node:net";
import { Server, ServerCredentials, type ServerInterceptor } from "@grpc/grpc-js";
import { limits, SluiceError, timers, type Timers } from "@sluice/core/model";
import type { Clock, Component, DrainDeadline, Listener, Logger, Metrics } from "@sluice/runtime";
// Not from the index: clients load this package too, and must not load a web server and a metrics library for it.
import { advertisedAddress, formatHostPort } from "@sluice/runtime/config";
import { type Authorizer, allowAll, anonymous, type Principal } from "./access.ts";
import { type AnyCodec, methodDefinition } from "./adapter.ts";
import { ServerCallContext, type SurfaceCall } from "./context.ts";
import { type Dispatch, grpcHandler } from "./dispatch.ts";
import { createHealthService, type HealthService } from "./health.ts";
import type { MethodRegistration, ServiceRegistration } from "./implement.ts";
import { reflectionServices } from "./reflection.ts";
import { type RefusedFor, UnfinishedMessages } from "./unfinished.ts";
import { applyTransportSettings, type AppliedSettings } from "./windows.ts";

/** Defaults of every server; each may be changed by the composition root. */
export const rpcServerLimits = {
  receiveBytesMax: limits.linkFrameBytesMax,
  /** A reply may be one message of the largest size that is allowed, alone. */
  sendBytesMax: limits.grpcReceiveBytesMax,
  windowBytes: 8 * 1024 * 1024,
  headerListBytesMax: 16 * 1024,
  concurrentStreamsMax: 256,
  connectionsMax: 2_048,
  /** Memory for messages of which only a part has arrived: of all connections, and of one. */
  unfinishedBytesMax: 64 * 1024 * 1024,
  unfinishedConnectionBytesMax: 32 * 1024 * 1024,
  /** Bytes that have arrived and that no handler has read, of all connections. */
  unreadBytesMax: 128 * 1024 * 1024,
  /** A unary call may take this long even when its client would wait longer: a fetch's wait and some. */
  unaryTimeoutMaxMs: timers.fetchWaitMsMax + 30_000,
  keepaliveMs: 30_000,
  keepaliveTimeoutMs: 10_000,
} as const;
/** Time for peers to close their ends after the server has closed its own. */
const CLOSE_MS = 250;
export type RpcServerLimits = { readonly [K in keyof typeof rpcServerLimits]: number };

export interface RpcServerOptions {
  readonly listener: Listener;
  readonly services: readonly ServiceRegistration[];
  readonly logger: Logger;
  readonly clock: Clock;
  readonly authorizer?: Authorizer;
  /** Who calls; default anonymous. Throw UNAUTHENTICATED to refuse. */
  readonly authenticate?: (call: SurfaceCall) => Principal;
  readonly interceptors?: readonly ServerInterceptor[];
  /** Counts calls by method and code and their time. */
  readonly metrics?: Metrics;
  readonly limits?: Partial<RpcServerLimits>;
  /** Default: the unscaled ones. */
  readonly timers?: Pick<Timers, "unfinishedMessageMs">;
  readonly credentials?: ServerCredentials;
}
export interface RpcServer extends Component {
  start(): Promise<void>;
  drain(deadline?: DrainDeadline): Promise<void>;
  stop(): Promise<void>;
  /** Known after the start. */
  readonly port: number;
  /** host:port of the bound socket, and what others are told. */
  readonly address: string;
  readonly advertised: string;
  /** gRPC health of the whole server ("") and of each service. SERVING from the start to the drain. */
  readonly health: HealthService;
  /** Which transport settings took effect with this version of grpc-js. */
  readonly transport: AppliedSettings;
  readonly openCalls: number;
}

/** A gRPC server with health and reflection (v1 and v1alpha) on board. Nothing is bound before `start`. */
export function createRpcServer(options: RpcServerOptions): RpcServer {
  return new GrpcServer(options);
}

class GrpcServer implements RpcServer {
  readonly name: string;
  readonly health: HealthService;
  readonly transport: AppliedSettings;
  readonly #options: RpcServerOptions;
  readonly #limits: RpcServerLimits;
  readonly #server: Server;
  readonly #draining = new AbortController();
  readonly #calls = new Set<ServerCallContext>();
  readonly #sockets = new Set<Socket>();
  readonly #unfinished: UnfinishedMessages;
  #shutdown: Promise<void> | undefined;
  #port = 0;

  constructor(options: RpcServerOptions) {
    this.#options = options;
    // Every open stream may listen to it.
    setMaxListeners(0, this.#draining.signal);
    this.#limits = { ...rpcServerLimits, ...options.limits };
    this.name = `rpc ${options.listener.name}`;
    const l = this.#limits;
    const { unfinishedMessageMs } = options.timers ?? timers;
    const refused = options.metrics === undefined ? undefined : refusals(options.metrics, () => this.#unfinished);
    this.#unfinished = new UnfinishedMessages(options.clock, { ...l, unfinishedMessageMs }, (reason) => {
      refused?.(reason);
      options.logger.warn("stream ended for its memory or its time", { listener: options.listener.name, reason });
    });
    this.#server = new Server({
      "grpc.max_receive_message_length": l.receiveBytesMax,
      "grpc.max_send_message_length": l.sendBytesMax,
      "grpc.max_concurrent_streams": l.concurrentStreamsMax,
      "grpc.keepalive_time_ms": l.keepaliveMs,
      "grpc.keepalive_timeout_ms": l.keepaliveTimeoutMs,
      "grpc.enable_channelz": 0,
      interceptors: [this.#unfinished.interceptor, ...(options.interceptors ?? [])],
    });
    this.transport = applyTransportSettings(this.#server, l, {
      onConnection: (socket) => void this.#sockets.add(socket.once("close", () => this.#sockets.delete(socket))),
      onStream: (stream) => this.#unfinished.watch(stream),
    });
    if (!this.transport.streamWindow || !this.transport.connectionHook) {
      options.logger.warn("rpc transport settings not applied", { ...this.transport, effect: "slow uploads, no connection limit" });
    }
    const names = options.services.map((registration) => registration.service.typeName);
    this.health = createHealthService(["", ...names]);
    const health = this.health.registration;
    const described = [...options.services, health].map((registration) => registration.service);
    const dispatch = this.#dispatch();
    for (const registration of [...options.services, health, ...reflectionServices(described)]) this.#register(registration, dispatch);
  }
  get port(): number {
    return this.#port;
  }
  get address(): string {
    return formatHostPort(this.#options.listener.host, this.#port);
  }
  get advertised(): string {
    return advertisedAddress(this.#options.listener, this.#port);
  }
  get openCalls(): number {
    return this.#calls.size;
  }

  async start(): Promise<void> {
    const { listener, logger, credentials } = this.#options;
    const at = formatHostPort(listener.host, listener.port);
    this.#port = await new Promise<number>((resolve, reject) => {
      this.#server.bindAsync(at, credentials ?? ServerCredentials.createInsecure(), (cause, port) => {
        if (cause === null) resolve(port);
        else reject(new SluiceError("INVALID_CONFIG", `listener.${listener.name}: cannot listen on ${at}`, { cause }));
      });
    });
    this.health.setAll("SERVING");
    logger.info("rpc listener open", { listener: listener.name, address: this.address, advertised: this.advertised });
  }
  /** NOT_SERVING, no new connection, GOAWAY; returns when all calls have ended, or at the deadline. Streams end by `context.draining`. */
  async drain(deadline?: DrainDeadline): Promise<void> {
    this.health.setAll("NOT_SERVING");
    this.#draining.abort(new SluiceError("SHUTTING_DOWN", `${this.name}: draining`));
    const closed = this.#close();
    if (deadline === undefined) return closed;
    const over = Promise.withResolvers<void>();
    const onAbort = (): void => over.resolve();
    deadline.signal.addEventListener("abort", onAbort, { once: true });
    if (deadline.signal.aborted) onAbort();
    await Promise.race([closed, over.promise]);
    deadline.signal.removeEventListener("abort", onAbort);
  }
  /** Ends what is open with SHUTTING_DOWN and closes every connection. */
  async stop(): Promise<void> {
    this.health.setAll("NOT_SERVING");
    this.health.close();
    const reason = new SluiceError("SHUTTING_DOWN", `${this.name}: the server is going away`);
    this.#draining.abort(reason);
    for (const call of this.#calls) call.abort(reason);
    const closed = this.#close();
    // One turn for the statuses of the aborted calls to be written, then the sockets go.
    await new Promise<void>((resolve) => this.#options.clock.afterTurn(resolve));
    await new Promise<void>((resolve) => this.#options.clock.afterTurn(resolve));
    this.#server.forceShutdown();
    // Node waits for the other end to close as well; one that does not must not hold up the stop.
    const force = this.#options.clock.setTimer(CLOSE_MS, () => this.#sockets.forEach((socket) => socket.destroy()));
    await closed;
    force.cancel();
    this.#unfinished.close();
  }
  #close(): Promise<void> {
    return (this.#shutdown ??= new Promise((resolve) => this.#server.tryShutdown(() => resolve())));
  }

  #register(registration: ServiceRegistration, dispatch: Dispatch): void {
    for (const reg of registration.methods) {
      const definition = methodDefinition(reg.method, reg.codecs as { request?: AnyCodec; response?: AnyCodec });
      const type = { unary: "unary", server_streaming: "serverStream", client_streaming: "clientStream", bidi_streaming: "bidi" }[
        reg.method.methodKind
      ];
      const handler = grpcHandler(dispatch, reg) as Parameters<Server["register"]>[1];
      const fresh = this.#server.register(definition.path, handler, definition.responseSerialize, definition.requestDeserialize, type);
      if (!fresh) throw new Error(`${definition.path} is registered twice`);
    }
  }
  #dispatch(): Dispatch {
    const { clock, logger, authorizer, authenticate, metrics } = this.#options;
    const observe = metrics === undefined ? undefined : observer(metrics, () => this.#calls.size);
    return {
      clock,
      logger,
      open: (call: SurfaceCall, reg: MethodRegistration) => {
        let principal = anonymous;
        let refused: unknown;
        try {
          principal = authenticate?.(call) ?? anonymous;
        } catch (error) {
          refused = error;
        }
        const timeoutMaxMs = reg.method.methodKind === "unary" ? this.#limits.unaryTimeoutMaxMs : Number.POSITIVE_INFINITY;
        const draining = this.#draining.signal;
        const context = new ServerCallContext({
          call,
          rule: reg.rule,
          principal,
          authorizer: authorizer ?? allowAll,
          clock,
          draining,
          timeoutMaxMs,
        });
        if (refused !== undefined) context.refuse(refused);
        this.#calls.add(context);
        return context;
      },
      closed: (method, context, code, tookMs) => {
        this.#calls.delete(context);
        observe?.(`${method.parent.name}/${method.name}`, code, tookMs);
      },
    };
  }
}

function observer(metrics: Metrics, openCalls: () => number): (method: string, code: string, tookMs: number) => void {
  const prefix = `sluice_${metrics.service}_rpc`;
  const calls = metrics.counter(`${prefix}_calls_total`, "Calls that ended, by method and code.", { labels: ["method", "code"] });
  const seconds = metrics.histogram(`${prefix}_duration_seconds`, "Time from the header to the status.", { labels: ["method"] });
  metrics.gauge(`${prefix}_open_calls_count`, "Calls that are open.", { collect: openCalls });
  return (method, code, tookMs) => {
    calls.labels(method, code).inc();
    seconds.labels(method).observe(tookMs / 1_000);
  };
}

function refusals(metrics: Metrics, held: () => UnfinishedMessages): (reason: RefusedFor) => void {
  const prefix = `sluice_${metrics.service}_rpc`;
  metrics.gauge(`${prefix}_unfinished_bytes`, "Memory of messages of which only a part has arrived.", { collect: () => held().bytes });
  metrics.gauge(`${prefix}_unread_bytes`, "Bytes that have arrived and that no handler has read.", { collect: () => held().unreadBytes });
  const refused = metrics.counter(
    `${prefix}_unfinished_refused_total`,
    "Streams ended because a message did not, by the limit that ended them.",
    {
      labels: ["reason"],
    },
  );
  return (reason) => refused.labels(reason).inc();
}
