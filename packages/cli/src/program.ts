import { Command, type CommanderError, InvalidArgumentError, Option } from "commander";
import { DEFAULT_DATA_FOLDER, DEFAULT_ENDPOINT, defaultPorts } from "./defaults.ts";
import { type About, exitCodes, explain, messageOf } from "./exit.ts";
import { outputFormats, type OutputFormat } from "./output.ts";
import { type FromPosition, parseFrom, parseTo, parseUntil, type UntilPosition } from "./position.ts";
import type { Terminal } from "./terminal.ts";
import { mistakeIn } from "./usage.ts";
import { byteSize, notEmpty, pair, uniquePairs, wholeNumber } from "./values.ts";
import { VERSION } from "./version.ts";

/** Names and flags are fixed: other tools call them. What a command does is loaded when it is called. */
const PORT_MAX = 65_535;
const PARTITIONS_MAX = 100_000;
const PROCESSES_MAX = 32;
const ZONES_MAX = 26;
const VALUE_BYTES_MAX = 8 * 1024 * 1024;
const RATE_MAX = 10_000_000;

/** Of both kinds of group. */
const GROUP_STATES: readonly string[] = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling"];

type Pairs = readonly (readonly [string, string])[];

/** Our parsers throw UsageError; commander wants its own class to name the flag and exit with its message. */
const parsed =
  <T, P = unknown>(parse: (text: string, before?: P) => T) =>
  (text: string, before: P): T => {
    try {
      return parse(text, before);
    } catch (error) {
      throw new InvalidArgumentError(messageOf(error));
    }
  };
const number = (flag: string, min: number, max: number) => parsed(wholeNumber(flag, min, max));
const output = () => new Option("-o, --output <format>", "how results are written").choices(outputFormats).default("table");
const endpoint = () =>
  new Option("--endpoint <host:port,...>", `proxies to connect to (default: $SLUICE_ENDPOINT, then ${DEFAULT_ENDPOINT})`);
const configPairs = (doc: string) =>
  new Option("--config <key=value>", doc).argParser(parsed<Pairs, Pairs>(pair("--config"))).default([], "none");

/** Parses, runs, and resolves with the exit code. Help goes to standard output, mistakes to standard error. */
export async function runProgram(argv: readonly string[], terminal: Terminal): Promise<number> {
  let code: number = exitCodes.ok;
  const run = (work: () => Promise<number>): Promise<void> => work().then((result) => void (code = result));
  const program = new Command("sluice")
    .description("A message broker with storage and compute apart.")
    .version(`sluice ${VERSION}`, "-V, --version", "print the version")
    .helpOption("-h, --help", "print help")
    .showHelpAfterError("(add --help for the flags)")
    .configureHelp({ showGlobalOptions: false })
    .configureOutput({
      writeOut: (text) => void terminal.out(text).catch(() => undefined),
      writeErr: (text) => terminal.note(text.trimEnd()),
      // Commander puts the flag and its value before our sentence, which names them itself.
      outputError: (text, write) => write(text.replace(/^error: option '.*' argument '.*' is invalid\. (?=--)/s, "error: ")),
    })
    .exitOverride();
  addStandalone(program, terminal, run);
  addCluster(program, terminal, run);
  addTopic(program, terminal, run);
  addGroup(program, terminal, run);
  addData(program, terminal, run);
  let about: About = {};
  program.hook("preAction", (_, command) => {
    const { endpoint: given } = command.opts<{ endpoint?: string }>();
    const isOfTopic = command.parent?.name() === "topic" || command.registeredArguments[0]?.name() === "topic";
    about = { endpoint: given, topic: isOfTopic ? (command.args[0] ?? undefined) : undefined };
  });
  try {
    const mistake = mistakeIn(program, argv);
    if (mistake !== undefined) {
      terminal.note(`error: ${mistake.text}\n(add --help for the flags)`);
      return exitCodes.usage;
    }
    await program.parseAsync([...argv], { from: "user" }).catch((error: unknown) => {
      if (!isCommanderError(error)) throw error;
      code = error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
    });
    await terminal.flush();
    return code;
  } catch (error) {
    const { text, exitCode } = explain(error, about);
    if (exitCode !== exitCodes.ok) terminal.note(text);
    return exitCode;
  }
}
const isCommanderError = (error: unknown): error is CommanderError =>
  typeof error === "object" && error !== null && "code" in error && String(error.code).startsWith("commander.");

