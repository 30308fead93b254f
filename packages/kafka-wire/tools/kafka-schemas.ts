/**
 * From Kafka's message schemas (JSON with comments) to the table of `src/schema.ts`: only the messages and versions of `src/apis.ts`, and of
 * those only what an encoding needs.
 */
export interface KafkaField {
  readonly name: string;
  readonly type: string;
  readonly versions: string;
  readonly nullableVersions?: string;
  readonly taggedVersions?: string;
  readonly tag?: number;
  readonly flexibleVersions?: string;
  readonly default?: string | number | boolean;
  readonly ignorable?: boolean;
  readonly fields?: readonly KafkaField[];
}
export interface KafkaMessage {
  readonly name: string;
  readonly type: "request" | "response" | "data" | "header";
  readonly apiKey?: number;
  readonly validVersions: string;
  readonly flexibleVersions?: string;
  readonly fields: readonly KafkaField[];
  readonly commonStructs?: readonly { readonly name: string; readonly versions: string; readonly fields: readonly KafkaField[] }[];
}
export interface Range {
  readonly from: number;
  readonly to: number;
}
const OPEN = 0x7fff;
const NEVER: Range = { from: OPEN, to: -1 };

export const parseKafkaJson = (text: string): KafkaMessage =>
  JSON.parse(
    text
      .split("\n")
      .filter((line) => !line.trimStart().startsWith("//"))
      .join("\n"),
  ) as KafkaMessage;

export function rangeOf(text: string | undefined): Range {
  if (text === undefined || text === "none") return NEVER;
  const [, from, open, to] = /^(\d+)(?:(\+)|-(\d+))?$/.exec(text) ?? [];
  if (from === undefined) throw new Error(`no range: ${text}`);
  return { from: Number(from), to: open === "+" ? OPEN : Number(to ?? from) };
}
const within = (a: Range, b: Range): Range => ({ from: Math.max(a.from, b.from), to: Math.min(a.to, b.to) });
const isEmpty = (r: Range): boolean => r.from > r.to;
const textOf = (r: Range): string => (r.to === OPEN ? `${r.from}+` : r.from === r.to ? `${r.from}` : `${r.from}-${r.to}`);
const isPrimitive = (type: string): boolean => /^(bool|u?int(8|16|32|64)|float64|string|uuid|bytes|records)$/.test(type);
/** As Kafka's own generator names fields. */
export const camel = (name: string): string => name.charAt(0).toLowerCase() + name.slice(1);

/** A message as it is served. Its fields, nested, with their ranges cut to what is served. */
export interface ServedField {
  readonly name: string;
  readonly type: string;
  readonly array: boolean;
  readonly nullable: boolean;
  readonly attributes: readonly string[];
  readonly fields: readonly ServedField[];
}
export interface ServedMessage {
  readonly name: string;
  readonly heading: string;
  readonly fields: readonly ServedField[];
}

/** `served`: the versions that are wanted; throws when Kafka does not have them. */
export function serve(message: KafkaMessage, served: Range): ServedMessage {
  const valid = rangeOf(message.validVersions);
  if (served.from < valid.from || served.to > valid.to)
    throw new Error(`${message.name} has the versions ${message.validVersions}, not ${textOf(served)}`);
  const flexible = within(rangeOf(message.flexibleVersions), served);
  const heading = [message.name, textOf(served), ...(isEmpty(flexible) ? [] : [`flexible=${flexible.from}`])].join(" ");
  return { name: message.name, heading, fields: message.fields.flatMap((field) => serveField(message, field, served)) };
}

function serveField(message: KafkaMessage, field: KafkaField, served: Range): ServedField[] {
  const versions = within(rangeOf(field.versions), served);
  if (isEmpty(versions)) return [];
  if (field.flexibleVersions !== undefined) throw new Error(`${message.name}.${field.name} has flexible versions of its own`);
  const array = field.type.startsWith("[]");
  const type = array ? field.type.slice(2) : field.type;
  const nullable = within(rangeOf(field.nullableVersions), versions);
  const tagged = within(rangeOf(field.taggedVersions), versions);
  const isAlways = versions.from === served.from && versions.to === served.to;
  const attributes = [
    ...(isAlways ? [] : [textOf(versions)]),
    ...(isEmpty(nullable) ? [] : [`null=${textOf(nullable)}`]),
    ...(field.default === undefined || !says(field.default)
      ? []
      : [`default=${Number.isNaN(Number(field.default)) ? field.default : Number(field.default)}`]),
    ...(isEmpty(tagged) ? [] : [`tagged=${textOf(tagged)}`, `tag=${field.tag}`]),
    ...(field.ignorable === true && !isAlways ? ["optional"] : []),
  ];
  const inner = isPrimitive(type) ? [] : (field.fields ?? commonFields(message, type));
  return [
    {
      name: camel(field.name),
      type,
      array,
      nullable: !isEmpty(nullable) || field.default === "null" || (type === "records" && !isEmpty(nullable)),
      attributes,
      fields: inner.flatMap((one) => serveField(message, one, versions)),
    },
  ];
}
/** A default that differs from the type's own. */
const says = (value: string | number | boolean): boolean => !["", "0", "false"].includes(String(value));
function commonFields(message: KafkaMessage, type: string): readonly KafkaField[] {
  const found = message.commonStructs?.find(({ name }) => name === type);
  if (found === undefined) throw new Error(`${message.name} has no struct ${type}`);
  return found.fields;
}

/** Lines of the table. */
export function tableOf({ heading, fields }: ServedMessage): string[] {
  const lines = (all: readonly ServedField[], depth: number): string[] =>
    all.flatMap(({ name, type, array, attributes, fields: inner }) => [
      `${" ".repeat(depth)}${[name, `${array ? "[]" : ""}${type}`, ...attributes].join(" ")}`,
      ...lines(inner, depth + 1),
    ]);
  return [heading, ...lines(fields, 1)];
}
