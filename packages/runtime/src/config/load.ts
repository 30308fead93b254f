import { SluiceError } from "@sluice/core/model";
import { readFileSync } from "node:fs";
import { type ConfigDef, type ConfigOf, type ConfigSpec, environmentName, type KeySpec } from "./spec.ts";
import { describeValue, formatValue, parseValue } from "./values.ts";

const FILE_BYTES_MAX = 1 << 20;
const SECRET_BYTES_MAX = 64 << 10;

/** Names of the environment that begin with SLUICE_ and are no key: the configuration file, and the client's endpoint. */
export const globalEnvironment: readonly string[] = ["SLUICE_CONFIG", "SLUICE_ENDPOINT"];

export interface ConfigSources {
  /** After the program's name: `--key value`, `--key=value`, `--flag` for a bool, `--no-flag`, and `--config FILE`. */
  readonly argv?: readonly string[];
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** A parsed file; otherwise `--config` or SLUICE_CONFIG names a JSON file (nested objects or dotted keys). */
  readonly file?: Readonly<Record<string, unknown>>;
  /** Keys of other programs that share this environment (a standalone's other services): known, not read. */
  readonly alsoKnown?: readonly ConfigDef[];
  readonly readFile?: (path: string) => string;
}
type Source = { readonly kind: "flag" | "environment" | "file"; readonly name: string };
interface Given {
  readonly raw: unknown;
  readonly source: Source;
}

const refuse = (message: string, cause?: unknown): SluiceError =>
  new SluiceError("INVALID_CONFIG", message, cause === undefined ? {} : { cause });

/**
 * Reads the configuration: flag over environment over file over default.
 * Throws INVALID_CONFIG on the first unknown key or unfit value, naming key, source, value (never a secret's) and what the key takes.
 */
export function loadConfig<D extends ConfigSpec>(def: ConfigDef<D>, sources: ConfigSources = {}): ConfigOf<D> {
  const readFile = sources.readFile ?? readText;
  const flags = readFlags(def.spec, sources.argv ?? []);
  const env = sources.env ?? {};
  const path = flags.file ?? env["SLUICE_CONFIG"];
  const file = sources.file ?? (path === undefined || path === "" ? {} : readJson(path, readFile));
  const given = new Map<string, Given>();
  fromFile(def.spec, file, path ?? "file", given);
  fromEnvironment(def.spec, env, sources.alsoKnown ?? [], given);
  for (const [key, value] of flags.values) given.set(key, value);
  const out: Record<string, unknown> = {};
  for (const [key, spec] of Object.entries(def.spec)) out[key] = valueOf(key, spec, given.get(key), readFile);
  return Object.freeze(out) as ConfigOf<D>;
}

function valueOf(key: string, spec: KeySpec, given: Given | undefined, readFile: (path: string) => string): unknown {
  if (given === undefined) {
    // A number in the program is in bytes or milliseconds; from a user it needs its unit.
    if (typeof spec.default === "number") return parseValue(spec, formatValue(spec, spec.default));
    if (spec.default !== undefined) return parseValue(spec, spec.default);
    if (spec.required === true) throw refuse(`${key} is required: ${describeValue(spec)} (--${key}, ${environmentName(key)} or file)`);
    return undefined;
  }
  let raw = given.raw;
  if (spec.secret === true) {
    if (typeof raw === "string" && raw.startsWith("file:")) raw = readSecret(key, raw.slice(5), readFile);
    else if (given.source.kind === "flag") throw refuse(`${key} is a secret: on the command line it takes file:PATH only`);
  }
  try {
    return parseValue(spec, raw);
  } catch {
    const shown = spec.secret === true ? "(secret)" : JSON.stringify(given.raw);
    throw refuse(`${key} (${given.source.kind} ${given.source.name}) is ${shown}; it takes ${describeValue(spec)}`);
  }
}
function readSecret(key: string, path: string, readFile: (path: string) => string): string {
  let text: string;
  try {
    text = readFile(path);
  } catch (cause) {
    throw refuse(`${key}: the secret's file ${path} cannot be read`, cause);
  }
  if (text.length > SECRET_BYTES_MAX) throw refuse(`${key}: the secret's file ${path} is over ${SECRET_BYTES_MAX} bytes`);
  return text.trimEnd();
}
function readText(path: string): string {
  return readFileSync(path, "utf8");
}

