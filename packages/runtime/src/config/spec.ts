import { SluiceError } from "@sluice/core/model";

interface Common {
  /** One sentence for the reference page. */
  readonly doc: string;
  /** No default, and refusing to start without it. */
  readonly required?: boolean;
  /**
   * The value is never printed. `file:PATH` reads it from a file (a mounted secret), from any source; a literal is refused on the
   * command line, where every user of the machine could read it.
   */
  readonly secret?: boolean;
  /** A name of the environment that programs of many makers share; read when the own name is not given, and ignored when it is empty. */
  readonly sharedEnvironment?: string;
}
interface NumberSpec extends Common {
  /** int: digits. bytes: digits with B, KiB, MiB, GiB, TiB. duration: digits with ms, s, m, h, d; the value is in milliseconds. */
  readonly type: "int" | "bytes" | "duration";
  readonly default?: number | string;
  readonly min?: number;
  readonly max?: number;
}
interface BoolSpec extends Common {
  readonly type: "bool";
  readonly default?: boolean;
}
interface EnumSpec extends Common {
  readonly type: "enum";
  readonly values: readonly string[];
  readonly default?: string;
}
interface TextSpec extends Common {
  /** hostport: `host:port`, `[v6]:port` or `:port` (all addresses). path: as given, `~` is not expanded. */
  readonly type: "string" | "hostport" | "path";
  readonly default?: string;
  /** Characters; default 4,096. */
  readonly max?: number;
}
interface ListSpec extends Common {
  /** Comma-separated in flags and environment, an array of strings in a file. */
  readonly type: "list";
  readonly default?: readonly string[];
  /** Entries. */
  readonly min?: number;
  readonly max?: number;
}
export type KeySpec = NumberSpec | BoolSpec | EnumSpec | TextSpec | ListSpec;
export type ConfigSpec = Readonly<Record<string, KeySpec>>;

type Plain<K extends KeySpec> = K extends { readonly type: "int" | "bytes" | "duration" }
  ? number
  : K extends { readonly type: "bool" }
    ? boolean
    : K extends { readonly type: "enum"; readonly values: readonly (infer V)[] }
      ? V
      : K extends { readonly type: "list" }
        ? readonly string[]
        : string;
type HasValue<K extends KeySpec> = K extends { readonly default: unknown } ? true : K extends { readonly required: true } ? true : false;
/** The typed result: one property per dotted key; `undefined` is possible only without a default and without `required`. */
export type ConfigOf<D extends ConfigSpec> = {
  readonly [K in keyof D]: HasValue<D[K]> extends true ? Plain<D[K]> : Plain<D[K]> | undefined;
};

export interface ConfigDef<D extends ConfigSpec = ConfigSpec> {
  readonly spec: D;
}

const KEY = /^[a-z][A-Za-z0-9]*(\.[a-z][A-Za-z0-9]*)*$/;

/** `listener.grpc.bind` is SLUICE_LISTENER_GRPC_BIND, `cache.tailBytes` is SLUICE_CACHE_TAIL_BYTES. */
export const environmentName = (key: string): string =>
  `SLUICE_${key
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replaceAll(".", "_")
    .toUpperCase()}`;

/** Declares the keys of a program. Throws when two keys share an environment name or a key is misspelt: a fault of the program. */
export function defineConfig<const D extends ConfigSpec>(spec: D): ConfigDef<D> {
  const seen = new Map<string, string>();
  for (const key of Object.keys(spec)) {
    if (!KEY.test(key)) throw new SluiceError("INVALID_CONFIG", `key ${key}: dotted camelCase words`);
    const name = environmentName(key);
    const other = seen.get(name);
    if (other !== undefined) throw new SluiceError("INVALID_CONFIG", `keys ${other} and ${key} share the environment name ${name}`);
    seen.set(name, key);
  }
  return { spec };
}

/** Joins definitions, for a program that runs several services; equal keys must be declared once and imported. */
export function mergeConfig<A extends ConfigSpec, B extends ConfigSpec>(a: ConfigDef<A>, b: ConfigDef<B>): ConfigDef<A & B> {
  for (const key of Object.keys(b.spec)) {
    if (key in a.spec && a.spec[key] !== b.spec[key]) throw new SluiceError("INVALID_CONFIG", `key ${key} is declared twice`);
  }
  return defineConfig({ ...a.spec, ...b.spec });
}
