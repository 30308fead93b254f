import {
  checkTopicConfig,
  effectiveTopicConfig,
  SluiceError,
  topicConfigKeys,
  type TopicConfigKey,
  type TopicRecord,
} from "@sluice/core/model";

/** Kafka's numbers: where a value comes from, and of what type it is. */
export const ConfigSource = { topic: 1, staticBroker: 4, default: 5 } as const;
export const ConfigType = { boolean: 1, string: 2, int: 3, long: 5, double: 6, list: 7, class: 8 } as const;

export interface ConfigEntry {
  readonly name: string;
  readonly value: string | null;
  readonly readOnly: boolean;
  readonly source: number;
  readonly type: number;
  readonly documentation: string;
  /** Every value that is given for the key, the one in force first; the default last. */
  readonly synonyms: readonly { readonly name: string; readonly value: string | null; readonly source: number }[];
}
/**
 * Keys of a Kafka topic that have one value here: tools read them, and pass them along when they copy or create a topic. Setting one to the value
 * that it has is no error; to another is refused, since the client would rely on what is not done.
 */
interface FixedKey {
  readonly value: string;
  readonly type: number;
  readonly doc: string;
  /** Others that say the same. */
  readonly accepts?: readonly string[];
  /** It tunes files or a compaction that are not there: any number may be given, and none does anything. */
  readonly tunes?: true;
}
const tunes = (value: string, type: number, doc: string): FixedKey => ({ value, type, doc, tunes: true });
const NOT_COMPACTED = "Of compaction, which is not served.";
const NUMBER = /^-?\d{1,19}(\.\d{1,19})?$/;
const fixed: Readonly<Record<string, FixedKey>> = {
  "cleanup.policy": { value: "delete", type: ConfigType.list, doc: "Old records are removed by age and size." },
  "compression.type": { value: "producer", type: ConfigType.string, doc: "Batches are stored as their producer compressed them." },
  "min.insync.replicas": {
    value: "2",
    type: ConfigType.int,
    doc: "Copies on disk before a write is acknowledged: always two of three.",
    accepts: ["1"],
  },
  "unclean.leader.election.enable": { value: "false", type: ConfigType.boolean, doc: "No acknowledged record is ever given up." },
  preallocate: { value: "false", type: ConfigType.boolean, doc: "Storage nodes lay out their journals themselves.", accepts: ["true"] },
  "remote.storage.enable": {
    value: "false",
    type: ConfigType.boolean,
    doc: "History goes to the object store by itself; Kafka's own tiering is not used.",
  },
  "flush.messages": {
    value: "9223372036854775807",
    type: ConfigType.long,
    doc: "Every record is flushed to disk before its acknowledgement, whatever this says.",
    accepts: ["1"],
  },
  "segment.index.bytes": tunes("10485760", ConfigType.int, "Of Kafka's index files."),
  "index.interval.bytes": tunes("4096", ConfigType.int, "Of Kafka's index files."),
  "segment.jitter.ms": tunes("0", ConfigType.long, "Segments end by size, age and moves, each partition by itself."),
  "file.delete.delay.ms": tunes("60000", ConfigType.long, "Of Kafka's files."),
  "delete.retention.ms": tunes("86400000", ConfigType.long, NOT_COMPACTED),
  "min.cleanable.dirty.ratio": tunes("0.5", ConfigType.double, NOT_COMPACTED),
  "min.compaction.lag.ms": tunes("0", ConfigType.long, NOT_COMPACTED),
  "max.compaction.lag.ms": tunes("9223372036854775807", ConfigType.long, NOT_COMPACTED),
  "flush.ms": { value: "9223372036854775807", type: ConfigType.long, doc: "As flush.messages." },
};

const isOurs = (name: string): name is TopicConfigKey => Object.hasOwn(topicConfigKeys, name);
const typeOf = (name: TopicConfigKey): number => {
  const { kind } = topicConfigKeys[name].type;
  return kind === "bool" ? ConfigType.boolean : kind === "enum" ? ConfigType.string : ConfigType.long;
};

