import { WireError } from "./error.ts";
import { defaultStruct, isDefault, Op, type FieldPlan, type StructPlan, type StructValue, type Value } from "./plan.ts";
import { Writer } from "./writer.ts";

/** One struct; fields that are missing in `value` have their defaults. Throws WireError NOT_IN_VERSION, TOO_LARGE. */
export function encodeStruct(writer: Writer, plan: StructPlan, value: StructValue): void {
  for (const field of plan.forbidden) {
    if (!isDefault(field, value[field.name]))
      throw new WireError("NOT_IN_VERSION", `this version of ${plan.name} cannot carry ${field.name}`);
  }
  for (const field of plan.fields) encodeField(writer, field, value[field.name]);
  if (plan.flexible) encodeTagged(writer, plan.tagged, value);
}

function encodeField(writer: Writer, field: FieldPlan, given: Value | undefined): void {
  const value = given === undefined ? field.default : given;
  if (value === null && !field.nullable) throw new TypeError(`field ${field.name} may not be null`);
  switch (field.op) {
    case Op.bool:
      return writer.int8(value === true ? 1 : 0);
    case Op.int8:
      return writer.int8(value as number);
    case Op.int16:
    case Op.uint16:
      return writer.int16(value as number);
    case Op.int32:
    case Op.uint32:
      return writer.int32(value as number);
    case Op.int64:
      return writer.int64(value as number);
    case Op.float64:
      return writer.float64(value as number);
    case Op.uuid:
      return writer.uuid(value as string);
    case Op.string:
      return writer.string(value as string | null, field.compact);
    case Op.bytes:
      return writer.byteField(value as Uint8Array | readonly Uint8Array[] | null, field.compact);
    case Op.struct:
      if (field.nullable) writer.int8(value === null ? -1 : 1);
      if (value === null) return undefined;
      return encodeStruct(writer, field.struct as StructPlan, (value ?? defaultStruct(field.struct as StructPlan)) as StructValue);
    case Op.array:
      return encodeArray(writer, field, value as readonly Value[] | null);
  }
}

function encodeArray(writer: Writer, field: FieldPlan, value: readonly Value[] | null): void {
  if (value === null) return writer.arrayLength(-1, field.compact);
  writer.arrayLength(value.length, field.compact);
  for (const one of value) encodeField(writer, field.element as FieldPlan, one);
}

/** Only what is not the default, each with its length: written apart first, since tagged fields are rare and short. */
function encodeTagged(writer: Writer, fields: readonly FieldPlan[], value: StructValue): void {
  let count = 0;
  for (const field of fields) if (!isDefault(field, value[field.name])) count += 1;
  writer.uvarint(count);
  if (count === 0) return;
  for (const field of fields) {
    if (isDefault(field, value[field.name])) continue;
    const part = new Writer();
    encodeField(part, field, value[field.name]);
    writer.uvarint(field.tag);
    writer.uvarint(part.length);
    writer.raw(part.toBytes());
  }
}
