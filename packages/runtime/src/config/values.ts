import type { KeySpec } from "./spec.ts";

const TEXT_CHARS_MAX = 4_096;
const LIST_ENTRIES_MAX = 1_000;
const BYTE_UNITS: Readonly<Record<string, number>> = { "": 1, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };
const TIME_UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A value that does not fit; `loadConfig` adds key, source and value. */
export class ValueError extends Error {}

/** `host:port`, `[v6]:port`, `:port`. The host is "0.0.0.0" when it is left out. */
export function parseHostPort(text: string): { readonly host: string; readonly port: number } {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]*)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) throw new ValueError("host:port with a port of 0 to 65535");
  return { host: match[1] ?? (match[2] === "" ? "0.0.0.0" : match[2]!), port };
}
export const formatHostPort = (host: string, port: number): string => (host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`);

function withUnit(text: string, units: Readonly<Record<string, number>>): number {
  const match = /^(-?\d+(?:\.\d+)?)([A-Za-z]*)$/.exec(text.trim());
  const unit = match === null ? undefined : units[match[2]!];
  const value = unit === undefined ? Number.NaN : Number(match![1]) * unit;
  return Number.isSafeInteger(value) ? value : Number.NaN;
}
function numberOf(spec: KeySpec & { type: "int" | "bytes" | "duration" }, raw: unknown): number {
  const text = typeof raw === "number" ? String(raw) : raw;
  if (typeof text !== "string") return Number.NaN;
  if (spec.type === "int") return /^-?\d+$/.test(text.trim()) && Number.isSafeInteger(Number(text)) ? Number(text) : Number.NaN;
  if (spec.type === "bytes") return withUnit(text, BYTE_UNITS);
  // A bare 0 needs no unit; anything else does, because nobody remembers which one was meant.
  return text.trim() === "0" ? 0 : withUnit(text, TIME_UNITS);
}

/** What a key takes, in words, for messages and for the reference page. */
export function describeValue(spec: KeySpec): string {
  const bounds = "min" in spec || "max" in spec ? (spec as { min?: number; max?: number }) : {};
  const range = [
    bounds.min === undefined ? "" : `at least ${formatValue(spec, bounds.min)}`,
    bounds.max === undefined ? "" : `at most ${formatValue(spec, bounds.max)}`,
  ]
    .filter((part) => part !== "")
    .join(", ");
  const kind = {
    int: "an integer",
    bytes: "a size such as 64KiB or 1MiB",
    duration: "a time such as 100ms, 5s or 10m",
    bool: "true or false",
    enum: spec.type === "enum" ? `one of ${spec.values.join(", ")}` : "",
    string: "text",
    hostport: "host:port with a port of 0 to 65535",
    path: "a path",
    list: "a comma-separated list (an array in a file)",
  }[spec.type];
  return range === "" || spec.type === "string" || spec.type === "path" ? kind : `${kind}, ${range}`;
}

/** A number of a spec as a user would write it. */
export function formatValue(spec: KeySpec, value: unknown): string {
  if (typeof value === "number" && (spec.type === "bytes" || spec.type === "duration") && value !== 0) {
    const units = Object.entries(spec.type === "bytes" ? BYTE_UNITS : TIME_UNITS).toReversed();
    const unit = units.find(([name, size]) => name !== "" && value % size === 0);
    if (unit !== undefined) return `${value / unit[1]}${unit[0]}`;
  }
  return Array.isArray(value) ? value.join(",") : String(value);
}

function textOf(spec: KeySpec, raw: unknown): string {
  if (typeof raw !== "string") throw new ValueError(describeValue(spec));
  const charsMax = (spec as { max?: number }).max ?? TEXT_CHARS_MAX;
  if (raw.length > charsMax) throw new ValueError(`${describeValue(spec)} of at most ${charsMax} characters`);
  if (spec.type === "path" && raw === "") throw new ValueError("a path");
  if (spec.type === "hostport") parseHostPort(raw);
  if (spec.type === "enum" && !spec.values.includes(raw)) throw new ValueError(describeValue(spec));
  return raw;
}
function listOf(spec: KeySpec & { type: "list" }, raw: unknown): readonly string[] {
  const items: unknown =
    typeof raw === "string"
      ? raw
          .split(",")
          .map((s) => s.trim())
          .filter((s) => s !== "")
      : raw;
  if (!Array.isArray(items) || !items.every((s) => typeof s === "string")) throw new ValueError(describeValue(spec));
  if (items.length < (spec.min ?? 0) || items.length > (spec.max ?? LIST_ENTRIES_MAX)) throw new ValueError(describeValue(spec));
  return items as string[];
}
/** Turns a text (flag, environment) or a JSON value (file, default) into the value of the spec; throws ValueError. */
export function parseValue(spec: KeySpec, raw: unknown): number | boolean | string | readonly string[] {
  switch (spec.type) {
    case "int":
    case "bytes":
    case "duration": {
      const value = numberOf(spec, raw);
      if (!(value >= (spec.min ?? 0)) || !(value <= (spec.max ?? Number.MAX_SAFE_INTEGER))) throw new ValueError(describeValue(spec));
      return value;
    }
    case "bool":
      if (raw === true || raw === "true" || raw === "1") return true;
      if (raw === false || raw === "false" || raw === "0") return false;
      throw new ValueError(describeValue(spec));
    case "list":
      return listOf(spec, raw);
    default:
      return textOf(spec, raw);
  }
}
