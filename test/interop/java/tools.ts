import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Outcome } from "../support/judge.ts";
import { runScenarios } from "../support/scenarios.ts";
import type { Target } from "../support/target.ts";
import { Mains } from "./java.ts";
import { verifiablePair } from "./verifiable.ts";

/*
 * Kafka's own tools, unmodified. A scenario is a use of one tool; it throws with what is not as it should be.
 */
export interface ToolsOptions {
  readonly target: Target;
  /** A folder for files that tools read. */
  readonly folder: string;
  /** Of the pair of verifiable clients. */
  readonly records: number;
  /** Of the two performance tools. */
  readonly performanceRecords: number;
  readonly timeoutMs: number;
}
interface Tools extends ToolsOptions {
  /** Runs a tool against the cluster; gives what it printed. Throws when it fails. */
  readonly run: (tool: string, args: readonly string[], input?: string) => Promise<string>;
  /** The same for one that must fail; gives all that it printed. */
  readonly fails: (tool: string, args: readonly string[]) => Promise<string>;
}
type Scenario = (tools: Tools) => Promise<void>;

const packages: Readonly<Record<string, string>> = {
  ConfigCommand: "kafka.admin.",
  ConsoleConsumer: "org.apache.kafka.tools.consumer.",
  ConsumerGroupCommand: "org.apache.kafka.tools.consumer.group.",
};
const classOf = (tool: string): string => `${packages[tool] ?? "org.apache.kafka.tools."}${tool}`;

function has(text: string, ...wanted: readonly (string | RegExp)[]): void {
  for (const one of wanted) {
    const found = typeof one === "string" ? text.includes(one) : one.test(text);
    if (!found) throw new Error(`${String(one)} is not in:\n${text}`);
  }
}
function hasNot(text: string, unwanted: string): void {
  if (text.includes(unwanted)) throw new Error(`${unwanted} is in:\n${text}`);
}
/** The rows of a table, columns by their names. */
function table(text: string): Record<string, string>[] {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const names =
    lines
      .shift()
      ?.trim()
      .split(/\s{2,}|\s+(?=\S+$)|\s+/) ?? [];
  return lines.map((line) =>
    Object.fromEntries(
      line
        .trim()
        .split(/\s+/)
        .map((cell, i) => [names[i] ?? `${i}`, cell]),
    ),
  );
}
function same(what: string, seen: unknown, wanted: unknown): void {
  if (JSON.stringify(seen) !== JSON.stringify(wanted))
    throw new Error(`${what}: ${JSON.stringify(seen)} instead of ${JSON.stringify(wanted)}`);
}
/** Repeats a look until it holds: what changes a cluster is seen by all nodes a moment later, on a real Kafka too. */
async function soon<T>(look: () => Promise<T>): Promise<T> {
  for (const endMs = performance.now() + 10_000; ;) {
    try {
      return await look();
    } catch (error) {
      if (performance.now() > endMs) throw error;
    }
  }
}
const numbers = (count: number): string[] => Array.from({ length: count }, (_, i) => `${i}`);
const keyed = (count: number): string =>
  numbers(count)
    .map((n) => `k${n}:v${n}\n`)
    .join("");

async function made({ run }: Tools, topic: string, partitions = 3, ...config: readonly string[]): Promise<void> {
  const settings = config.flatMap((one) => ["--config", one]);
  has(await run("TopicCommand", ["--create", "--topic", topic, "--partitions", `${partitions}`, ...settings]), `Created topic ${topic}`);
  await soon(async () => has(await run("TopicCommand", ["--describe", "--topic", topic]), `PartitionCount: ${partitions}`));
}
const filled = ({ run }: Tools, topic: string, count: number): Promise<string> =>
  run("ConsoleProducer", ["--topic", topic, "--reader-property", "parse.key=true", "--reader-property", "key.separator=:"], keyed(count));
