import type { MemberInfo } from "@sluice/client";
import { type ConnectionOptions, withConnection } from "../connect.ts";
import { exitCodes } from "../exit.ts";
import { type Column, formatTable, type OutputFormat, printOne } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { whyUnwritable } from "../unwritable.ts";

const memberColumns: readonly Column<MemberInfo>[] = [
  { title: "service", text: (member) => member.service },
  { title: "id", text: (member) => member.id },
  { title: "zone", text: (member) => member.zone },
  { title: "state", text: (member) => `${member.draining ? "draining" : "serving"}${member.diskFull ? ", disk full" : ""}` },
  { title: "version", text: (member) => member.version },
  {
    title: "endpoints",
    text: (member) =>
      Object.entries(member.endpoints)
        .map(([name, address]) => `${name} ${address}`)
        .join(", "),
  },
];

/** What the server at the endpoint knows of its cluster. */
export async function status(options: ConnectionOptions & { readonly output: OutputFormat }, terminal: Terminal): Promise<number> {
  return withConnection(terminal, options, async (sluice) => {
    const cluster = await sluice.admin.describeCluster();
    const members = cluster.members.toSorted((a, b) => a.service.localeCompare(b.service) || a.id.localeCompare(b.id));
    const offline = cluster.partitionsOffline === 0 ? "" : `, ${cluster.partitionsOffline} without a broker`;
    const why = whyUnwritable(cluster);
    const starved = why === undefined ? "" : `, ${cluster.partitionsUnwritable} take no records: ${why}`;
    if (cluster.metadataStale)
      terminal.note("The metadata store does not answer the server: this is the last that it knew (METADATA_UNAVAILABLE)");
    const table = [
      `cluster     ${cluster.clusterId} (generation ${cluster.generation})`,
      `controller  ${cluster.controller === "" ? "none" : cluster.controller}`,
      `topics      ${cluster.topics - cluster.topicsInternal}${cluster.topicsInternal === 0 ? "" : ` and ${cluster.topicsInternal} internal`}`,
      `partitions  ${cluster.partitions}${offline}${starved}`,
      "",
      formatTable(members, memberColumns),
    ].join("\n");
    await printOne(terminal, options.output, { ...cluster, members }, table);
    return exitCodes.ok;
  });
}
