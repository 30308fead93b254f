import { SluiceError } from "./errors.ts";
import { limits } from "./limits.ts";
import { timers } from "./timers.ts";

/**
 * Topic configuration: keys as Kafka names them where Kafka has them, ours otherwise. A topic record holds only what was set;
 * `effectiveTopicConfig` adds the defaults, `topicSettings` gives typed values. Times in milliseconds, sizes in bytes.
 */
type Kind =
  | { readonly kind: "int"; readonly min: number; readonly max: number }
  | { readonly kind: "bool" }
  | { readonly kind: "enum"; readonly values: readonly string[] };
interface Key {
  readonly type: Kind;
  readonly default: string;
  readonly doc: string;
}
const int = (min: number, max: number, value: number, doc: string): Key => ({
  type: { kind: "int", min, max },
  default: String(value),
  doc,
});
const MAX = Number.MAX_SAFE_INTEGER;

export const topicConfigKeys = {
  "segment.bytes": int(1024, limits.segmentBytesCap, limits.segmentBytesDefault, "A segment is rolled when it reaches this size."),
  "segment.ms": int(100, MAX, timers.segmentAgeMs, "A segment that holds records is rolled at this age."),
  "retention.ms": int(-1, MAX, 7 * 24 * 3_600_000, "Segments whose last record was appended longer ago are removed; -1 = never."),
  "retention.bytes": int(-1, MAX, -1, "Oldest segments of a partition are removed above this size; -1 = no limit."),
  "offload.grace.ms": int(0, MAX, timers.offloadGraceMs, "Storage nodes keep their copy this long after the upload to the object store."),
  "max.message.bytes": int(1024, limits.messageBytesCap, limits.messageBytesDefault, "Largest record batch accepted."),
  "message.timestamp.type": {
    type: { kind: "enum", values: ["CreateTime", "LogAppendTime"] },
    default: "CreateTime",
    doc: "Whose clock stamps records.",
  } as Key,
  "message.timestamp.before.max.ms": int(0, MAX, MAX, "CreateTime: how far a timestamp may lie before the broker's clock."),
  "message.timestamp.after.max.ms": int(0, MAX, 3_600_000, "CreateTime: how far a timestamp may lie after the broker's clock."),
  "strict.three.copies": { type: { kind: "bool" }, default: "false", doc: "Refuse writes while only two storage nodes are alive." } as Key,
} as const satisfies Record<string, Key>;
export type TopicConfigKey = keyof typeof topicConfigKeys;

const isKey = (k: string): k is TopicConfigKey => Object.hasOwn(topicConfigKeys, k);

function check(name: TopicConfigKey, value: string): void {
  const { type } = topicConfigKeys[name] as Key;
  const refuse = (takes: string): never => {
    throw new SluiceError("INVALID_CONFIG", `${name} takes ${takes}, got ${JSON.stringify(value.slice(0, 80))}`);
  };
  if (type.kind === "int") {
    const n = Number(value);
    if (!/^-?\d{1,16}$/.test(value) || !Number.isSafeInteger(n) || n < type.min || n > type.max)
      refuse(`an integer from ${type.min} to ${type.max}`);
  } else if (type.kind === "bool") {
    if (value !== "true" && value !== "false") refuse("true or false");
  } else if (!type.values.includes(value)) refuse(`one of ${type.values.join(", ")}`);
}

/** Throws INVALID_CONFIG naming the first bad key and what it takes. */
export function checkTopicConfig(config: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(config)) {
    if (!isKey(name)) throw new SluiceError("INVALID_CONFIG", `unknown topic configuration key ${JSON.stringify(name.slice(0, 80))}`);
    check(name, value);
  }
}

/** All keys with their values in force. */
export function effectiveTopicConfig(config: Readonly<Record<string, string>>): Record<TopicConfigKey, string> {
  const out = Object.create(null) as Record<TopicConfigKey, string>;
  for (const name of Object.keys(topicConfigKeys) as TopicConfigKey[])
    out[name] = Object.hasOwn(config, name) ? (config[name] as string) : topicConfigKeys[name].default;
  return out;
}

export interface TopicSettings {
  readonly segmentBytes: number;
  readonly segmentMs: number;
  /** -1 = never. */
  readonly retentionMs: number;
  /** -1 = no limit. */
  readonly retentionBytes: number;
  readonly offloadGraceMs: number;
  readonly maxMessageBytes: number;
  readonly logAppendTime: boolean;
  readonly timestampBeforeMaxMs: number;
  readonly timestampAfterMaxMs: number;
  readonly strictThreeCopies: boolean;
}
/** Typed values of a configuration that `checkTopicConfig` accepted. */
export function topicSettings(config: Readonly<Record<string, string>>): TopicSettings {
  const all = effectiveTopicConfig(config);
  const n = (k: TopicConfigKey): number => Number(all[k]);
  return {
    segmentBytes: n("segment.bytes"),
    segmentMs: n("segment.ms"),
    retentionMs: n("retention.ms"),
    retentionBytes: n("retention.bytes"),
    offloadGraceMs: n("offload.grace.ms"),
    maxMessageBytes: n("max.message.bytes"),
    logAppendTime: all["message.timestamp.type"] === "LogAppendTime",
    timestampBeforeMaxMs: n("message.timestamp.before.max.ms"),
    timestampAfterMaxMs: n("message.timestamp.after.max.ms"),
    strictThreeCopies: all["strict.three.copies"] === "true",
  };
}
