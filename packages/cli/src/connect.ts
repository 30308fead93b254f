import { connect, type ConnectOptions, type Sluice } from "@sluice/client";
import { DEFAULT_ENDPOINT } from "./defaults.ts";
import type { Terminal } from "./terminal.ts";
import { endpointList } from "./values.ts";

export interface ConnectionOptions {
  /** `--endpoint`; over SLUICE_ENDPOINT; over the standalone's. */
  readonly endpoint?: string | undefined;
}

/** For a command to be typed next. */
export const endpointFlag = ({ endpoint }: ConnectionOptions): readonly string[] =>
  endpoint === undefined ? [] : ["--endpoint", endpoint];

/** The addresses that the command talks to. */
export function endpointsOf(terminal: Pick<Terminal, "env">, options: ConnectionOptions): readonly string[] {
  const text = options.endpoint ?? terminal.env["SLUICE_ENDPOINT"] ?? "";
  return endpointList(text === "" ? DEFAULT_ENDPOINT : text);
}
/** Connects, runs the work, closes. What is pending ends at once with CANCELLED, or as unknown, when `signal` is given and aborts. */
export async function withConnection<T>(
  terminal: Terminal,
  options: ConnectionOptions,
  work: (sluice: Sluice) => Promise<T>,
  more: Pick<ConnectOptions, "signal" | "onEvent"> = {},
): Promise<T> {
  await using sluice = await connect({ endpoints: endpointsOf(terminal, options), clientId: "sluice-cli", ...more });
  return await work(sluice);
}
