import type { Position } from "@sluice/client";
import { UsageError } from "./exit.ts";

export type FromPosition =
  | { readonly at: "earliest" }
  | { readonly at: "latest" }
  | { readonly at: "offset"; readonly offset: number }
  | { readonly at: "time"; readonly timestampMs: number };
/** Where `consume` stops, always before the position: [from, until). "end" is the end of each partition when the command began. */
export type UntilPosition = Exclude<FromPosition, { readonly at: "earliest" } | { readonly at: "latest" }> | { readonly at: "end" };

export function parseFrom(text: string): FromPosition {
  if (text === "earliest" || text === "latest") return { at: text };
  return parseOffsetOrTime(text) ?? wrong("--from", text, "earliest, latest, an offset, or @TIME");
}
export function parseTo(text: string): FromPosition {
  if (text === "earliest" || text === "latest") return { at: text };
  return parseOffsetOrTime(text) ?? wrong("--to", text, "earliest, latest, an offset, or @TIME");
}
export const clientPosition = (from: FromPosition): Position => {
  switch (from.at) {
    case "offset":
      return { offset: from.offset };
    case "time":
      return { timestampMs: from.timestampMs };
    default:
      return from.at;
  }
};
/** As it is typed. */
export const positionText = (from: FromPosition): string =>
  from.at === "offset" ? String(from.offset) : from.at === "time" ? `@${from.timestampMs}` : from.at;
export function parseUntil(text: string): UntilPosition {
  if (text === "end") return { at: "end" };
  return parseOffsetOrTime(text) ?? wrong("--until", text, "end, an offset, or @TIME");
}

function parseOffsetOrTime(text: string) {
  if (/^\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text))) return { at: "offset", offset: Number(text) } as const;
  if (!text.startsWith("@")) return undefined;
  const time = text.slice(1);
  if (/^\d{1,16}$/.test(time)) return { at: "time", timestampMs: Number(time) } as const;
  // An ISO date, or date and time; without a zone it is UTC, so that a script means the same on every machine.
  const match = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)(Z|[+-]\d{2}:?\d{2})?)?$/.exec(time);
  if (match === null) return undefined;
  const timestampMs = Date.parse(`${match[1]}T${match[2] ?? "00:00"}${match[3] ?? "Z"}`);
  return Number.isNaN(timestampMs) || timestampMs < 0 ? undefined : ({ at: "time", timestampMs } as const);
}
function wrong(flag: string, text: string, takes: string): never {
  throw new UsageError(
    `${flag} is ${JSON.stringify(text.slice(0, 80))}; it takes ${takes} (milliseconds since 1970, or ISO: @2026-01-31T12:00:00Z)`,
  );
}
