import { schemaTable } from "../../src/gen/schema-table.ts";
import { planMessage, type StructPlan } from "../../src/plan.ts";
import { parseSchemas } from "../../src/schema.ts";

export const schemas = parseSchemas(schemaTable);

export interface Case {
  readonly name: string;
  readonly version: number;
  readonly plan: StructPlan;
}
/** Every message at every version. */
export const allCases: readonly Case[] = [...schemas.values()].flatMap((schema) =>
  Array.from({ length: schema.versions.to - schema.versions.from + 1 }, (_, i) => {
    const version = schema.versions.from + i;
    return { name: schema.name, version, plan: planMessage(schema, version) };
  }),
);
