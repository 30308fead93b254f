import type { CommittedOffset, GroupDescription, ListedGroup, PartitionOffset, Sluice, TopicPartition } from "@sluice/client";
import { SluiceError } from "@sluice/core/model";
import { typed } from "../command-line.ts";
import { type ConnectionOptions, endpointFlag, withConnection } from "../connect.ts";
import { exitCodes, UsageError } from "../exit.ts";
import { type Column, formatTable, type OutputFormat, plural, printOne, printRows } from "../output.ts";
import { clientPosition, type FromPosition, positionText } from "../position.ts";
import type { Terminal } from "../terminal.ts";

export interface GroupOptions extends ConnectionOptions {
  readonly output: OutputFormat;
}
export interface ResetOptions extends GroupOptions {
  readonly to: FromPosition;
  /** Default: the topics that the group has offsets in. */
  readonly topic?: readonly string[];
  readonly partition?: number;
  readonly dryRun?: boolean;
}
const ENDS_TIMEOUT_MS = 3_000;

const groupColumns: readonly Column<ListedGroup>[] = [
  { title: "group", text: (g) => g.group },
  { title: "kind", text: (g) => g.kind },
  { title: "state", text: (g) => g.state },
  { title: "type", text: (g) => g.protocolType },
];
export async function listGroups(options: GroupOptions & { readonly state?: readonly string[] }, terminal: Terminal): Promise<number> {
  return withConnection(terminal, options, async (sluice) => {
    await printRows(terminal, options.output, await sluice.groups.list({ states: options.state ?? [] }), groupColumns);
    return exitCodes.ok;
  });
}

interface OffsetRow extends TopicPartition {
  readonly committed: number | null;
  readonly end: number | null;
  /** Records behind the end. */
  readonly lag: number | null;
  readonly memberId: string | null;
  readonly metadata: string;
}
const offsetColumns: readonly Column<OffsetRow>[] = [
  { title: "topic", text: (row) => row.topic },
  { title: "partition", text: (row) => row.partition },
  { title: "committed", text: (row) => row.committed },
  { title: "end", text: (row) => row.end },
  { title: "lag", text: (row) => row.lag },
  { title: "member", text: (row) => row.memberId },
];
const memberColumns: readonly Column<GroupDescription["members"][number]>[] = [
  { title: "member", text: (m) => m.memberId },
  { title: "instance", text: (m) => m.instanceId },
  { title: "client", text: (m) => m.clientId },
  { title: "host", text: (m) => m.clientHost },
  { title: "epoch", text: (m) => m.memberEpoch },
  { title: "partitions", text: (m) => m.assigned.length },
];
export async function describeGroup(group: string, options: GroupOptions, terminal: Terminal): Promise<number> {
  return withConnection(terminal, options, async (sluice) => {
    const found = await sluice.groups.describe(group);
    const offsets = await offsetRows(sluice, found, await sluice.groups.fetch(group));
    const table = [
      `group     ${found.group}`,
      `kind      ${found.kind}`,
      `state     ${found.state}`,
      `protocol  ${[found.protocolType, found.protocol].filter((s) => s !== "").join(", ") || "-"}`,
      `epoch     ${found.groupEpoch}`,
      "",
      ...(found.members.length === 0 ? ["no members\n"] : [formatTable(found.members, memberColumns)]),
      formatTable(offsets, offsetColumns),
    ].join("\n");
    await printOne(terminal, options.output, { ...found, offsets }, table);
    return exitCodes.ok;
  });
}
/** Each partition that the group has an offset in, that a member reads or shall read, or whose topic a member subscribes to. */
async function offsetRows(sluice: Sluice, found: GroupDescription, committed: readonly CommittedOffset[]): Promise<OffsetRow[]> {
  const members = new Map(found.members.flatMap((m) => m.assigned.map((p) => [keyOf(p), m.memberId] as const)));
  const offsets = new Map(committed.map((o) => [keyOf(o), o]));
  // What is gone has no name any more.
  const read = found.members.flatMap((m) => [...m.assigned, ...m.target]).filter((p) => p.topic !== "");
  const all = new Map<string, TopicPartition>([...committed, ...read].map((p) => [keyOf(p), p]));
  for (const topic of new Set(found.members.flatMap((m) => m.topics))) {
    // It need not be there yet.
    const partitions = await sluice.admin.describeTopic(topic).then(
      (t) => t.partitions,
      () => 0,
    );
    for (let partition = 0; partition < partitions; partition++) all.set(keyOf({ topic, partition }), { topic, partition });
  }
  const ends = new Map<string, number>();
  for (const topic of new Set([...all.values()].map((p) => p.topic))) {
    // A partition without an owner cannot tell its end now; the rest of the answer is worth showing.
    const latest = await sluice.admin.listOffsets(topic, "latest", { timeoutMs: ENDS_TIMEOUT_MS }).catch((): PartitionOffset[] => []);
    for (const { partition, offset } of latest) ends.set(keyOf({ topic, partition }), offset);
  }
  const rows = [...all].map(([key, { topic, partition }]): OffsetRow => {
    const offset = offsets.get(key)?.offset ?? null;
    const end = ends.get(key) ?? null;
    const lag = offset === null || end === null ? null : Math.max(0, end - offset);
    return {
      topic,
      partition,
      committed: offset,
      end,
      lag,
      memberId: members.get(key) ?? null,
      metadata: offsets.get(key)?.metadata ?? "",
    };
  });
  return rows.sort((a, b) => (a.topic === b.topic ? a.partition - b.partition : a.topic < b.topic ? -1 : 1));
}
const keyOf = ({ topic, partition }: TopicPartition): string => `${topic}/${partition}`;

