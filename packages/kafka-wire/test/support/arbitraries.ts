import * as fc from "fast-check";
import { defaultStruct, Op, type FieldPlan, type StructPlan, type StructValue, type Value } from "../../src/plan.ts";

/** How many elements and bytes generated values have at most. */
export interface Sizes {
  readonly elements: number;
  readonly bytes: number;
  /** No null, no empty array, no default where another value is possible: every field shows. */
  readonly full?: boolean;
}

const INT64_MAX = Number.MAX_SAFE_INTEGER;
const UUID = fc.uint8Array({ minLength: 16, maxLength: 16 }).map((bytes) => {
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
});

/** Values of a message at one version: all fields set, those that the version lacks to their defaults. */
export function structOf(plan: StructPlan, sizes: Sizes): fc.Arbitrary<StructValue> {
  const defaults = defaultStruct(plan);
  const present = new Set([...plan.fields, ...plan.tagged]);
  const fields: Record<string, fc.Arbitrary<Value>> = {};
  for (const field of plan.all) {
    fields[field.name] = present.has(field) ? valueOf(field, sizes) : fc.constant(defaults[field.name] as Value);
  }
  return fc.record(fields) as fc.Arbitrary<StructValue>;
}

function valueOf(field: FieldPlan, sizes: Sizes): fc.Arbitrary<Value> {
  const plain = plainOf(field, sizes);
  return field.nullable && sizes.full !== true ? fc.oneof({ weight: 3, arbitrary: plain }, fc.constant(null)) : plain;
}
function plainOf(field: FieldPlan, sizes: Sizes): fc.Arbitrary<Value> {
  const least = sizes.full === true ? 1 : 0;
  switch (field.op) {
    case Op.bool:
      return sizes.full === true ? fc.constant(true) : fc.boolean();
    case Op.int8:
      return fc.integer({ min: -128, max: 127 });
    case Op.int16:
      return fc.integer({ min: -0x8000, max: 0x7fff });
    case Op.uint16:
      return fc.integer({ min: 0, max: 0xffff });
    case Op.int32:
      return fc.integer();
    case Op.uint32:
      return fc.integer({ min: 0, max: 0xffff_ffff });
    case Op.int64:
      return fc.integer({ min: -INT64_MAX, max: INT64_MAX });
    case Op.float64:
      return fc.double({ noNaN: true });
    case Op.uuid:
      return UUID;
    case Op.string:
      return fc.string({ unit: "grapheme", minLength: least, maxLength: sizes.bytes });
    case Op.bytes:
      return fc.uint8Array({ minLength: least, maxLength: sizes.bytes });
    case Op.struct:
      return structOf(field.struct as StructPlan, sizes);
    case Op.array:
      return fc.array(valueOf(field.element as FieldPlan, sizes), { minLength: least, maxLength: sizes.elements });
  }
}
