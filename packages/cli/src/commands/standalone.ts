import { createLogger, systemClock, type LogLevel } from "@sluice/runtime";
import { DEFAULT_ENDPOINT, portsFrom } from "../defaults.ts";
import { CommandFailure, exitCodes, messageOf } from "../exit.ts";
import { startStandalone, type Standalone } from "../standalone/standalone.ts";
import type { Terminal } from "../terminal.ts";

export interface StandaloneCommandOptions {
  readonly data: string;
  readonly portBase?: number;
  readonly listen: string;
  readonly allowUnauthenticated: boolean;
  readonly logLevel: LogLevel;
}

/** Serves until SIGINT or SIGTERM; a second one ends at once. A start that is interrupted ends too, whatever it waits for. */
export async function standalone(options: StandaloneCommandOptions, terminal: Terminal): Promise<number> {
  const signal = terminal.interrupts();
  const starting = start(options, signal);
  // Its failure is told below; once interrupted, by nobody.
  starting.catch(() => undefined);
  const server = await Promise.race([starting, aborted(signal)]);
  if (server === undefined || signal.aborted) {
    terminal.note("Interrupted while starting; stopping ...");
    const stopped = starting.then(
      (late) => late.stop(),
      () => undefined,
    );
    await Promise.race([stopped, systemClock.sleep(START_STOP_MS)]);
    return exitCodes.interrupted;
  }
  try {
    await terminal.out(banner(server));
    await aborted(signal);
    terminal.note("Stopping ...");
  } finally {
    await server.stop();
  }
  return exitCodes.ok;
}

/** After an interrupt, a start that is not complete gets this long to put its things away. */
const START_STOP_MS = 5_000;
const aborted = async (signal: AbortSignal): Promise<undefined> => {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  return undefined;
};

function start(options: StandaloneCommandOptions, signal: AbortSignal): Promise<Standalone> {
  return startStandalone({
    data: options.data,
    ports: portsFrom(options.portBase),
    host: options.listen,
    allowUnauthenticated: options.allowUnauthenticated,
    logger: createLogger({ level: options.logLevel, fields: { pid: process.pid } }),
    signal,
  }).catch((cause: unknown) => {
    // The commonest reason why a first start fails: something else has the default port.
    if (!messageOf(cause).includes("cannot listen on")) throw cause;
    throw new CommandFailure(`${messageOf(cause)}; choose other ports: --port-base N`, exitCodes.usage, { cause });
  });
}

function banner(server: Pick<Standalone, "data" | "endpoints">): string {
  const { grpc, kafka, metrics } = server.endpoints;
  const flag = grpc === DEFAULT_ENDPOINT ? "" : ` --endpoint ${grpc}`;
  return `Sluice serves.

  gRPC     ${grpc}
  Kafka    ${kafka}
  metrics  http://${metrics}/metrics  (also /livez and /readyz)
  data     ${server.data}

  All services run in this process. The three copies of a record lie in three folders of one disk: it
  survives a crash of the process and a power cut, not the loss of the disk. For that: sluice cluster up.

Try, in another shell:

  bin/sluice topic create hello --partitions 2${flag}
  echo "a first record" | bin/sluice produce hello${flag}
  bin/sluice consume hello --exit-on-end${flag}

Ctrl-C stops.
`;
}
