import { errorCatalogue, isSluiceError, topicConfigKeys, type ErrorCode, type SluiceError } from "@sluice/core/model";
import { typed } from "./command-line.ts";
import { DEFAULT_ENDPOINT, defaultPorts } from "./defaults.ts";
import { nearest } from "./nearest.ts";

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

/** What a command was about, as far as it says so on its line. */
export interface About {
  readonly endpoint?: string | undefined;
  readonly topic?: string | undefined;
}
/** What an error says, how a command is typed that goes to the same endpoint, and what the topic is called. */
interface Case {
  readonly details: Readonly<Record<string, string>>;
  readonly message: string;
  readonly type: typeof typed;
  /** NAME when it is not known. */
  readonly topic: string;
}
type Hint = (it: Case) => string;
/** Where the command line knows the next thing to type, that is the hint. */
const NEXT_COMMANDS: Partial<Record<ErrorCode, Hint>> = {
  UNKNOWN_TOPIC: ({ type, topic, details }) => {
    const meant = nearest(topic, (details["topics"] ?? "").split(","));
    const near = meant === undefined || meant === "" ? "" : `Did you mean ${meant}? `;
    return `${near}List them: ${type("topic", "list")}; or create it: ${type("topic", "create", topic, "--partitions", "N")}`;
  },
  INVALID_CONFIG: ({ message }) => {
    const key = /unknown topic configuration key "([^"]*)"/.exec(message)?.[1];
    const meant = key === undefined ? undefined : nearest(key, Object.keys(topicConfigKeys));
    const near = meant === undefined ? "" : `Did you mean ${meant}? `;
    return `${near}All keys with what they take: docs/topics.md`;
  },
  FOLDER_IN_USE: () => "Use the one that runs; or stop it; or choose another folder: --data DIR (and other ports: --port-base N)",
  OFFSET_OUT_OF_RANGE: ({ type, topic }) =>
    `See what there is: ${type("topic", "describe", topic)}; or start at one of the ends: --from earliest, --from latest`,
  UNREADABLE_BATCH: ({ details: { topic, partition, nextOffset, group }, type }) => {
    if (topic === undefined || partition === undefined || nextOffset === undefined) return errorCatalogue.UNREADABLE_BATCH.hint;
    const way =
      group === undefined
        ? type("consume", topic, "--partition", partition, "--from", nextOffset)
        : type("group", "reset", group, "--topic", topic, "--partition", partition, "--to", nextOffset);
    return `Sluice stores batches as they come, and this one cannot be decoded here. Go on after it: ${way}`;
  },
  MESSAGE_TOO_LARGE: ({ type, topic }) =>
    `Send smaller messages, or let the topic take larger ones, up to 8 MiB: ${type("topic", "alter", topic, "--config", "max.message.bytes=BYTES")}`,
  INVALID_TIMESTAMP: ({ type, topic }) =>
    `Let the topic take it: ${type("topic", "alter", topic, "--config", "message.timestamp.before.max.ms=MS")} (too old), message.timestamp.after.max.ms (in the future)`,
  TOPIC_EXISTS: () => "Choose another name, or use the existing topic (with --if-not-exists that is no error).",
  GROUP_NOT_FOUND: ({ type, message }) =>
    message.includes("members of the classic protocol")
      ? `A group is of one protocol at a time. Stop those members first, or read as another group: --group NAME`
      : `List them: ${type("group", "list")}`,
  NOT_LEADER: ({ type }) => `No controller answers, and nothing was changed. See which run: ${type("status")}; start one, and try again`,
  COORDINATOR_NOT_AVAILABLE: ({ type }) =>
    `No coordinator serves the group now. See which run: ${type("status")}; start one, or wait, and try again`,
  NOT_ENOUGH_REPLICAS: ({ type }) => `At least two storage nodes must run. See which do: ${type("status")}; start them, and try again`,
  DISK_FULL: ({ type }) =>
    `No room on the disks of the storage nodes. See which: ${type("status")}; make room (docs/operations.md, "When disks are full"), and try again`,
  TIMED_OUT: ({ type }) => `See what does not answer: ${type("status")}; a change of topics or groups may have been made or not`,
  METADATA_UNAVAILABLE: ({ type }) =>
    `The metadata store (etcd) must run for this. See what is known: ${type("status")}; start it, and try again`,
  NOT_OWNER: ({ type }) => `No broker serves the partition. See which run: ${type("status")}; start one, and try again`,
  PARTITION_RECOVERING: ({ type }) => `The partition is being taken over. See which run: ${type("status")}; and try again`,
  UNREACHABLE: ({ message }) =>
    message.includes("does not speak gRPC")
      ? `Name the gRPC address, ${DEFAULT_ENDPOINT} by default (Kafka's port is ${defaultPorts.kafka}, that of health and metrics ${defaultPorts.metrics}): --endpoint HOST:PORT, or SLUICE_ENDPOINT`
      : `Start a server: ${typed("standalone")}; or name another: --endpoint HOST:PORT, or SLUICE_ENDPOINT`,
};
/** What helps, in the words of the command line. */
export function hintOf(error: SluiceError, { endpoint, topic = "NAME" }: About): string {
  const type: typeof typed = (...words) => typed(...words, ...(endpoint === undefined ? [] : ["--endpoint", endpoint]));
  // Late is what the time was up with; what was said before is what helps.
  const { code, details, message } = error.code === "TIMED_OUT" && isSluiceError(error.cause) ? error.cause : error;
  return NEXT_COMMANDS[code]?.({ details, message, type, topic }) ?? errorCatalogue[code].hint;
}

/** One line (two with a hint) for a person, and the exit code, of anything thrown. */
export function explain(error: unknown, about: About = {}): { readonly text: string; readonly exitCode: number } {
  const message = messageOf(error);
  if (isSluiceError(error)) {
    // Nobody but the user gives a call up.
    if (error.code === "CANCELLED") return { text: "sluice: interrupted", exitCode: exitCodes.interrupted };
    const exitCode = EXIT_CODES[error.code] ?? exitCodes.failure;
    return { text: `sluice: ${error.code}: ${message}\n  ${hintOf(error, about)}`, exitCode };
  }
  const exitCode = (error as { exitCode?: unknown } | undefined)?.exitCode;
  return { text: `sluice: ${message}`, exitCode: typeof exitCode === "number" ? exitCode : exitCodes.failure };
}
export const messageOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "message" in error ? String(error.message) : String(error);