type Runner = (work: () => Promise<number>) => Promise<void>;

function addStandalone(program: Command, terminal: Terminal, run: Runner): void {
  program
    .command("standalone")
    .description("run everything in one process, data in one folder")
    .option("--data <dir>", "folder of all data; made when it is not there", parsed(notEmpty("--data")), DEFAULT_DATA_FOLDER)
    .option(
      "--port-base <n>",
      `gRPC at N, Kafka at N+1, metrics at N+3; N+2 is kept for HTTP (default: ${defaultPorts.grpc}, ${defaultPorts.kafka} and ${defaultPorts.metrics})`,
      number("--port-base", 1, PORT_MAX - 3),
    )
    .option("--listen <host>", "address to listen on", "127.0.0.1")
    .option("--allow-unauthenticated", "listen beyond loopback although nobody has to prove who they are", false)
    .addOption(
      new Option("--log-level <level>", "lowest level of the log lines on standard error")
        .choices(["debug", "info", "warn", "error", "silent"])
        .default("warn"),
    )
    .action((options: { data: string; portBase?: number; listen: string; allowUnauthenticated: boolean; logLevel: "info" }) =>
      run(async () => (await import("./commands/standalone.ts")).standalone(options, terminal)),
    );
}

function addCluster(program: Command, terminal: Terminal, run: Runner): void {
  const cluster = program.command("cluster").description("a cluster of processes on this machine, for tests and trials");
  const dir = () =>
    new Option("--dir <dir>", "folder of the cluster: cluster.json, data, logs").argParser(parsed(notEmpty("--dir"))).makeOptionMandatory();
  // No value of its own: what is left out is the folder's, and the default only of a new cluster.
  const count = (flag: string, doc: string, min: number, fallback: number, max = PROCESSES_MAX) =>
    new Option(`${flag} <n>`, `${doc} (default: ${fallback})`).argParser(number(flag, min, max));
  cluster
    .command("up")
    .description("start the processes, and return when they serve; a folder that holds a cluster needs no other flag")
    .addOption(dir())
    .addOption(count("--proxies", "number of proxies", 1, 2))
    .addOption(count("--brokers", "number of brokers", 1, 2))
    .addOption(count("--stores", "number of storage nodes; a record is written to three", 3, 4))
    .addOption(count("--controllers", "number of controllers", 1, 1))
    .addOption(count("--coordinators", "number of coordinators", 0, 1))
    .addOption(count("--zones", "failure domains, a, b, c and so on, given in turn", 1, 3, ZONES_MAX))
    .option(
      "--object-store <dir|url>",
      "where the history goes: a folder or s3://bucket?endpoint=... (default: a folder within --dir)",
      parsed(notEmpty("--object-store")),
    )
    .option(
      "--port-base <n>",
      "first of a row of ports, the first proxy's gRPC first (default: free ports)",
      number("--port-base", 1, PORT_MAX - 200),
    )
    .option("--etcd <path>", "the etcd program (default: the first of the PATH, /usr/local/bin and /usr/bin)", parsed(notEmpty("--etcd")))
    .addOption(configPairs("configuration key for the services that know it; may be repeated"))
    .action((options: { config: Pairs } & Record<string, unknown>) =>
      run(async () => {
        const { up } = await import("./commands/cluster.ts");
        return up({ ...(options as unknown as Parameters<typeof up>[0]), config: uniquePairs("--config", options.config) }, terminal);
      }),
    );
  cluster
    .command("status")
    .description("show the processes: alive, ready, where")
    .addOption(dir())
    .addOption(output())
    .action((options: { dir: string; output: OutputFormat }) =>
      run(async () => (await import("./commands/cluster.ts")).clusterStatus(options, terminal)),
    );
  cluster
    .command("down")
    .description("end all processes; data and logs stay, and up starts them again")
    .addOption(dir())
    .action((options: { dir: string }) => run(async () => (await import("./commands/cluster.ts")).down(options, terminal)));
  for (const [verb, doc] of [
    ["kill", "end at once (SIGKILL)"],
    ["stop", "end in order (SIGTERM), and wait for it"],
    ["pause", "freeze (SIGSTOP)"],
    ["resume", "go on after pause (SIGCONT)"],
    ["start", "start again with the same flags and data, and wait until it serves"],
  ] as const)
    cluster
      .command(`${verb} <id...>`)
      .description(doc)
      .addOption(dir())
      .action((ids: string[], options: { dir: string }) =>
        run(async () => (await import("./commands/cluster.ts")).each(verb, ids, options, terminal)),
      );
}

