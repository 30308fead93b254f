import { isAbsolute, join, resolve } from "node:path";
import { defaultCounts, type ClusterOptions } from "./spec.ts";

/** What was asked for; what is left out is as the folder holds it, or the default of a new cluster. */
export interface GivenOptions extends Partial<Omit<ClusterOptions, "objectStore">> {
  /** A folder, an s3 URL, or `none`; default a folder within the cluster's. */
  readonly objectStore?: string | undefined;
}
/** A flag that says something else than the folder holds. */
export interface Contradiction {
  readonly flag: string;
  readonly given: string;
  readonly held: string;
}

const counts = Object.keys(defaultCounts) as (keyof typeof defaultCounts)[];
/** Segments stay on the storage nodes. */
const NO_OBJECT_STORE = "none";

const storeOf = (text: string): string =>
  /^[A-Za-z][A-Za-z0-9+.-]*:/.test(text) || isAbsolute(text) || text === NO_OBJECT_STORE ? text : resolve(text);

/** The options of a new cluster in `dir`. */
export function fillIn(dir: string, given: GivenOptions): ClusterOptions {
  const { objectStore } = given;
  const filled = Object.fromEntries(counts.map((name) => [name, given[name] ?? defaultCounts[name]])) as typeof defaultCounts;
  return {
    ...filled,
    objectStore: objectStore === undefined ? join(dir, "data", "objects") : storeOf(objectStore),
    portBase: given.portBase,
    config: given.config ?? {},
  };
}

/** The first of the given options that the cluster of a folder was not made with. `cluster.secret` is not among its options. */
export function contradiction(given: GivenOptions, held: ClusterOptions): Contradiction | undefined {
  const asked: readonly (readonly [flag: string, given: number | string | undefined, held: number | string | undefined])[] = [
    ...counts.map((name) => [`--${name}`, given[name], held[name]] as const),
    ["--object-store", given.objectStore === undefined ? undefined : storeOf(given.objectStore), held.objectStore],
    ["--port-base", given.portBase, held.portBase ?? "any free ports"],
    ...Object.entries(given.config ?? {}).map(([key, value]) => [`--config ${key}`, value, held.config[key] ?? "its default"] as const),
  ];
  const other = asked.find(([, is, was]) => is !== undefined && is !== was);
  return other && { flag: other[0], given: String(other[1]), held: String(other[2]) };
}
