import { UsageError } from "./exit.ts";

/**
 * A record as a line of JSON, the form in which records leave `consume -o jsonl` and enter `produce --jsonl`:
 *
 *   {"topic":"t","partition":0,"offset":12,"timestamp":1764437000000,"key":"k","value":"v","headers":[["h","x"]]}
 *
 * Key, value and header values are bytes: a string when they are well-formed UTF-8, {"base64":"..."} when they are not, null when absent.
 * Every byte sequence survives the way there and back: what decodes is encoded to the same bytes.
 */
export interface LineRecord {
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: readonly (readonly [string, Uint8Array | null])[];
}
export interface ConsumedLine extends LineRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly timestampMs: number;
}
/** What `produce` takes from a line. The topic and the offset of a line are those of its past, and are not used. */
export interface ProducedLine extends LineRecord {
  readonly partition: number | undefined;
  readonly timestampMs: number | undefined;
}

const NO_TIMESTAMP = -1;
type JsonBytes = string | null | { readonly base64: string };

const utf8 = new TextEncoder();
// ignoreBOM: a leading byte order mark is data here, not an instruction to the decoder.
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function bytesToJson(bytes: Uint8Array | null): JsonBytes {
  if (bytes === null) return null;
  try {
    return strict.decode(bytes);
  } catch {
    return { base64: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64") };
  }
}
export function formatRecordLine(record: ConsumedLine): string {
  const { topic, partition, offset, timestampMs, key, value, headers } = record;
  const line = {
    topic,
    partition,
    offset,
    // Nothing on the way looks into batches: whatever is before 1970 was no time either.
    timestamp: timestampMs < 0 ? NO_TIMESTAMP : timestampMs,
    key: bytesToJson(key),
    value: bytesToJson(value),
    headers: headers.map(([name, bytes]) => [name, bytesToJson(bytes)]),
  };
  return `${JSON.stringify(line)}\n`;
}

const KNOWN = new Set(["topic", "partition", "offset", "timestamp", "key", "value", "headers"]);

/** Throws UsageError with the reason; the caller adds the line's number. Unknown fields are refused: a misspelt "vaule" would be lost. */
export function parseRecordLine(text: string): ProducedLine {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new UsageError("not JSON");
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw new UsageError("not a JSON object");
  const line = parsed as Record<string, unknown>;
  const unknown = Object.keys(line).find((name) => !KNOWN.has(name));
  if (unknown !== undefined) throw new UsageError(`field ${JSON.stringify(unknown.slice(0, 40))} is unknown`);
  return {
    key: jsonToBytes("key", line["key"]),
    value: jsonToBytes("value", line["value"]),
    headers: parseHeaders(line["headers"]),
    partition: parseWhole("partition", line["partition"], 0x7fff_ffff),
    timestampMs: parseTimestamp(line["timestamp"]),
  };
}
function jsonToBytes(field: string, value: unknown): Uint8Array | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw new UsageError(`${field} holds half of a surrogate pair; write such bytes as {"base64":"..."}`);
    return utf8.encode(value);
  }
  if (typeof value === "object" && "base64" in value && typeof value.base64 === "string" && Object.keys(value).length === 1) {
    const bytes = Buffer.from(value.base64, "base64");
    // Buffer skips what is not base64: only what it writes back the same was meant.
    if (bytes.toString("base64").replaceAll("=", "") === value.base64.replaceAll("=", "")) return bytes;
  }
  throw new UsageError(`${field} must be a string, null or {"base64":"..."}`);
}
function parseHeaders(value: unknown): (readonly [string, Uint8Array | null])[] {
  if (value === undefined || value === null) return [];
  const wrong = new UsageError('headers must be [["name", value], ...]');
  if (!Array.isArray(value)) throw wrong;
  return value.map((pair: unknown) => {
    if (!Array.isArray(pair) || pair.length !== 2 || typeof pair[0] !== "string" || !pair[0].isWellFormed()) throw wrong;
    return [pair[0], jsonToBytes(`header ${JSON.stringify(pair[0].slice(0, 40))}`, pair[1])] as const;
  });
}
/** Some clients store records without a time, as -1; those leave and enter as such. Left out = now. */
function parseTimestamp(value: unknown): number | undefined {
  return value === NO_TIMESTAMP ? value : parseWhole("timestamp", value, Number.MAX_SAFE_INTEGER, "-1 (none) or ");
}
function parseWhole(field: string, value: unknown, max: number, or = ""): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0 || value > max)
    throw new UsageError(`${field} must be ${or}a whole number of 0 to ${max}`);
  return value;
}
