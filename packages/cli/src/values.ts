import { UsageError } from "./exit.ts";

const UNITS: Readonly<Record<string, number>> = { "": 1, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
const shown = (text: string): string => JSON.stringify(text.slice(0, 80));

/** A whole number within bounds, both included. */
export const wholeNumber =
  (flag: string, min: number, max: number) =>
  (text: string): number => {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= min) || !(value <= max)) throw new UsageError(`${flag} is ${shown(text)}; it takes a whole number of ${min} to ${max}`);
    return value;
  };
export const notEmpty =
  (flag: string) =>
  (text: string): string => {
    if (text === "") throw new UsageError(`${flag} is empty`);
    return text;
  };
/** A size in bytes: digits, or with B, KiB, MiB, GiB. */
export const byteSize =
  (flag: string, min: number, max: number) =>
  (text: string): number => {
    const match = /^(\d{1,16})(|B|KiB|MiB|GiB)$/.exec(text);
    const value = match === null ? Number.NaN : Number(match[1]) * UNITS[match[2]!]!;
    if (!(value >= min) || !(value <= max))
      throw new UsageError(`${flag} is ${shown(text)}; it takes a size of ${min} to ${max} bytes, such as 1024 or 1KiB`);
    return value;
  };
/** `k=v`, collected over all uses of the flag. The name ends at the first "=". */
export const pair =
  (flag: string) =>
  (text: string, before: readonly (readonly [string, string])[] = []): readonly (readonly [string, string])[] => {
    const at = text.indexOf("=");
    if (at < 1) throw new UsageError(`${flag} is ${shown(text)}; it takes name=value`);
    return [...before, [text.slice(0, at), text.slice(at + 1)]];
  };
/** Pairs as an object; a name that comes twice is refused, because one of the two would be lost. */
export function uniquePairs(flag: string, pairs: readonly (readonly [string, string])[]): Record<string, string> {
  const out: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const [name, value] of pairs) {
    if (name in out) throw new UsageError(`${flag} ${name} is given twice`);
    out[name] = value;
  }
  return { ...out };
}
/** `HOST:PORT[,HOST:PORT]`. */
export function endpointList(text: string): string[] {
  const endpoints = text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  const bad = endpoints.find(
    (endpoint) => !/^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}$/.test(endpoint) || Number(/\d+$/.exec(endpoint)![0]) > 65_535,
  );
  const scheme = /^[a-z][a-z0-9+]*:\/\//i.exec(bad ?? "")?.[0];
  if (scheme !== undefined) throw new UsageError(`the endpoint is ${shown(bad!)}; it takes HOST:PORT[,HOST:PORT], without ${scheme}`);
  if (endpoints.length === 0 || bad !== undefined)
    throw new UsageError(`the endpoint is ${shown(bad ?? text)}; it takes HOST:PORT[,HOST:PORT]`);
  return endpoints;
}