/** Every key of a topic with its value in force and where that is from. */
export function describeTopicConfig({ config }: Pick<TopicRecord, "config">): ConfigEntry[] {
  const values = effectiveTopicConfig(config);
  const defaults = effectiveTopicConfig({});
  const ours = (Object.keys(topicConfigKeys) as TopicConfigKey[]).map((name) => {
    const isGiven = Object.hasOwn(config, name);
    const byDefault = { name, value: defaults[name], source: ConfigSource.default };
    return {
      name,
      value: values[name],
      readOnly: false,
      source: isGiven ? ConfigSource.topic : ConfigSource.default,
      type: typeOf(name),
      documentation: topicConfigKeys[name].doc,
      synonyms: isGiven ? [{ name, value: values[name], source: ConfigSource.topic }, byDefault] : [byDefault],
    };
  });
  const others = Object.entries(fixed).map(([name, { value, type, doc }]) => ({
    name,
    value,
    readOnly: true,
    source: ConfigSource.default,
    type,
    documentation: doc,
    synonyms: [{ name, value, source: ConfigSource.default }],
  }));
  return [...ours, ...others].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The keys that are ours, checked; those with a fixed value are left out once they are found to say so. Throws INVALID_CONFIG. */
export function takeTopicConfig(given: Iterable<readonly [string, string | null]>): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [name, value] of given) {
    if (value === null) throw new SluiceError("INVALID_CONFIG", `${name} has no value`);
    const key = Object.hasOwn(fixed, name) ? fixed[name] : undefined;
    if (key === undefined) out[name] = value;
    else if (value !== key.value && key.accepts?.includes(value) !== true && !(key.tunes === true && NUMBER.test(value)))
      throw new SluiceError("INVALID_CONFIG", `${name} is always ${key.value} here: ${key.doc}`);
  }
  checkTopicConfig(out);
  return out;
}
/** A list with items (by commas) added, or taken away; all lists are among the keys with one value. Throws INVALID_CONFIG for what is none. */
export function changedList(name: string, items: string, isAppend: boolean): string {
  const key = Object.hasOwn(fixed, name) ? fixed[name] : undefined;
  if (key?.type !== ConfigType.list) throw new SluiceError("INVALID_CONFIG", `${name} is no list: it can be set or deleted`);
  const there = key.value.split(",");
  const given = items.split(",").map((item) => item.trim());
  const after = isAppend ? new Set([...there, ...given]) : there.filter((item) => !given.includes(item));
  return [...after].join(",");
}
/** Whether a key may be put back to its default. Throws INVALID_CONFIG for one that does not exist. */
export function isResettable(name: string): boolean {
  if (isOurs(name)) return true;
  if (Object.hasOwn(fixed, name)) return false;
  throw new SluiceError("INVALID_CONFIG", `unknown topic configuration key ${JSON.stringify(name.slice(0, 80))}`);
}

/** What a proxy says of itself as "the broker's configuration": what the tools ask for, read-only. */
export function describeBrokerConfig(settings: { readonly autoCreateTopics: boolean; readonly partitionsDefault: number }): ConfigEntry[] {
  const topic = effectiveTopicConfig({});
  const values: readonly (readonly [string, string, number, string])[] = [
    ["auto.create.topics.enable", String(settings.autoCreateTopics), ConfigType.boolean, "Set with kafka.autoCreateTopics."],
    ["num.partitions", String(settings.partitionsDefault), ConfigType.int, "Set with kafka.partitionsDefault."],
    ["default.replication.factor", "3", ConfigType.int, "Every record is on three storage nodes."],
    ["min.insync.replicas", "2", ConfigType.int, "Copies on disk before a write is acknowledged."],
    ["message.max.bytes", topic["max.message.bytes"], ConfigType.int, "Default of max.message.bytes."],
    ["log.retention.ms", topic["retention.ms"], ConfigType.long, "Default of retention.ms."],
    ["log.retention.bytes", topic["retention.bytes"], ConfigType.long, "Default of retention.bytes."],
    ["log.segment.bytes", topic["segment.bytes"], ConfigType.int, "Default of segment.bytes."],
    ["log.cleanup.policy", "delete", ConfigType.list, "Old records are removed by age and size."],
    ["log.message.timestamp.type", topic["message.timestamp.type"], ConfigType.string, "Default of message.timestamp.type."],
    ["compression.type", "producer", ConfigType.string, "Batches are stored as their producer compressed them."],
    ["delete.topic.enable", "true", ConfigType.boolean, "Topics can be deleted."],
  ];
  return values.map(([name, value, type, documentation]) => ({
    name,
    value,
    readOnly: true,
    source: ConfigSource.staticBroker,
    type,
    documentation,
    synonyms: [{ name, value, source: ConfigSource.staticBroker }],
  }));
}
