/**
 * The table of message schemas, as text that a person can read and a diff can show:
 *
 *   ProduceRequest 3-12 flexible=9          message, its versions, first flexible version
 *    acks int16                             field of all versions
 *    topicData []TopicProduceData           array of structs
 *     name string                           field of the struct: one space deeper
 *     records records null=0+               may be null from version 0 on
 *    clusterId string 12+ null=12+ default=null tagged=12+ tag=0 optional
 *
 * A range `a-b` or `a+` before the attributes: only in these versions. `optional`: may be left out of versions that cannot carry it,
 * whatever its value; other fields must have their default there.
 */
export interface VersionRange {
  readonly from: number;
  readonly to: number;
}
export interface FieldSchema {
  readonly name: string;
  /** A primitive, or the name of `struct`. */
  readonly type: string;
  readonly array: boolean;
  readonly struct: StructSchema | undefined;
  readonly versions: VersionRange;
  readonly nullable: VersionRange;
  readonly tagged: VersionRange;
  readonly tag: number;
  /** As written; undefined: the type's own. */
  readonly default: string | undefined;
  readonly optional: boolean;
}
export interface StructSchema {
  readonly name: string;
  readonly fields: readonly FieldSchema[];
}
export interface MessageSchema extends StructSchema {
  readonly versions: VersionRange;
  readonly flexible: VersionRange;
}

export const primitives = ["bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "string", "uuid", "bytes", "records"];
const NEVER: VersionRange = { from: 0x7fff, to: -1 };
const RANGE = /^(\d+)(?:(\+)|-(\d+))?$/;

export const inRange = (range: VersionRange, version: number): boolean => version >= range.from && version <= range.to;

function parseRange(text: string): VersionRange {
  const [, from, open, to] = RANGE.exec(text) ?? [];
  if (from === undefined) throw new Error(`no range of versions: ${text}`);
  return { from: Number(from), to: open === undefined ? Number(to ?? from) : 0x7fff };
}

/** Throws what no line of the table can be: the table is ours. */
export function parseSchemas(table: string): Map<string, MessageSchema> {
  const messages = new Map<string, MessageSchema>();
  const lines = table.split("\n").filter((line) => line !== "");
  for (let at = 0; at < lines.length;) {
    const [name, versions, flexible] = (lines[at] as string).split(" ") as [string, string, string | undefined];
    const body = parseFields(lines, at + 1, 1);
    messages.set(name, {
      name,
      versions: parseRange(versions),
      flexible: flexible === undefined ? NEVER : { from: Number(flexible.slice("flexible=".length)), to: 0x7fff },
      fields: body.fields,
    });
    at = body.next;
  }
  return messages;
}

function parseFields(lines: readonly string[], from: number, depth: number): { fields: FieldSchema[]; next: number } {
  const fields: FieldSchema[] = [];
  let at = from;
  while (at < lines.length && depthOf(lines[at] as string) === depth) {
    const words = (lines[at] as string).trim().split(" ");
    const inner = parseFields(lines, at + 1, depth + 1);
    fields.push(parseField(words, inner.fields));
    at = inner.next;
  }
  return { fields, next: at };
}
const depthOf = (line: string): number => line.length - line.trimStart().length;

function parseField(words: readonly string[], inner: readonly FieldSchema[]): FieldSchema {
  const [name, fullType, ...rest] = words as [string, string, ...string[]];
  const array = fullType.startsWith("[]");
  const type = array ? fullType.slice(2) : fullType;
  const attribute = (key: string): string | undefined => rest.find((word) => word.startsWith(`${key}=`))?.slice(key.length + 1);
  const range = rest[0] !== undefined && RANGE.test(rest[0]) ? parseRange(rest[0]) : { from: 0, to: 0x7fff };
  const nullable = attribute("null");
  const tagged = attribute("tagged");
  return {
    name,
    type,
    array,
    struct: primitives.includes(type) ? undefined : { name: type, fields: inner },
    versions: range,
    nullable: nullable === undefined ? NEVER : parseRange(nullable),
    tagged: tagged === undefined ? NEVER : parseRange(tagged),
    tag: Number(attribute("tag") ?? -1),
    default: attribute("default"),
    optional: rest.includes("optional"),
  };
}
