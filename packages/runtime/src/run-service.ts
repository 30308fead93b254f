import { codeOf, timers } from "@sluice/core/model";
import { type Clock, systemClock } from "./clock.ts";
import {
  type ConfigDef,
  type ConfigOf,
  type ConfigSources,
  type ConfigSpec,
  defineConfig,
  loadConfig,
  mergeConfig,
  printableConfig,
} from "./config/index.ts";
import { letHeapGrow } from "./heap-growth.ts";
import type { Service } from "./lifecycle.ts";
import { createLogger, type Logger } from "./logging.ts";
import { type Random, systemRandom } from "./random.ts";

/** Exit codes of every program of ours that serves. */
export const exitCodes = { ok: 0, failure: 1, badConfiguration: 2 } as const;

/** Keys that every service has. */
export const commonConfig = defineConfig({
  "log.level": {
    type: "enum",
    values: ["debug", "info", "warn", "error", "silent"],
    default: "info",
    doc: "Lowest level of the log lines that are written.",
  },
});

export interface ServiceContext<D extends ConfigSpec> {
  readonly config: ConfigOf<D & (typeof commonConfig)["spec"]>;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly random: Random;
}
/** What a running service tells: shown in the ready line. */
export interface BuiltService extends Service {
  /** Endpoint names to addresses, known after the start. */
  readonly endpoints?: () => Readonly<Record<string, string>>;
  /** How long its drain may take; default `timers.shutdownMs`. */
  readonly drainMs?: number;
}
export interface RunOptions extends ConfigSources {
  /** Replaces `process` in tests. */
  readonly host?: ProcessHost;
}
/** The part of `process` that is used here. */
export interface ProcessHost {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pid: number;
  on(event: string, listener: (...args: unknown[]) => void): unknown;
  off(event: string, listener: (...args: unknown[]) => void): unknown;
  exit(code: number): void;
}

/**
 * The body of a `main.ts`. Loads the configuration, builds, starts, logs "ready", serves until SIGTERM or SIGINT, then drains, stops and
 * exits 0. A second signal exits 1 at once, and so does a stop that takes 10 s more than its drain may. An error that nobody caught is logged and exits 1: a half-alive process is worse than a
 * dead one, which is replaced. Bad configuration exits 2 with the reason on one line.
 */
export async function runService<D extends ConfigSpec>(
  name: string,
  def: ConfigDef<D>,
  build: (context: ServiceContext<D>) => Promise<BuiltService> | BuiltService,
  options: RunOptions = {},
): Promise<void> {
  const host: ProcessHost = options.host ?? (process as unknown as ProcessHost);
  const full = mergeConfig(commonConfig, def) as unknown as ConfigDef<D & (typeof commonConfig)["spec"]>;
  let config: ConfigOf<D & (typeof commonConfig)["spec"]>;
  try {
    config = loadConfig(full, { argv: host.argv.slice(2), env: host.env, ...options });
  } catch (err) {
    createLogger({ level: "error", fields: { service: name } }).error("bad configuration", { reason: messageOf(err) });
    host.exit(exitCodes.badConfiguration);
    return;
  }
  const level = (config as { readonly "log.level": "debug" | "info" | "warn" | "error" | "silent" })["log.level"];
  const logger = createLogger({ level, fields: { service: name, pid: host.pid } });
  const fatal = installFatal(host, logger);
  letHeapGrow();
  try {
    logger.debug("configuration", printableConfig(full, config));
    const service = await build({ config, logger, clock: systemClock, random: systemRandom });
    const signal = waitForSignal(host, logger);
    await Promise.race([service.start(), signal.received]);
    if (!signal.arrived()) logger.info("ready", { endpoints: service.endpoints?.() ?? {} });
    const cause = await signal.received;
    logger.info("draining", { cause });
    const stopMaxMs = (service.drainMs ?? timers.shutdownMs) + timers.shutdownMs;
    const stuck = systemClock.setTimer(stopMaxMs, () => giveUp(host, logger, stopMaxMs), { unref: true });
    await service.drain();
    await service.stop();
    logger.info("stopped", {});
    stuck.cancel();
    signal.remove();
    fatal.remove();
    host.exit(exitCodes.ok);
  } catch (err) {
    logger.error("failed", { err, code: codeOf(err) });
    host.exit(codeOf(err) === "INVALID_CONFIG" ? exitCodes.badConfiguration : exitCodes.failure);
  }
}

/** A stop that takes longer than its drain may, and 10 s, is not going to end by itself. */
function giveUp(host: ProcessHost, logger: Logger, stopMaxMs: number): void {
  logger.error("stop timed out", { afterMs: stopMaxMs });
  host.exit(exitCodes.failure);
}

const messageOf = (err: unknown): string =>
  typeof err === "object" && err !== null && "message" in err ? String(err.message) : String(err);

function installFatal(host: ProcessHost, logger: Logger): { remove(): void } {
  const onRejection = (err: unknown): void => {
    logger.error("unhandled rejection", { err });
    host.exit(exitCodes.failure);
  };
  const onException = (err: unknown): void => {
    logger.error("uncaught exception", { err });
    host.exit(exitCodes.failure);
  };
  host.on("unhandledRejection", onRejection);
  host.on("uncaughtException", onException);
  return {
    remove() {
      host.off("unhandledRejection", onRejection);
      host.off("uncaughtException", onException);
    },
  };
}

function waitForSignal(host: ProcessHost, logger: Logger) {
  let count = 0;
  const { promise: received, resolve } = Promise.withResolvers<string>();
  const onSignal = (name: unknown): void => {
    if (++count === 1) {
      resolve(String(name));
      return;
    }
    logger.warn("second signal", { cause: String(name) });
    host.exit(exitCodes.failure);
  };
  for (const name of ["SIGTERM", "SIGINT"]) host.on(name, onSignal);
  return {
    received,
    arrived: () => count > 0,
    remove() {
      for (const name of ["SIGTERM", "SIGINT"]) host.off(name, onSignal);
    },
  };
}