function readFlags(spec: ConfigSpec, argv: readonly string[]): { values: Map<string, Given>; file: string | undefined } {
  const values = new Map<string, Given>();
  let file: string | undefined;
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i]!;
    if (!arg.startsWith("--")) throw refuse(`argument ${JSON.stringify(arg)} is unknown; flags are --key value`);
    const eq = arg.indexOf("=");
    const name = arg.slice(2, eq < 0 ? undefined : eq);
    const negated = name.startsWith("no-") && spec[name.slice(3)]?.type === "bool";
    const key = negated ? name.slice(3) : name;
    const known = Object.hasOwn(spec, key) ? spec[key] : undefined;
    if (known === undefined && key !== "config") throw refuse(`flag --${name} is unknown${suggestion(key, Object.keys(spec))}`);
    let raw: string;
    if (eq >= 0) raw = arg.slice(eq + 1);
    else if (negated) raw = "false";
    else if (known?.type === "bool" && !["true", "false", "0", "1"].includes(argv[i + 1] ?? "")) raw = "true";
    else if (i + 1 < argv.length) raw = argv[++i]!;
    else throw refuse(`flag --${name} needs a value${known === undefined ? "" : `: ${describeValue(known)}`}`);
    if (known === undefined) file = raw;
    else values.set(key, { raw, source: { kind: "flag", name: `--${key}` } });
  }
  return { values, file };
}

function fromEnvironment(
  spec: ConfigSpec,
  env: Readonly<Record<string, string | undefined>>,
  alsoKnown: readonly ConfigDef[],
  given: Map<string, Given>,
): void {
  const keys = new Map(Object.keys(spec).map((key) => [environmentName(key), key]));
  for (const [key, { sharedEnvironment: name }] of Object.entries(spec)) {
    const raw = name === undefined ? undefined : env[name];
    if (name !== undefined && raw !== undefined && raw !== "") given.set(key, { raw, source: { kind: "environment", name } });
  }
  const others = new Set(alsoKnown.flatMap((def) => Object.keys(def.spec).map(environmentName)));
  for (const [name, raw] of Object.entries(env)) {
    if (!name.startsWith("SLUICE_") || raw === undefined || globalEnvironment.includes(name)) continue;
    const key = keys.get(name);
    if (key !== undefined) given.set(key, { raw, source: { kind: "environment", name } });
    else if (!others.has(name)) throw refuse(`environment variable ${name} is unknown${suggestion(name, [...keys.keys()])}`);
  }
}

function readJson(path: string, readFile: (path: string) => string): Readonly<Record<string, unknown>> {
  let parsed: unknown;
  try {
    const text = readFile(path);
    if (text.length > FILE_BYTES_MAX) throw new Error(`over ${FILE_BYTES_MAX} bytes`);
    parsed = JSON.parse(text);
  } catch (cause) {
    const reason = typeof cause === "object" && cause !== null && "message" in cause ? String(cause.message) : String(cause);
    throw refuse(`the configuration file ${path} cannot be read: ${reason}`, cause);
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) {
    throw refuse(`the configuration file ${path} must hold one JSON object`);
  }
  return parsed as Record<string, unknown>;
}
/** Nested objects and dotted keys mean the same: {"listener": {"grpc.bind": x}} is listener.grpc.bind. */
function fromFile(spec: ConfigSpec, file: Readonly<Record<string, unknown>>, path: string, given: Map<string, Given>): void {
  const pending: [string, Readonly<Record<string, unknown>>][] = [["", file]];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    for (const [name, raw] of Object.entries(next[1])) {
      const key = next[0] === "" ? name : `${next[0]}.${name}`;
      if (Object.hasOwn(spec, key)) {
        if (given.has(key)) throw refuse(`key ${key} is given twice in ${path}`);
        given.set(key, { raw, source: { kind: "file", name: path } });
      } else if (typeof raw === "object" && raw !== null && !Array.isArray(raw)) pending.push([key, raw as Record<string, unknown>]);
      else throw refuse(`key ${key} in ${path} is unknown${suggestion(key, Object.keys(spec))}`);
    }
  }
}

/** The nearest known name, when it is near: most unknown keys are slips of the finger. */
function suggestion(name: string, known: readonly string[]): string {
  let best: string | undefined;
  let least = Math.max(2, Math.floor(name.length / 5)) + 1;
  for (const candidate of known) {
    const d = distance(name, candidate, least);
    if (d < least) [best, least] = [candidate, d];
  }
  return best === undefined ? "" : `; did you mean ${best}?`;
}
function distance(a: string, b: string, stop: number): number {
  if (Math.abs(a.length - b.length) >= stop || a.length > 200) return stop;
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}

/** The configuration for a log line or a status page: secrets are replaced. */
export function printableConfig<D extends ConfigSpec>(def: ConfigDef<D>, config: ConfigOf<D>): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [key, spec] of Object.entries(def.spec)) {
    const value: unknown = config[key];
    if (value !== undefined) out[key] = spec.secret === true ? "(secret)" : formatValue(spec, value);
  }
  return out;
}
