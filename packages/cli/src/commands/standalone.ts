import { createLogger, type LogLevel } from "@sluice/runtime";
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

/** Serves until SIGINT or SIGTERM; a second one ends at once. */
export async function standalone(options: StandaloneCommandOptions, terminal: Terminal): Promise<number> {
  const signal = terminal.interrupts();
  const server = await startStandalone({
    data: options.data,
    ports: portsFrom(options.portBase),
    host: options.listen,
    allowUnauthenticated: options.allowUnauthenticated,
    logger: createLogger({ level: options.logLevel, fields: { pid: process.pid } }),
  }).catch((cause: unknown) => {
    // The commonest reason why a first start fails: something else has the default port.
    if (!messageOf(cause).includes("cannot listen on")) throw cause;
    throw new CommandFailure(`${messageOf(cause)}; choose other ports: --port-base N`, exitCodes.usage, { cause });
  });
  await terminal.out(banner(server));
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  terminal.note("Stopping ...");
  await server.stop();
  return exitCodes.ok;
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