const state = (text: string, before: readonly string[] | undefined): readonly string[] => {
  if (!GROUP_STATES.includes(text)) throw new InvalidArgumentError(`It takes ${GROUP_STATES.join(", ")}.`);
  return [...(before ?? []), text];
};
const several = (text: string, before: readonly string[] | undefined): readonly string[] => [...(before ?? []), text];

function addTopic(program: Command, terminal: Terminal, run: Runner): void {
  const topic = program.command("topic").description("create, list, describe, alter and delete topics");
  const load = () => import("./commands/topic.ts");
  topic
    .command("create <name>")
    .description("create a topic")
    .requiredOption("--partitions <n>", "number of partitions", number("--partitions", 1, PARTITIONS_MAX))
    .addOption(configPairs("configuration of the topic, such as retention.ms=3600000; may be repeated"))
    .option("--if-not-exists", "a topic that exists is no error")
    .addOption(endpoint())
    .addOption(output())
    .action(
      (name: string, options: { partitions: number; config: Pairs; ifNotExists?: boolean; endpoint?: string; output: OutputFormat }) =>
        run(async () => (await load()).createTopic(name, { ...options, config: uniquePairs("--config", options.config) }, terminal)),
    );
  topic
    .command("list")
    .description("list the topics")
    .option("--internal", "also the reserved ones")
    .addOption(endpoint())
    .addOption(output())
    .action((options: { internal?: boolean; endpoint?: string; output: OutputFormat }) =>
      run(async () => (await load()).listTopics(options, terminal)),
    );
  topic
    .command("describe <name>")
    .description("show configuration, owners, offsets and segments")
    .addOption(endpoint())
    .addOption(output())
    .action((name: string, options: { endpoint?: string; output: OutputFormat }) =>
      run(async () => (await load()).describeTopic(name, options, terminal)),
    );
  topic
    .command("alter <name>")
    .description("change the configuration of a topic, or give it more partitions")
    .option("--partitions <n>", "number of partitions afterwards; it can only grow", number("--partitions", 1, PARTITIONS_MAX))
    .addOption(configPairs("configuration of the topic, such as retention.ms=3600000; may be repeated"))
    .option("--delete-config <key>", "configuration that goes back to its default; may be repeated", several, [])
    .addOption(endpoint())
    .addOption(output())
    .action(
      (
        name: string,
        options: { partitions?: number; config: Pairs; deleteConfig: readonly string[]; endpoint?: string; output: OutputFormat },
      ) => run(async () => (await load()).alterTopic(name, { ...options, config: uniquePairs("--config", options.config) }, terminal)),
    );
  topic
    .command("delete <name>")
    .description("delete a topic with all its records")
    .option("--if-exists", "a topic that does not exist is no error")
    .addOption(endpoint())
    .addOption(output())
    .action((name: string, options: { ifExists?: boolean; endpoint?: string; output: OutputFormat }) =>
      run(async () => (await load()).deleteTopic(name, options, terminal)),
    );
}