interface ResetRow extends TopicPartition {
  readonly from: number | null;
  readonly to: number;
}
const resetColumns: readonly Column<ResetRow>[] = [
  { title: "topic", text: (row) => row.topic },
  { title: "partition", text: (row) => row.partition },
  { title: "from", text: (row) => row.from },
  { title: "to", text: (row) => row.to },
];
/** Moves the offsets of a group that has no members. */
export async function resetGroup(group: string, options: ResetOptions, terminal: Terminal): Promise<number> {
  return withConnection(terminal, options, async (sluice) => {
    const committed = await sluice.groups.fetch(group);
    const topics = options.topic ?? [...new Set(committed.map((o) => o.topic))].sort();
    if (topics.length === 0)
      throw new UsageError(`group ${group} has no offsets: name its topics\n  ${resetCommand(group, options, "TOPIC")}`);
    const rows: ResetRow[] = [];
    for (const topic of topics) rows.push(...(await targets(sluice, topic, options, committed)));
    if (options.dryRun !== true) {
      const { members } = await sluice.groups.describe(group).catch((error: unknown) => {
        if ((error as { code?: string }).code === "GROUP_NOT_FOUND") return { members: [] };
        throw error;
      });
      if (members.length > 0)
        throw new SluiceError("NON_EMPTY_GROUP", `group ${group} has ${plural(members.length, "member")} reading on from where they are`);
      await sluice.groups.commit(
        group,
        rows.map(({ topic, partition, to }) => ({ topic, partition, offset: to })),
      );
    }
    await printRows(terminal, options.output, rows, resetColumns);
    terminal.note(options.dryRun === true ? "nothing was changed (--dry-run)" : `${plural(rows.length, "offset")} of group ${group} set`);
    return exitCodes.ok;
  });
}
/** The same again with a topic that the reader fills in. */
function resetCommand(group: string, options: ResetOptions, topic: string): string {
  const { to, partition, dryRun } = options;
  const flags = [...(partition === undefined ? [] : ["--partition", partition]), ...(dryRun === true ? ["--dry-run"] : [])];
  return typed("group", "reset", group, "--to", positionText(to), "--topic", topic, ...flags, ...endpointFlag(options));
}
/** The position in each partition, within what the log has. */
async function targets(sluice: Sluice, topic: string, options: ResetOptions, committed: readonly CommittedOffset[]): Promise<ResetRow[]> {
  const partitions = options.partition === undefined ? undefined : [options.partition];
  const ask = partitions === undefined ? {} : { partitions };
  const position = clientPosition(options.to);
  const ends = await sluice.admin.listOffsets(topic, "latest", ask);
  const starts = new Map((await sluice.admin.listOffsets(topic, "earliest", ask)).map((o) => [o.partition, o.offset]));
  const wanted = new Map((await sluice.admin.listOffsets(topic, position, ask)).map((o) => [o.partition, o.offset]));
  return ends.map(({ partition, offset: end }) => {
    const at = options.to.at === "offset" ? options.to.offset : (wanted.get(partition) ?? -1);
    const from = committed.find((o) => o.topic === topic && o.partition === partition)?.offset ?? null;
    // Nothing at or after that time: the end, where the first such record will be.
    return { topic, partition, from, to: at < 0 ? end : Math.min(end, Math.max(starts.get(partition) ?? 0, at)) };
  });
}

export async function deleteGroup(group: string, options: GroupOptions, terminal: Terminal): Promise<number> {
  return withConnection(terminal, options, async (sluice) => {
    await sluice.groups.delete(group);
    await printOne(terminal, options.output, { group, deleted: true }, `deleted ${group}\n`);
    return exitCodes.ok;
  });
}
