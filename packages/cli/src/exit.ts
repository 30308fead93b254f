import { errorCatalogue, isSluiceError, type ErrorCode } from "@sluice/core/model";
import { typed } from "./command-line.ts";

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

/** Details of an error, and how a command is typed that goes to the same endpoint. */
type Hint = (details: Readonly<Record<string, string>>, type: typeof typed) => string;
/** Where the command line knows the next thing to type, that is the hint. */
const NEXT_COMMANDS: Partial<Record<ErrorCode, Hint>> = {
  UNKNOWN_TOPIC: (_, type) => `List them: ${type("topic", "list")}; or create it: ${type("topic", "create", "NAME", "--partitions", "N")}`,
  FOLDER_IN_USE: () => "Use the one that runs; or stop it; or choose another folder: --data DIR (and other ports: --port-base N)",
  OFFSET_OUT_OF_RANGE: (_, type) =>
    `See what there is: ${type("topic", "describe", "NAME")}; or start at one of the ends: --from earliest, --from latest`,
  UNREADABLE_BATCH: ({ topic, partition, nextOffset, group }, type) => {
    if (topic === undefined || partition === undefined || nextOffset === undefined) return errorCatalogue.UNREADABLE_BATCH.hint;
    const way =
      group === undefined
        ? type("consume", topic, "--partition", partition, "--from", nextOffset)
        : type("group", "reset", group, "--topic", topic, "--partition", partition, "--to", nextOffset);
    return `Sluice stores batches as they come, and this one cannot be decoded here. Go on after it: ${way}`;
  },
  NOT_LEADER: (_, type) => `No controller answers, and nothing was changed. See which run: ${type("status")}; start one, and try again`,
  COORDINATOR_NOT_AVAILABLE: (_, type) =>
    `No coordinator serves the group now. See which run: ${type("status")}; start one, or wait, and try again`,
  NOT_ENOUGH_REPLICAS: (_, type) => `At least two storage nodes must run. See which do: ${type("status")}; start them, and try again`,
  DISK_FULL: (_, type) =>
    `No room on the disks of the storage nodes. See which: ${type("status")}; make room (docs/operations.md, "When disks are full"), and try again`,
  TIMED_OUT: (_, type) => `See what does not answer: ${type("status")}; a change that was asked for may have been made or not`,
  METADATA_UNAVAILABLE: (_, type) =>
    `The metadata store (etcd) must run for this. See what is known: ${type("status")}; start it, and try again`,
  NOT_OWNER: (_, type) => `No broker serves the partition. See which run: ${type("status")}; start one, and try again`,
  PARTITION_RECOVERING: (_, type) => `The partition is being taken over. See who runs: ${type("status")}; and try again`,
  UNREACHABLE: () => `Start a server: ${typed("standalone")}; or name another: --endpoint HOST:PORT, or SLUICE_ENDPOINT`,
};

/** One line (two with a hint) for a person, and the exit code, of anything thrown. `endpoint`: the one that was named on the command line. */
export function explain(error: unknown, endpoint?: string): { readonly text: string; readonly exitCode: number } {
  const message = messageOf(error);
  if (isSluiceError(error)) {
    // Nobody but the user gives a call up.
    if (error.code === "CANCELLED") return { text: "sluice: interrupted", exitCode: exitCodes.interrupted };
    const exitCode = EXIT_CODES[error.code] ?? exitCodes.failure;
    const type: typeof typed = (...words) => typed(...words, ...(endpoint === undefined ? [] : ["--endpoint", endpoint]));
    const hint = NEXT_COMMANDS[error.code]?.(error.details, type) ?? errorCatalogue[error.code].hint;
    return { text: `sluice: ${error.code}: ${message}\n  ${hint}`, exitCode };
  }
  const exitCode = (error as { exitCode?: unknown } | undefined)?.exitCode;
  return { text: `sluice: ${message}`, exitCode: typeof exitCode === "number" ? exitCode : exitCodes.failure };
}
export const messageOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "message" in error ? String(error.message) : String(error);