/** How many records a consumer printed; it says other things too. */
const values = (out: string): number => out.match(/^v\d+$/gm)?.length ?? 0;
const read = ({ run }: Tools, topic: string, count: number, ...more: readonly string[]): Promise<string> =>
  run("ConsoleConsumer", ["--topic", topic, "--max-messages", `${count}`, "--timeout-ms", "20000", "--from-beginning", ...more]);
/** A group that has read all. */
async function reading(tools: Tools, topic: string, group: string, count: number, protocol: string): Promise<void> {
  await made(tools, topic);
  await filled(tools, topic, count);
  const out = await read(tools, topic, count, "--group", group, "--command-property", `group.protocol=${protocol}`);
  same("lines read", values(out), count);
}
const offsets = (text: string): number =>
  text
    .trim()
    .split("\n")
    .reduce((sum, line) => sum + Number(line.split(":").at(-1)), 0);

const scenarios: Readonly<Record<string, Scenario>> = {
  async "TopicCommand: create, list, describe, alter partitions, delete"(tools) {
    const { run, fails } = tools;
    await made(tools, "tc", 3, "retention.ms=3600000");
    has(await run("TopicCommand", ["--list"]), /^tc$/m);
    const described = await run("TopicCommand", ["--describe", "--topic", "tc"]);
    has(described, /TopicId: \S{22}/, "retention.ms=3600000", /Partition: 2\tLeader: \d+\tReplicas: \d+/);
    has(await fails("TopicCommand", ["--create", "--topic", "tc"]), "exists");
    await run("TopicCommand", ["--create", "--topic", "tc", "--if-not-exists"]);
    await run("TopicCommand", ["--alter", "--topic", "tc", "--partitions", "5"]);
    await soon(async () => has(await run("TopicCommand", ["--describe", "--topic", "tc"]), "PartitionCount: 5"));
    has(await fails("TopicCommand", ["--alter", "--topic", "tc", "--partitions", "2"]), /partitions/i);
    same("under-replicated", await run("TopicCommand", ["--describe", "--under-replicated-partitions"]), "");
    same("unavailable", await run("TopicCommand", ["--describe", "--unavailable-partitions"]), "");
    await run("TopicCommand", ["--delete", "--topic", "tc"]);
    await soon(async () => hasNot(`\n${await run("TopicCommand", ["--list"])}`, "\ntc\n"));
    has(await fails("TopicCommand", ["--describe", "--topic", "tc"]), "does not exist");
  },
  async "ConfigCommand: describe, alter, delete a topic's configuration; describe a broker's"(tools) {
    const { run, fails } = tools;
    const of = (...args: readonly string[]): Promise<string> =>
      run("ConfigCommand", ["--entity-type", "topics", "--entity-name", "cc", ...args]);
    await made(tools, "cc", 1);
    has(await of("--alter", "--add-config", "retention.ms=7200000,max.message.bytes=2000000"), "Completed updating config");
    await soon(async () =>
      has(
        await of("--describe"),
        /retention\.ms=7200000 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention\.ms=7200000/,
        "max.message.bytes=2000000",
      ),
    );
    has(await of("--describe", "--all"), "cleanup.policy=delete", "segment.bytes=", "min.insync.replicas=");
    await of("--alter", "--delete-config", "retention.ms");
    await soon(async () => hasNot(await of("--describe"), "retention.ms"));
    const bad = ["--entity-type", "topics", "--entity-name", "cc", "--alter", "--add-config", "no.such.config=1"];
    has(await fails("ConfigCommand", bad), /unknown|invalid/i);
    const brokers = await run("ConfigCommand", ["--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"]);
    has(brokers, "num.partitions=", "auto.create.topics.enable=");
  },
  async "ConsoleProducer and ConsoleConsumer: keys, values, headers, times, a group's offsets"(tools) {
    const { run } = tools;
    await made(tools, "console", 1);
    const properties = ["parse.key=true", "parse.headers=true"].flatMap((one) => ["--reader-property", one]);
    await run("ConsoleProducer", ["--topic", "console", "--compression-codec", "zstd", ...properties], "h:w\tk0\tv0\nh:w\tk1\tv1\n");
    const shown = ["key", "headers", "partition", "offset", "timestamp"].flatMap((one) => ["--formatter-property", `print.${one}=true`]);
    const out = await read(tools, "console", 2, "--group", "console", ...shown);
    const [, time] = /^CreateTime:(\d{13})\tPartition:0\tOffset:0\th:w\tk0\tv0$/m.exec(out) ?? [];
    if (time === undefined || Math.abs(Number(time) - Date.now()) > 600_000) throw new Error(out);
    await filled(tools, "console", 1);
    // The group goes on where it was.
    const rest = await read(tools, "console", 1, "--group", "console");
    same("the next line", rest.trim(), "v0");
    same(
      "from an offset",
      (await run("ConsoleConsumer", ["--topic", "console", "--partition", "0", "--offset", "2", "--max-messages", "1"])).trim(),
      "v0",
    );
  },
  async "ConsumerGroupCommand: list, describe, members, state"(tools) {
    const { run } = tools;
    await reading(tools, "cgc", "cgc", 30, "classic");
    await run("ConsoleProducer", ["--topic", "cgc"], "one more\n");
    has(await run("ConsumerGroupCommand", ["--list"]), /^cgc$/m);
    has(await run("ConsumerGroupCommand", ["--list", "--state"]), /^cgc\s+Empty/m);
    has(await run("ConsumerGroupCommand", ["--list", "--type"]), /^cgc\s+Classic/m);
    hasNot(await run("ConsumerGroupCommand", ["--list", "--state", "stable"]), "cgc ");
    const rows = table(await run("ConsumerGroupCommand", ["--describe", "--group", "cgc"]));
    same("partitions", rows.map(({ PARTITION = "" }) => PARTITION).toSorted(), ["0", "1", "2"]);
    same(
      "lag",
      rows.reduce((sum, { LAG }) => sum + Number(LAG), 0),
      1,
    );
    same(
      "committed",
      rows.reduce((sum, { "CURRENT-OFFSET": at }) => sum + Number(at), 0),
      30,
    );
    has(await run("ConsumerGroupCommand", ["--describe", "--group", "cgc", "--state"]), /^cgc\s+\S+:\d+\s+\(\d+\).*Empty\s+0/m);
    hasNot(await run("ConsumerGroupCommand", ["--describe", "--group", "cgc", "--members"]), "cgc ");
  },
  async "ConsumerGroupCommand: reset offsets, dry run and execute"(tools) {
    const { run } = tools;
    await reading(tools, "reset", "reset", 30, "classic");
    const reset = async (...how: readonly string[]): Promise<number> => {
      const out = await run("ConsumerGroupCommand", ["--reset-offsets", "--group", "reset", ...how]);
      return table(out).reduce((sum, row) => sum + Number(row["NEW-OFFSET"]), 0);
    };
    const committed = async (): Promise<number> =>
      table(await run("ConsumerGroupCommand", ["--describe", "--group", "reset"])).reduce(
        (sum, row) => sum + Number(row["CURRENT-OFFSET"]),
        0,
      );
    same("dry run", await reset("--topic", "reset", "--to-earliest", "--dry-run"), 0);
    same("after a dry run", await committed(), 30);
    same("by -1", await reset("--all-topics", "--shift-by", "-1", "--execute"), 27);
    same("after it", await committed(), 27);
    same("to a time", await reset("--topic", "reset", "--to-datetime", "2020-01-01T00:00:00.000", "--execute"), 0);
    same("to the end", await reset("--topic", "reset", "--to-latest", "--execute"), 30);
    same("one partition", await reset("--topic", "reset:1", "--to-offset", "2", "--execute"), 2);
    const csv = await run("ConsumerGroupCommand", ["--reset-offsets", "--group", "reset", "--all-topics", "--to-current", "--export"]);
    has(csv, /"?reset"?,1,2/);
  },
  async "ConsumerGroupCommand: delete offsets, delete"(tools) {
    const { run, fails } = tools;
    await reading(tools, "gone", "gone", 12, "classic");
    has(await run("ConsumerGroupCommand", ["--delete-offsets", "--group", "gone", "--topic", "gone:1"]), /gone\s+1\s+Successful/);
    const rows = table(await run("ConsumerGroupCommand", ["--describe", "--group", "gone"]));
    same("partitions", rows.map(({ PARTITION = "" }) => PARTITION).toSorted(), ["0", "2"]);
    has(await run("ConsumerGroupCommand", ["--delete", "--group", "gone"]), "was successful");
    hasNot(await run("ConsumerGroupCommand", ["--list"]), "gone");
    has(await fails("ConsumerGroupCommand", ["--describe", "--group", "gone"]), /not exist|not found|no group/i);
  },
  async "GroupsCommand and ConsumerGroupCommand: a group that the server assigns"(tools) {
    const { run } = tools;
    await reading(tools, "next", "next", 12, "consumer");
    has(await run("GroupsCommand", ["--list"]), /^next\s+Consumer\s+consumer/m);
    has(await run("GroupsCommand", ["--list", "--group-type", "consumer"]), /^next\s/m);
    hasNot(await run("GroupsCommand", ["--list", "--group-type", "classic"]), "next");
    has(await run("ConsumerGroupCommand", ["--describe", "--group", "next", "--state"]), /^next\s+\S+:\d+\s+\(\d+\).*Empty/m);
    same(
      "lag",
      table(await run("ConsumerGroupCommand", ["--describe", "--group", "next"])).reduce((sum, { LAG }) => sum + Number(LAG), 0),
      0,
    );
    has(await run("ConsumerGroupCommand", ["--delete", "--group", "next"]), "was successful");
  },
  async "GetOffsetShell and DeleteRecordsCommand: the ends, by time, what is deleted"(tools) {
    const { run, folder } = tools;
    await made(tools, "offsets");
    await filled(tools, "offsets", 30);
    const get = (...args: readonly string[]): Promise<string> => run("GetOffsetShell", ["--topic", "offsets", ...args]);
    same("latest", offsets(await get()), 30);
    same("earliest", offsets(await get("--time", "-2")), 0);
    same("by time", offsets(await get("--time", "0")), 0);
    has(await get("--time", "max-timestamp", "--partitions", "0"), /^offsets:0:\d+$/m);
    const file = join(folder, "delete.json");
    await writeFile(file, JSON.stringify({ version: 1, partitions: [{ topic: "offsets", partition: 0, offset: 3 }] }));
    has(await run("DeleteRecordsCommand", ["--offset-json-file", file]), /partition: offsets-0\s+low_watermark: 3/);
    await soon(async () => same("earliest after it", offsets(await get("--time", "-2")), 3));
    const left = await read(tools, "offsets", 27);
    same("records left", values(left), 27);
  },
  async "LogDirsCommand, ClusterTool, BrokerApiVersionsCommand: what the cluster is"(tools) {
    const { run, target } = tools;
    await made(tools, "dirs");
    const text = await run("LogDirsCommand", ["--describe", "--topic-list", "dirs"]);
    const { brokers } = JSON.parse(text.slice(text.indexOf("{"))) as { brokers: { logDirs: { partitions: { partition: string }[] }[] }[] };
    const found = new Set(
      brokers.flatMap(({ logDirs }) => logDirs.flatMap(({ partitions }) => partitions.map(({ partition }) => partition))),
    );
    same("partitions", [...found].toSorted(), ["dirs-0", "dirs-1", "dirs-2"]);
    has(await run("ClusterTool", ["cluster-id"]), /Cluster ID: \S+/);
    const endpoints = await run("ClusterTool", ["list-endpoints"]);
    for (const address of target.addresses) has(endpoints, address.split(":")[1]!);
    const versions = await run("BrokerApiVersionsCommand", []);
    for (const address of target.addresses) has(versions, address);
    has(versions, /Produce\(0\): 0 to \d+ \[usable: \d+\]/, /ConsumerGroupHeartbeat\(68\): 0 to 1/);
  },
  async "ProducerPerformance and ConsumerPerformance: every record"(tools) {
    const { run, performanceRecords: count } = tools;
    await made(tools, "performance", 6);
    const sent = ["--topic", "performance", "--num-records", `${count}`, "--record-size", "1024", "--throughput", "-1"];
    has(await run("ProducerPerformance", sent), `${count} records sent`);
    same("in the log", offsets(await run("GetOffsetShell", ["--topic", "performance"])), count);
    const consumed = await run("ConsumerPerformance", ["--topic", "performance", "--num-records", `${count}`, "--timeout", "30000"]);
    const cells = consumed.trim().split("\n").at(-1)?.split(", ") ?? [];
    same("records consumed", Number(cells[4]), count);
  },
  async "EndToEndLatency: one record after the other"({ run }) {
    const args = ["--topic", "latency", "--num-records", "200", "--producer-acks", "all", "--record-size", "100"];
    has(await run("EndToEndLatency", args), /Avg latency: \d+/, /Percentiles: 50th = \d+, 99th = \d+/);
  },
  async ClientCompatibilityTest({ run, target }) {
    const isKafka = target.kind === "kafka";
    const flags: Readonly<Record<string, string>> = {
      topic: "compatibility",
      "offsets-for-times-supported": "true",
      "cluster-id-supported": "true",
      "expect-record-too-large-exception": "false",
      "num-cluster-nodes": `${target.addresses.length}`,
      "create-topics-supported": "true",
      // Access control lists are not served, and the tool knows brokers without them.
      "describe-acls-supported": isKafka ? "true" : "false",
      "describe-configs-supported": "true",
      "idempotent-producer-supported": "true",
    };
    const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
    has(await run("ClientCompatibilityTest", args), "SUCCESS.");
  },
  async "VerifiableProducer and VerifiableConsumer: nothing lost, nothing twice"(tools) {
    await made(tools, "verifiable", 6);
    await verifiablePair(tools.target.bootstrap, "verifiable", tools.records, tools.timeoutMs);
  },
};

