import { describe, expect, test } from "@jest/globals";
import { decodeStruct } from "../src/decode.ts";
import { encodeStruct } from "../src/encode.ts";
import { isDefault, Op, type FieldPlan, type StructPlan, type StructValue, type Value } from "../src/plan.ts";
import { Reader } from "../src/reader.ts";
import { Writer } from "../src/writer.ts";
import { fixtures } from "./support/fixtures.ts";
import { allCases } from "./support/schemas.ts";

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
const planOf = (name: string, version: number): StructPlan => {
  const found = allCases.find((one) => one.name === name && one.version === version);
  if (found === undefined) throw new Error(`no ${name} v${version}`);
  return found.plan;
};

/** A decoded value in the words of Kafka's JSON: uuids and bytes in base64, records only by their size, default tagged fields left out. */
function toJson(plan: StructPlan, value: StructValue): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const field of plan.fields) {
    const isRecords = field.name === "records";
    const one = value[field.name] as Value;
    if (isRecords && one !== null) out["recordsSizeInBytes"] = (one as Uint8Array).length;
    else out[field.name] = fieldJson(field, one);
  }
  for (const field of plan.tagged) if (!isDefault(field, value[field.name])) out[field.name] = fieldJson(field, value[field.name] as Value);
  return out;
}
function fieldJson(field: FieldPlan, value: Value): unknown {
  if (value === null) return null;
  switch (field.op) {
    case Op.array:
      return (value as readonly Value[]).map((one) => fieldJson(field.element as FieldPlan, one));
    case Op.struct:
      return toJson(field.struct as StructPlan, value as StructValue);
    case Op.bytes:
      return Buffer.from(value as Uint8Array).toString("base64");
    case Op.uuid:
      return Buffer.from((value as string).replaceAll("-", ""), "hex").toString("base64url");
    default:
      return value;
  }
}

describe("frames of Apache Kafka's own codec", () => {
  test("cover every message at every version", () => {
    const seen = new Set(fixtures.map(({ name, version }) => `${name} ${version}`));
    expect(allCases.filter(({ name, version }) => !seen.has(`${name} ${version}`))).toEqual([]);
    expect(allCases.length).toBeGreaterThan(300);
  });

  test("are read as Kafka reads them", () => {
    for (const { name, version, bytes, json } of fixtures) {
      const plan = planOf(name, version);
      const reader = new Reader(bytes, 0, bytes.length, 1_000);
      const read = toJson(plan, decodeStruct(reader, plan));
      // The name in front tells which frame it was.
      expect([name, version, reader.left, read]).toEqual([name, version, 0, json]);
    }
  });

  test("are written byte for byte as Kafka writes them", () => {
    for (const { name, version, bytes } of fixtures) {
      const plan = planOf(name, version);
      const writer = new Writer();
      encodeStruct(writer, plan, decodeStruct(new Reader(bytes, 0, bytes.length, 1_000), plan));
      expect([name, version, hex(writer.toBytes())]).toEqual([name, version, hex(bytes)]);
    }
  });
});