function addGroup(program: Command, terminal: Terminal, run: Runner): void {
  const group = program.command("group").description("list, describe, reset and delete consumer groups");
  const load = () => import("./commands/group.ts");
  group
    .command("list")
    .description("list the groups")
    .option("--state <state>", "only those in this state, such as Stable or Empty; may be repeated", state)
    .addOption(endpoint())
    .addOption(output())
    .action((options: { state?: readonly string[]; endpoint?: string; output: OutputFormat }) =>
      run(async () => (await load()).listGroups(options, terminal)),
    );
  group
    .command("describe <name>")
    .description("show members, offsets and how far they are behind")
    .addOption(endpoint())
    .addOption(output())
    .action((name: string, options: { endpoint?: string; output: OutputFormat }) =>
      run(async () => (await load()).describeGroup(name, options, terminal)),
    );
  group
    .command("reset <name>")
    .description("set the offsets of a group without members")
    .addOption(
      new Option("--to <position>", "earliest, latest, an offset, or @TIME (ms since 1970 or ISO)")
        .argParser(parsed(parseTo))
        .makeOptionMandatory(),
    )
    .option("--topic <topic>", "this topic; may be repeated (default: all that the group has offsets in)", several)
    .option("--partition <n>", "this partition alone (default: all)", number("--partition", 0, PARTITIONS_MAX))
    .option("--dry-run", "show what would be set, and set nothing")
    .addOption(endpoint())
    .addOption(output())
    .action(
      (
        name: string,
        options: {
          to: FromPosition;
          topic?: readonly string[];
          partition?: number;
          dryRun?: boolean;
          endpoint?: string;
          output: OutputFormat;
        },
      ) => run(async () => (await load()).resetGroup(name, options, terminal)),
    );
  group
    .command("delete <name>")
    .description("delete a group without members, and its offsets")
    .addOption(endpoint())
    .addOption(output())
    .action((name: string, options: { endpoint?: string; output: OutputFormat }) =>
      run(async () => (await load()).deleteGroup(name, options, terminal)),
    );
}

function addData(program: Command, terminal: Terminal, run: Runner): void {
  program
    .command("produce <topic>")
    .description("write records: lines of standard input, unless told otherwise")
    .option("--file <path>", "read from a file instead of standard input")
    .option("--jsonl", "lines are JSON objects, as consume -o jsonl writes them")
    .option("--key-separator <text>", "the key is what stands before the first of these in a line")
    .option("--header <name=value>", "header of every record; may be repeated", parsed<Pairs, Pairs>(pair("--header")))
    .option("--rate <n>", "records a second, at most", number("--rate", 1, RATE_MAX))
    .option("--count <n>", "stop after so many records", number("--count", 1, Number.MAX_SAFE_INTEGER))
    .option("--size <bytes>", "make values of this size up instead of reading any", parsed(byteSize("--size", 0, VALUE_BYTES_MAX)))
    .addOption(endpoint())
    .action((topic: string, options: Record<string, never>) =>
      run(async () => (await import("./commands/produce.ts")).produce(topic, options, terminal)),
    );
  program
    .command("consume <topic>")
    .description("read records to standard output")
    .addOption(
      new Option("--from <position>", "earliest, latest, an offset, or @TIME (ms since 1970 or ISO)")
        .argParser(parsed(parseFrom))
        .default({ at: "earliest" }, "earliest"),
    )
    .option("--until <position>", "stop before: an offset, @TIME, or end (as it is at the start)", parsed(parseUntil))
    .option("--partition <n>", "this partition alone (default: all)", number("--partition", 0, PARTITIONS_MAX))
    .option("--exit-on-end", "stop at the end, as it is at the start, instead of waiting for more")
    .option(
      "--group <name>",
      "read as a member of this group: share the partitions, go on where it was, commit what was written out",
      parsed(notEmpty("--group")),
    )
    .addOption(
      new Option("-o, --output <format>", "value: the values, one a line; jsonl: everything of a record")
        .choices(["value", "jsonl"])
        .default("value"),
    )
    .addOption(endpoint())
    .action(
      (
        topic: string,
        options: {
          from: FromPosition;
          until?: UntilPosition;
          partition?: number;
          exitOnEnd?: boolean;
          group?: string;
          output: "value" | "jsonl";
          endpoint?: string;
        },
      ) =>
        run(async () => {
          const { group } = options;
          if (group === undefined) return (await import("./commands/consume.ts")).consume(topic, options, terminal);
          return (await import("./commands/consume-group.ts")).consumeGroup(topic, { ...options, group }, terminal);
        }),
    );
  program
    .command("status")
    .description("show the cluster at the endpoint: members, topics, partitions")
    .addOption(endpoint())
    .addOption(output())
    .action((options: { endpoint?: string; output: OutputFormat }) =>
      run(async () => (await import("./commands/status.ts")).status(options, terminal)),
    );
}
