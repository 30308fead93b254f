import { connect, type ConnectOptions, type Sluice } from "@sluice/client";
import { isSluiceError, SluiceError } from "@sluice/core/model";
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
const NAMES_TIMEOUT_MS = 1_000;
/** Connects, runs the work, closes. What is pending ends at once with CANCELLED, or as unknown, when `signal` is given and aborts. */
export async function withConnection<T>(
  terminal: Terminal,
  options: ConnectionOptions,
  work: (sluice: Sluice) => Promise<T>,
  more: Pick<ConnectOptions, "signal" | "onEvent"> = {},
): Promise<T> {
  await using sluice = await connect({ endpoints: endpointsOf(terminal, options), clientId: "sluice-cli", ...more });
  try {
    return await work(sluice);
  } catch (error) {
    if (!isSluiceError(error) || error.code !== "UNKNOWN_TOPIC") throw error;
    // For the hint: the name may be nearly right.
    const topics = await sluice.admin.listTopics({ timeoutMs: NAMES_TIMEOUT_MS }).catch(() => []);
    const names = topics.map(({ name }) => name).join(",");
    throw new SluiceError(error.code, error.message, { cause: error, details: { ...error.details, topics: names } });
  }
}
