import { type ConfigDef, environmentName, type KeySpec } from "./spec.ts";
import { describeValue, formatValue } from "./values.ts";

const jsonType = (spec: KeySpec): Record<string, unknown> => {
  switch (spec.type) {
    case "int":
      return { type: "integer", minimum: spec.min ?? 0, ...(spec.max === undefined ? {} : { maximum: spec.max }) };
    case "bytes":
      return { anyOf: [{ type: "integer" }, { type: "string", pattern: "^[0-9]+(\\.[0-9]+)?(B|KiB|MiB|GiB|TiB)?$" }] };
    case "duration":
      return { type: "string", pattern: "^(0|[0-9]+(\\.[0-9]+)?(ms|s|m|h|d))$" };
    case "bool":
      return { type: "boolean" };
    case "enum":
      return { enum: [...spec.values] };
    case "list":
      return { type: "array", items: { type: "string" } };
    default:
      return { type: "string" };
  }
};

/** JSON Schema (draft 2020-12) of the configuration file in its dotted form. */
export function configJsonSchema(def: ConfigDef, title: string): Record<string, unknown> {
  const properties: Record<string, unknown> = {};
  for (const [key, spec] of Object.entries(def.spec)) {
    const shown = spec.default === undefined ? {} : { default: spec.default };
    properties[key] = { ...jsonType(spec), description: spec.doc, ...shown };
  }
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title,
    type: "object",
    additionalProperties: false,
    // A required key may come from a flag or the environment instead, so the file alone is never incomplete.
    properties,
  };
}

/** One row per key: key, environment name, what it takes, default, meaning. */
export function configMarkdown(def: ConfigDef): string {
  const rows = Object.entries(def.spec).map(([key, spec]) => {
    const fallback = spec.default === undefined ? (spec.required === true ? "required" : "none") : `\`${formatValue(spec, spec.default)}\``;
    const takes = describeValue(spec) + (spec.secret === true ? "; secret, or file:PATH" : "");
    const shared = spec.sharedEnvironment === undefined ? "" : `, else \`${spec.sharedEnvironment}\``;
    return `| \`${key}\` | \`${environmentName(key)}\`${shared} | ${takes} | ${fallback} | ${spec.doc.replaceAll("|", "\\|")} |`;
  });
  return ["| key and flag | environment | takes | default | meaning |", "| --- | --- | --- | --- | --- |", ...rows, ""].join("\n");
}