/** Runs all scenarios. */
export async function runTools(options: ToolsOptions): Promise<Outcome[]> {
  await using mains = await Mains.start(options.timeoutMs);
  const call = async (tool: string, args: readonly string[], input?: string) => {
    const position =
      tool === "ClusterTool" ? [...args.slice(0, 1), "--bootstrap-server", options.target.bootstrap, ...args.slice(1)] : undefined;
    const all = position ?? ["--bootstrap-server", options.target.bootstrap, ...args];
    return { line: `${tool} ${args.join(" ")}`, ...(await mains.call(classOf(tool), all, input)) };
  };
  const tools: Tools = {
    ...options,
    run: async (tool, args, input) => {
      const { line, code, out, err } = await call(tool, args, input);
      if (code !== 0) throw new Error(`${line} ended with ${code}:\n${out}\n${err}`);
      return out;
    },
    fails: async (tool, args) => {
      const { line, code, out, err } = await call(tool, args);
      const text = `${out}\n${err}`;
      // The command of groups tells of errors and ends with 0.
      if (code === 0 && !/error|not exist/i.test(text)) throw new Error(`${line} did not fail:\n${text}`);
      return text;
    },
  };
  return await runScenarios(
    Object.fromEntries(Object.entries(scenarios).map(([name, scenario]) => [name, () => scenario(tools)])),
    options.timeoutMs,
  );
}
