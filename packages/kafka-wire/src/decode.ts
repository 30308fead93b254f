import { WireError } from "./error.ts";
import { defaultStruct, Op, type FieldPlan, type StructPlan, type StructValue, type Value } from "./plan.ts";
import type { Reader } from "./reader.ts";

/**
 * One struct. All fields of the schema are set, in its order, whatever the version: those that it lacks have their defaults.
 * Throws WireError MALFORMED, TOO_LARGE.
 */
export function decodeStruct(reader: Reader, plan: StructPlan): StructValue {
  // Equal shapes for all versions: the defaults first, when there is any field that may not come.
  const out: StructValue = plan.fields.length === plan.all.length ? {} : defaultStruct(plan);
  for (const field of plan.fields) out[field.name] = decodeField(reader, field);
  if (plan.flexible) decodeTagged(reader, plan, out);
  return out;
}

function decodeField(reader: Reader, field: FieldPlan): Value {
  switch (field.op) {
    case Op.bool:
      return reader.int8() !== 0;
    case Op.int8:
      return reader.int8();
    case Op.int16:
      return reader.int16();
    case Op.uint16:
      return reader.uint16();
    case Op.int32:
      return reader.int32();
    case Op.uint32:
      return reader.uint32();
    case Op.int64:
      return reader.int64();
    case Op.float64:
      return reader.float64();
    case Op.uuid:
      return reader.uuid();
    case Op.string: {
      const length = reader.stringLength(field.compact);
      return length < 0 ? nullOf(field) : reader.text(length);
    }
    case Op.bytes: {
      const length = reader.bytesLength(field.compact);
      return length < 0 ? nullOf(field) : reader.slice(length);
    }
    case Op.struct:
      return field.nullable && reader.int8() < 0 ? null : decodeStruct(reader, field.struct as StructPlan);
    case Op.array:
      return decodeArray(reader, field);
  }
}

function decodeArray(reader: Reader, field: FieldPlan): Value {
  const element = field.element as FieldPlan;
  const count = reader.arrayLength(field.compact, element.bytesMin);
  if (count < 0) return nullOf(field);
  const out: Value[] = [];
  for (let i = 0; i < count; i += 1) out.push(decodeField(reader, element));
  return out;
}

/** Tags that the schema does not have are skipped: they are from a newer minor change of the message. */
function decodeTagged(reader: Reader, plan: StructPlan, out: StructValue): void {
  const count = reader.uvarint();
  let before = -1;
  for (let i = 0; i < count; i += 1) {
    const tag = reader.uvarint();
    const length = reader.uvarint();
    if (length > reader.left) throw new WireError("MALFORMED", `tag ${tag} of ${length} bytes with ${reader.left} left`);
    if (tag <= before) throw new WireError("MALFORMED", "tagged fields out of order");
    before = tag;
    const field = plan.tagged.find((known) => known.tag === tag);
    if (field === undefined) {
      reader.skip(length);
      continue;
    }
    const end = reader.at + length;
    out[field.name] = decodeField(reader, field);
    if (reader.at !== end) throw new WireError("MALFORMED", `tagged field ${field.name} is not ${length} bytes long`);
  }
}

function nullOf(field: FieldPlan): null {
  if (!field.nullable) throw new WireError("MALFORMED", `field ${field.name} may not be null`);
  return null;
}
