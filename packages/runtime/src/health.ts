import fastify, { type FastifyInstance } from "fastify";
import { SluiceError } from "@sluice/core/model";
import type { Clock } from "./clock.ts";
import { advertisedAddress, formatHostPort, type Listener } from "./config/index.ts";
import type { Component } from "./lifecycle.ts";
import type { Logger } from "./logging.ts";
import { metricsContentType, renderMetrics } from "./metrics.ts";
import type * as prom from "prom-client";

/** true, or the reason why not. */
export type CheckResult = true | string;
export type Check = () => CheckResult | Promise<CheckResult>;

/**
 * What one service says about itself; an orchestrator asks the three for different ends.
 *   ready    started, not draining, every check true: it can serve. Else it gets no new clients.
 *   live     no live check fails: keep those for states that only a restart mends, never for something that another system is to blame for.
 *   started  has done its own part of the start. Waiting for another system counts as done: no restart would bring that one sooner.
 */
export interface Health {
  readonly service: string;
  ready(name: string, check: Check): void;
  live(name: string, check: Check): void;
  /** Told with the readiness, and never a reason against it: it serves, but not all that it should, and a person must know. */
  warn(name: string, check: Check): void;
  markStarted(): void;
  /** The start waits for `what` of another system; undefined: it works again, and may be restarted when that takes too long. */
  markWaiting(what: string | undefined): void;
  markDraining(): void;
  report(kind: ProbeKind): Promise<HealthReport>;
}
export type ProbeKind = "live" | "ready" | "started";
export interface HealthReport {
  readonly ok: boolean;
  /** `<service>/<check>` to "ok" or the reason. */
  readonly checks: Readonly<Record<string, string>>;
  /** Those that hold now. */
  readonly warnings: Readonly<Record<string, string>>;
}

const CHECK_TIMEOUT_MS = 1_000;

export function createHealth(service: string, clock: Clock): Health {
  const ready = new Map<string, Check>();
  const live = new Map<string, Check>();
  const warnings = new Map<string, Check>();
  let started = false;
  let waiting: string | undefined;
  let draining = false;
  ready.set("started", () => started || (waiting === undefined ? "not started" : `waiting for ${waiting}`));
  const begun: Check = () => started || waiting !== undefined || "not started";
  ready.set("draining", () => (draining ? "draining" : true));
  return {
    service,
    ready: (name, check) => void ready.set(name, check),
    live: (name, check) => void live.set(name, check),
    warn: (name, check) => void warnings.set(name, check),
    markStarted: () => void (started = true),
    markWaiting: (what) => void (waiting = what),
    markDraining: () => void (draining = true),
    async report(kind) {
      const all = kind === "live" ? live : kind === "ready" ? ready : new Map([["started", begun]]);
      const checks = await results(all);
      const warned = kind === "ready" ? await results(warnings) : {};
      return {
        ok: Object.values(checks).every((text) => text === "ok"),
        checks,
        warnings: Object.fromEntries(Object.entries(warned).filter(([, text]) => text !== "ok")),
      };
    },
  };
  async function results(of: ReadonlyMap<string, Check>): Promise<Record<string, string>> {
    const texts = await Promise.all([...of].map(async ([name, check]) => [`${service}/${name}`, await run(check, clock)] as const));
    return Object.fromEntries(texts);
  }
}
async function run(check: Check, clock: Clock): Promise<string> {
  const timeout = Promise.withResolvers<CheckResult>();
  const timer = clock.setTimer(CHECK_TIMEOUT_MS, () => timeout.resolve("no answer from the check"), { unref: true });
  try {
    const result = await Promise.race([check(), timeout.promise]);
    return result === true ? "ok" : result;
  } catch (err) {
    // A check that throws is a check that fails, with its message as the reason.
    return typeof err === "object" && err !== null && "message" in err ? String(err.message) : String(err);
  } finally {
    timer.cancel();
  }
}

export interface HealthServerOptions {
  readonly listener: Listener;
  readonly logger: Logger;
  readonly version: string;
  readonly services: readonly Health[];
  readonly metrics: readonly { readonly registry: prom.Registry }[];
}
/** GET /livez /readyz /startupz /metrics /version. One server may speak for all services of a process. */
export interface HealthServer extends Component {
  start(): Promise<void>;
  stop(): Promise<void>;
  add(health: Health, metrics?: { readonly registry: prom.Registry }): void;
  /** host:port once started. */
  readonly address: string;
  /** What others are told. */
  readonly advertised: string;
  readonly port: number;
}

export function createHealthServer(options: HealthServerOptions): HealthServer {
  const services = [...options.services];
  const metrics = [...options.metrics];
  const app: FastifyInstance = fastify({
    logger: false,
    bodyLimit: 1_024,
    requestTimeout: 5_000,
    keepAliveTimeout: 30_000,
    maxRequestsPerSocket: 10_000,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 100 },
    http: { maxHeaderSize: 8_192, headersTimeout: 5_000 },
  });
  app.server.maxConnections = 64;
  for (const [path, kind] of [
    ["/livez", "live"],
    ["/readyz", "ready"],
    ["/startupz", "started"],
  ] as const) {
    app.get(path, async (_request, reply) => {
      const reports = await Promise.all(services.map((service) => service.report(kind)));
      const ok = reports.every((report) => report.ok);
      const checks = Object.assign({}, ...reports.map((report) => report.checks)) as unknown;
      const warnings = Object.assign({}, ...reports.map((report) => report.warnings)) as object;
      return reply.code(ok ? 200 : 503).send({ ok, checks, ...(Object.keys(warnings).length > 0 && { warnings }) });
    });
  }
  app.get("/metrics", async (_request, reply) => reply.type(metricsContentType).send(await renderMetrics(metrics)));
  app.get("/version", async () => ({ version: options.version, services: services.map((service) => service.service) }));
  let port = 0;
  return {
    name: "health",
    get port() {
      return port;
    },
    get address() {
      return formatHostPort(options.listener.host, port);
    },
    get advertised() {
      return advertisedAddress(options.listener, port);
    },
    add(health, registry) {
      services.push(health);
      if (registry !== undefined) metrics.push(registry);
    },
    async start() {
      try {
        await app.listen({ host: options.listener.host, port: options.listener.port });
      } catch (cause) {
        const at = formatHostPort(options.listener.host, options.listener.port);
        throw new SluiceError("INVALID_CONFIG", `listener.${options.listener.name}: cannot listen on ${at}`, { cause });
      }
      const address = app.server.address();
      port = typeof address === "object" && address !== null ? address.port : options.listener.port;
      options.logger.info("health endpoint open", { address: formatHostPort(options.listener.host, port) });
    },
    async stop() {
      await app.close();
    },
  };
}
