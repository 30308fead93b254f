/** Writes docs/errors.md, docs/configuration.md, docs/topics.md, docs/compatibility.md and the schema of the chart's values from the code; `--check` only says whether they are fresh. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { valuesSchema } from "../deploy/helm/schema.ts";
import { compatibilityPage } from "../test/interop/support/page.ts";
import { root } from "./run.ts";

interface Entry {
  readonly number: number;
  readonly retriable: boolean;
  readonly grpc: string;
  readonly kafka: number;
  readonly hint: string;
}
const load = (path: string): Promise<Record<string, unknown>> =>
  import(pathToFileURL(join(root, path)).href) as Promise<Record<string, unknown>>;

async function errors(): Promise<string> {
  const { errorCatalogue } = (await load("packages/core/src/model/errors.ts")) as { errorCatalogue: Record<string, Entry> };
  const rows = Object.entries(errorCatalogue)
    .sort(([, a], [, b]) => a.number - b.number)
    .map(([code, e]) => `| ${e.number} | \`${code}\` | ${e.retriable ? "yes" : "no"} | ${e.grpc} | ${e.kafka} | ${e.hint} |`);
  return [
    "# Errors",
    "",
    "One catalogue for every interface. gRPC errors carry `google.rpc.ErrorInfo` with the code as `reason` and the domain `sluice`; fields named `error`",
    "or `code` in messages carry the number. `Retry` says whether the same request may succeed later. Made from `packages/core/src/model/errors.ts`.",
    "",
    "| number | code | retry | gRPC status | Kafka code | what to do |",
    "| --- | --- | --- | --- | --- | --- |",
    ...rows,
    "",
  ].join("\n");
}

interface TopicKey {
  readonly type: { readonly kind: string; readonly min?: number; readonly max?: number; readonly values?: readonly string[] };
  readonly default: string;
  readonly doc: string;
}
function taken({ kind, min, max, values }: TopicKey["type"]): string {
  if (kind === "bool") return "`true`, `false`";
  if (values !== undefined) return values.map((value) => `\`${value}\``).join(", ");
  return max === Number.MAX_SAFE_INTEGER ? `integer, at least ${min}` : `integer, ${min} to ${max}`;
}
async function topics(): Promise<string> {
  const { topicConfigKeys } = (await load("packages/core/src/model/topic-config.ts")) as { topicConfigKeys: Record<string, TopicKey> };
  const rows = Object.entries(topicConfigKeys).map(
    ([key, { type, default: value, doc }]) =>
      `| \`${key}\` | ${taken(type)} | ${Number(value) === Number.MAX_SAFE_INTEGER ? "no limit" : value} | ${doc} |`,
  );
  return [
    "# Topic configuration",
    "",
    "Set with `sluice topic create NAME --config KEY=VALUE`, changed with `sluice topic alter`, shown by `sluice topic describe`; by Kafka clients and",
    "tools with CreateTopics, IncrementalAlterConfigs and DescribeConfigs. Keys that Kafka has are called as there. Sizes are in bytes, times in",
    "milliseconds. A key or value that does not fit is refused with INVALID_CONFIG. Keys of Kafka's with one value here, such as `cleanup.policy` (there is no compaction), are",
    "known to its clients alone ([kafka.md](kafka.md)). Made from `packages/core/src/model/topic-config.ts`.",
    "",
    "| key | takes | default | what |",
    "| --- | --- | --- | --- |",
    ...rows,
    "",
  ].join("\n");
}

const services = ["proxy", "broker", "segment-store", "controller", "coordinator"] as const;
async function configuration(): Promise<string> {
  const { configMarkdown } = (await load("packages/runtime/src/config/reference.ts")) as { configMarkdown: (def: unknown) => string };
  const parts = [
    "# Configuration",
    "",
    "Flag (`--key value`) over environment over file (`--config FILE`, JSON, nested or dotted keys) over default. Unknown keys refuse to start. A key that",
    "is secret takes `file:PATH`, or its value from the environment or the file, never from the command line. Made from each service's `config.ts`.",
    "",
  ];
  const { commonConfig } = (await load("packages/runtime/src/run-service.ts")) as { commonConfig: unknown };
  parts.push("## every service", "", configMarkdown(commonConfig));
  for (const service of services) {
    const module = await load(`services/${service}/src/config.ts`);
    const def = Object.values(module).find((v) => typeof v === "object" && v !== null && "spec" in v);
    parts.push(`## ${service}`, "", configMarkdown(def));
  }
  return parts.join("\n");
}

const pages: ReadonlyArray<readonly [string, () => Promise<string>]> = [
  ["docs/errors.md", errors],
  ["docs/configuration.md", configuration],
  ["docs/topics.md", topics],
  ["docs/compatibility.md", () => Promise.resolve(compatibilityPage())],
  ["deploy/helm/sluice/values.schema.json", valuesSchema],
];
let stale = false;
for (const [path, make] of pages) {
  const text = await make();
  if (process.argv.includes("--check")) {
    let committed = "";
    try {
      committed = readFileSync(join(root, path), "utf8");
    } catch {
      // Missing is stale.
    }
    if (committed !== text) {
      process.stderr.write(`${path} is stale: run \`npm run docs\` and commit the result\n`);
      stale = true;
    }
  } else writeFileSync(join(root, path), text);
}
process.exit(stale ? 1 : 0);
