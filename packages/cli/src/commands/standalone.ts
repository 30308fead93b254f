import { createLogger, formatHostPort, isLoopback, letHeapGrow, parseHostPort, systemClock, type LogLevel } from "@sluice/runtime";
import { typed } from "../command-line.ts";
import { DEFAULT_ENDPOINT, portsFrom } from "../defaults.ts";
import { CommandFailure, exitCodes, messageOf, UsageError } from "../exit.ts";
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
  checkListen(options);
  letHeapGrow();
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

/** Before anything is done, and in the words of the command: the services' own messages name their keys. */
function checkListen({ listen, allowUnauthenticated }: StandaloneCommandOptions): void {
  try {
    // No host at all would be every address.
    parseHostPort(listen === "" ? "" : formatHostPort(listen, 0));
  } catch (cause) {
    throw new UsageError(`--listen is ${JSON.stringify(listen.slice(0, 80))}; it takes a host name or an address, such as 127.0.0.1`, {
      cause,
    });
  }
  if (!allowUnauthenticated && !isLoopback(listen))
    throw new UsageError(
      `--listen ${listen} is open to others without authentication: who reaches it reads and writes all\n` +
        "  If that is meant, add --allow-unauthenticated; else leave --listen out, and it is 127.0.0.1",
    );
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
    const message = messageOf(cause).replace(/^listener\.\w+: /, "");
    if (!message.includes("cannot listen on")) throw cause;
    // The commonest reason why a first start fails: something else has the default port.
    const way = /EADDRNOTAVAIL|ENOTFOUND|EAI_/.test(message)
      ? "--listen takes an address of this machine"
      : "choose other ports: --port-base N";
    throw new CommandFailure(`${message}; ${way}`, exitCodes.usage, { cause });
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
  survives a crash of the process and a power cut, not the loss of the disk. For that: ${typed("cluster", "up")}.

Try, in another shell:

  ${typed("topic", "create", "hello", "--partitions", 2)}${flag}
  echo "a first record" | ${typed("produce", "hello")}${flag}
  ${typed("consume", "hello", "--exit-on-end")}${flag}

Ctrl-C stops.
`;
}
