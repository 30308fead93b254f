import { inRange, type FieldSchema, type MessageSchema, type StructSchema } from "./schema.ts";
import { ZERO_UUID } from "./uuid.ts";

/** How a field is written. A message at a version is a flat list of these: what the hot loops of `decode.ts` and `encode.ts` walk. */
export const Op = {
  bool: 0,
  int8: 1,
  int16: 2,
  uint16: 3,
  int32: 4,
  uint32: 5,
  int64: 6,
  float64: 7,
  uuid: 8,
  string: 9,
  bytes: 10,
  struct: 11,
  array: 12,
} as const;
export type OpCode = (typeof Op)[keyof typeof Op];

export type Value =
  | number
  | boolean
  | string
  | Uint8Array
  | null
  | readonly Value[]
  | readonly Uint8Array[]
  | { readonly [name: string]: Value };
export type StructValue = Record<string, Value>;

export interface FieldPlan {
  readonly name: string;
  readonly op: OpCode;
  /** Of an array: what its elements are. */
  readonly element: FieldPlan | undefined;
  /** Of a struct. */
  readonly struct: StructPlan | undefined;
  readonly nullable: boolean;
  /** Compact lengths. */
  readonly compact: boolean;
  /** -1 = not a tagged field. */
  readonly tag: number;
  /** Bytes that it takes at least. */
  readonly bytesMin: number;
  /** Undefined: a struct, whose default is made of its fields'. */
  readonly default: Value | undefined;
}
export interface StructPlan {
  readonly name: string;
  /** All fields of the schema in its order; those that are not in the version, or tagged, get their defaults first. */
  readonly all: readonly FieldPlan[];
  /** What is written, in order. */
  readonly fields: readonly FieldPlan[];
  readonly tagged: readonly FieldPlan[];
  /** Not in this version, and yet not to be lost: must have their defaults. */
  readonly forbidden: readonly FieldPlan[];
  readonly flexible: boolean;
  readonly bytesMin: number;
}

const EMPTY_BYTES = new Uint8Array(0);
const EMPTY_LIST: readonly Value[] = Object.freeze([]);
const BYTES: Readonly<Record<OpCode, number>> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 8, 7: 8, 8: 16, 9: 2, 10: 4, 11: 1, 12: 4 };

export const planMessage = (schema: MessageSchema, version: number): StructPlan =>
  planStruct(schema, version, inRange(schema.flexible, version));

function planStruct(schema: StructSchema, version: number, flexible: boolean): StructPlan {
  const all = schema.fields.map((field) => ({ field, plan: planField(field, version, flexible) }));
  const present = all.filter(({ field }) => inRange(field.versions, version));
  const fields = present.filter(({ plan }) => plan.tag < 0).map(({ plan }) => plan);
  const absent = all.filter((one) => !present.includes(one));
  return {
    name: schema.name,
    all: all.map(({ plan }) => plan),
    fields,
    tagged: present
      .filter(({ plan }) => plan.tag >= 0)
      .map(({ plan }) => plan)
      .sort((a, b) => a.tag - b.tag),
    forbidden: absent.filter(({ field }) => !field.optional).map(({ plan }) => plan),
    flexible,
    bytesMin: fields.reduce((sum, { bytesMin }) => sum + bytesMin, flexible ? 1 : 0),
  };
}

function planField(field: FieldSchema, version: number, flexible: boolean): FieldPlan {
  const struct = field.struct === undefined ? undefined : planStruct(field.struct, version, flexible);
  const nullable = inRange(field.nullable, version);
  const nullableElement = nullable && !field.array;
  const op = struct !== undefined ? Op.struct : field.type === "records" ? Op.bytes : Op[field.type as keyof typeof Op];
  const one: FieldPlan = {
    name: field.name,
    op,
    element: undefined,
    struct,
    nullable: nullableElement,
    compact: flexible,
    tag: inRange(field.tagged, version) ? field.tag : -1,
    bytesMin: bytesMin(op, struct, nullableElement, flexible),
    default: field.array || op === Op.struct ? undefined : defaultOf(field, op),
  };
  const isNull = field.default === "null";
  if (!field.array) return isNull ? { ...one, default: null } : one;
  return {
    ...one,
    op: Op.array,
    element: one,
    struct: undefined,
    nullable,
    bytesMin: flexible ? 1 : BYTES[Op.array],
    default: isNull ? null : EMPTY_LIST,
  };
}
function bytesMin(op: OpCode, struct: StructPlan | undefined, nullable: boolean, flexible: boolean): number {
  if (struct !== undefined) return nullable ? 1 : Math.max(1, struct.bytesMin);
  return flexible && (op === Op.string || op === Op.bytes) ? 1 : BYTES[op];
}

function defaultOf({ default: text, type }: FieldSchema, op: OpCode): Value {
  if (text === "null" || type === "records") return null;
  switch (op) {
    case Op.bool:
      return text === "true";
    case Op.string:
      return text ?? "";
    case Op.bytes:
      return EMPTY_BYTES;
    case Op.uuid:
      return ZERO_UUID;
    default:
      return text === undefined ? 0 : Number(text);
  }
}

/** A struct with nothing but defaults. */
export function defaultStruct(plan: StructPlan): StructValue {
  const out: StructValue = {};
  for (const field of plan.all) out[field.name] = defaultValue(field);
  return out;
}
export const defaultValue = (field: FieldPlan): Value =>
  field.default === undefined ? defaultStruct(field.struct as StructPlan) : field.default;

/** A tagged field is left out, and a field may be dropped, when its value says nothing. Undefined counts as the default. */
export function isDefault(field: FieldPlan, value: Value | undefined): boolean {
  if (value === undefined || value === field.default) return true;
  if (value === null || field.default === null) return false;
  switch (field.op) {
    case Op.array:
      return (value as readonly Value[]).length === 0;
    case Op.bytes:
      return (value as Uint8Array).length === 0;
    case Op.struct:
      return (field.struct as StructPlan).all.every((inner) => isDefault(inner, (value as StructValue)[inner.name]));
    default:
      return false;
  }
}
