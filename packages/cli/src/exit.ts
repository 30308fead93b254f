import { errorCatalogue, isSluiceError, type ErrorCode } from "@sluice/core/model";

/** What the shell sees. docs/cli.md holds the same table. */
export const exitCodes = {
  ok: 0,
  /** The command could not do its work; the reason is on standard error. */
  failure: 1,
  /** Unknown command or flag, or a value that does not fit: nothing was tried. */
  usage: 2,
  /** `produce`: the input was read, but not every record was acknowledged. */
  unacknowledged: 3,
  /** `consume`: the log does not have, or no longer has, the position. */
  outOfRange: 4,
  /** `standalone`, `cluster up`: another process uses the data folder, or it holds something else. */
  folderInUse: 5,
  /** Interrupted (Ctrl-C, SIGTERM) before the work that was asked for was complete. */
  interrupted: 130,
} as const;

/** A mistake of the caller that is found before anything is done. */
export class UsageError extends Error {
  readonly exitCode = exitCodes.usage;
}
/** Ends the command with a code of its own; the text goes to standard error. */
export class CommandFailure extends Error {
  readonly exitCode: number;
  constructor(message: string, exitCode: number = exitCodes.failure, options?: { cause?: unknown }) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

const EXIT_CODES: Partial<Record<ErrorCode, number>> = {
  INVALID_ARGUMENT: exitCodes.usage,
  INVALID_NAME: exitCodes.usage,
  INVALID_CONFIG: exitCodes.usage,
  INVALID_GROUP: exitCodes.usage,
  OFFSET_OUT_OF_RANGE: exitCodes.outOfRange,
  FOLDER_IN_USE: exitCodes.folderInUse,
};

/** Where the command line knows the next thing to type, that is the hint. */
const NEXT_COMMANDS: Partial<Record<ErrorCode, string>> = {
  UNKNOWN_TOPIC: "List them: sluice topic list; or create it: sluice topic create NAME --partitions N",
  FOLDER_IN_USE: "Use the one that runs; or stop it; or choose another folder: --data DIR (and other ports: --port-base N)",
  OFFSET_OUT_OF_RANGE: "See what there is: sluice topic describe NAME; or start at one of the ends: --from earliest, --from latest",
  NOT_LEADER: "No controller answers, and nothing was changed. See which run: sluice status; start one, and try again",
  COORDINATOR_NOT_AVAILABLE: "No coordinator serves the group now. See which run: sluice status; start one, or wait, and try again",
  NOT_ENOUGH_REPLICAS: "At least two storage nodes must run. See which do: sluice status; start them, and try again",
  UNREACHABLE: "Start a server: sluice standalone; or name another: --endpoint HOST:PORT, or SLUICE_ENDPOINT",
};

/** One line (two with a hint) for a person, and the exit code, of anything thrown. */
export function explain(error: unknown): { readonly text: string; readonly exitCode: number } {
  const message = messageOf(error);
  if (isSluiceError(error)) {
    const exitCode = EXIT_CODES[error.code] ?? exitCodes.failure;
    return { text: `sluice: ${error.code}: ${message}\n  ${NEXT_COMMANDS[error.code] ?? errorCatalogue[error.code].hint}`, exitCode };
  }
  const exitCode = (error as { exitCode?: unknown } | undefined)?.exitCode;
  return { text: `sluice: ${message}`, exitCode: typeof exitCode === "number" ? exitCode : exitCodes.failure };
}
export const messageOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "message" in error ? String(error.message) : String(error);
