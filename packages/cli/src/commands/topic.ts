import type { PartitionDetails, TopicInfo } from "@sluice/client";
import { codeOf } from "@sluice/core/model";
import { type ConnectionOptions, withConnection } from "../connect.ts";
import { exitCodes, UsageError } from "../exit.ts";
import { type Column, formatTable, type OutputFormat, plural, printOne, printRows } from "../output.ts";
import type { Terminal } from "../terminal.ts";

export interface TopicOptions extends ConnectionOptions {
  readonly output: OutputFormat;
}
export interface CreateTopicOptions extends TopicOptions {
  readonly partitions: number;
  readonly config: Readonly<Record<string, string>>;
  /** An existing topic of that name is no error. */
  readonly ifNotExists?: boolean;
}

const topicColumns: readonly Column<TopicInfo>[] = [
  { title: "name", text: (topic) => topic.name },
  { title: "partitions", text: (topic) => topic.partitions },
  { title: "created", text: (topic) => new Date(topic.createdAtMs).toISOString() },
  { title: "state", text: (topic) => (topic.deleting ? "deleting" : "active") },
];

export async function createTopic(name: string, options: CreateTopicOptions, terminal: Terminal): Promise<number> {
  return withConnection(terminal, options, async (sluice) => {
    const { partitions, config } = options;
    try {
      const topic = await sluice.admin.createTopic({ name, partitions, config });
      await printOne(terminal, options.output, topic, `created ${topic.name} with ${plural(topic.partitions, "partition")}\n`);
    } catch (error) {
      if (options.ifNotExists !== true || codeOf(error) !== "TOPIC_EXISTS") throw error;
      const topic = await sluice.admin.describeTopic(name);
      await printOne(terminal, options.output, topic, `${topic.name} exists with ${plural(topic.partitions, "partition")}\n`);
    }
    return exitCodes.ok;
  });
}
export async function listTopics(options: TopicOptions & { readonly internal?: boolean }, terminal: Terminal): Promise<number> {
  return withConnection(terminal, options, async (sluice) => {
    const topics = await sluice.admin.listTopics({ includeInternal: options.internal === true });
    await printRows(terminal, options.output, topics, topicColumns);
    return exitCodes.ok;
  });
}

type PartitionRow = PartitionDetails & { readonly endOffset: number | null };
const partitionColumns: readonly Column<PartitionRow>[] = [
  { title: "partition", text: (row) => row.partition },
  { title: "owner", text: (row) => row.owner },
  { title: "epoch", text: (row) => row.epoch },
  { title: "phase", text: (row) => row.phase },
  { title: "start", text: (row) => row.logStartOffset },
  { title: "end", text: (row) => row.endOffset },
  { title: "segments", text: (row) => row.segments.length },
  { title: "replicas of the last", text: (row) => row.segments.at(-1)?.replicas.join(" ") },
];
export async function describeTopic(name: string, options: TopicOptions, terminal: Terminal): Promise<number> {
  return withConnection(terminal, options, async (sluice) => {
    const topic = await sluice.admin.describeTopic(name, { includePartitions: true });
    // A partition without an owner cannot tell its end now; the rest of the answer is worth showing.
    const ends = await sluice.admin.listOffsets(name, "latest", { timeoutMs: ENDS_TIMEOUT_MS }).catch(() => []);
    const endOf = new Map(ends.map((end) => [end.partition, end.offset]));
    const partitionDetails = topic.partitionDetails.map((row) => ({ ...row, endOffset: endOf.get(row.partition) ?? null }));
    const config = Object.entries(topic.config).toSorted(([a], [b]) => a.localeCompare(b));
    const table = [
      `name        ${topic.name}`,
      `id          ${topic.topicId}`,
      `partitions  ${topic.partitions}`,
      `created     ${new Date(topic.createdAtMs).toISOString()}`,
      ...config.map(([key, value], i) => `${i === 0 ? "config" : "      "}      ${key}=${value}`),
      "",
      formatTable(partitionDetails, partitionColumns),
    ].join("\n");
    await printOne(terminal, options.output, { ...topic, partitionDetails }, table);
    return exitCodes.ok;
  });
}
const ENDS_TIMEOUT_MS = 3_000;

export interface AlterTopicOptions extends TopicOptions {
  /** All of them together. */
  readonly partitions?: number;
  readonly config: Readonly<Record<string, string>>;
  /** Keys that go back to their defaults. */
  readonly deleteConfig: readonly string[];
}
/** Everything is checked before anything is changed, as far as it can be: the partitions come last, because they cannot be taken back. */
export async function alterTopic(name: string, options: AlterTopicOptions, terminal: Terminal): Promise<number> {
  const { partitions, config, deleteConfig } = options;
  const hasConfig = Object.keys(config).length > 0 || deleteConfig.length > 0;
  if (partitions === undefined && !hasConfig) throw new UsageError("nothing to change: give --partitions, --config or --delete-config");
  const both = deleteConfig.find((key) => Object.hasOwn(config, key));
  if (both !== undefined) throw new UsageError(`${both} is given to --config and to --delete-config`);
  return withConnection(terminal, options, async (sluice) => {
    if (partitions !== undefined) await sluice.admin.addPartitions(name, partitions, { validateOnly: true });
    let topic = hasConfig ? await sluice.admin.updateTopicConfig(name, { set: config, reset: deleteConfig }) : undefined;
    if (partitions !== undefined) topic = await sluice.admin.addPartitions(name, partitions);
    const changed = [
      ...Object.entries(config).map(([key, value]) => `${key}=${value}`),
      ...deleteConfig.map((key) => `${key} by default`),
      ...(partitions === undefined ? [] : [plural(partitions, "partition")]),
    ];
    await printOne(terminal, options.output, topic, `altered ${name}: ${changed.join(", ")}\n`);
    return exitCodes.ok;
  });
}

export async function deleteTopic(
  name: string,
  options: TopicOptions & { readonly ifExists?: boolean },
  terminal: Terminal,
): Promise<number> {
  return withConnection(terminal, options, async (sluice) => {
    let deleted = true;
    try {
      await sluice.admin.deleteTopic(name);
    } catch (error) {
      if (options.ifExists !== true || codeOf(error) !== "UNKNOWN_TOPIC") throw error;
      deleted = false;
    }
    await printOne(terminal, options.output, { name, deleted }, deleted ? `deleted ${name}\n` : `${name} does not exist\n`);
    return exitCodes.ok;
  });
}
