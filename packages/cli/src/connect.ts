import { connect, type Sluice } from "@sluice/client";
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

/** Connects, runs the work, closes. What is pending ends at once with CANCELLED, or as unknown, when `signal` is given and aborts. */
export async function withConnection<T>(
  terminal: Terminal,
  options: ConnectionOptions,
  work: (sluice: Sluice) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const text = options.endpoint ?? terminal.env["SLUICE_ENDPOINT"] ?? "";
  const endpoints = endpointList(text === "" ? DEFAULT_ENDPOINT : text);
  await using sluice = await connect({ endpoints, clientId: "sluice-cli", ...(signal && { signal }) });
  return await work(sluice);
}
