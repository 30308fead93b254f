import { describe, expect, test } from "@jest/globals";
import { ConfigSource, describeTopicConfig, isResettable, takeTopicConfig } from "../../src/kafka/topic-configs.ts";

describe("topic configuration in Kafka's words", () => {
  test("every key is described with its value and where that is from", () => {
    const entries = new Map(describeTopicConfig({ config: { "retention.ms": "5" } }).map((entry) => [entry.name, entry]));
    expect(entries.get("retention.ms")).toMatchObject({ value: "5", source: ConfigSource.topic, readOnly: false });
    expect(entries.get("segment.bytes")).toMatchObject({ value: "134217728", source: ConfigSource.default });
    expect(entries.get("cleanup.policy")).toMatchObject({ value: "delete", source: ConfigSource.default, readOnly: true });
  });
  test("keys with one value are taken when they say it, and refused when they ask for what is not done", () => {
    const given = { "retention.ms": "9", "cleanup.policy": "delete", "min.insync.replicas": "1", "compression.type": "producer" };
    expect(takeTopicConfig(Object.entries(given))).toEqual({ "retention.ms": "9" });
    for (const [name, value] of [
      ["cleanup.policy", "compact"],
      ["min.insync.replicas", "3"],
      ["compression.type", "zstd"],
      ["no.such.key", "1"],
      ["segment.jitter.ms", "soon"],
      ["delete.retention.ms", ""],
      ["retention.ms", "x"],
      ["retention.ms", null],
    ] as const)
      expect(() => takeTopicConfig([[name, value]])).toThrow(expect.objectContaining({ code: "INVALID_CONFIG" }));
  });
  test("what tunes files or a compaction that are not there may have any number, and is told with Kafka's default", () => {
    const given = {
      "segment.index.bytes": "1048576",
      "min.cleanable.dirty.ratio": "0.1",
      "delete.retention.ms": "1",
      "segment.jitter.ms": "5",
    };
    expect(takeTopicConfig(Object.entries(given))).toEqual({});
    const told = new Map(describeTopicConfig({ config: {} }).map(({ name, value }) => [name, value]));
    expect([told.get("segment.index.bytes"), told.get("min.cleanable.dirty.ratio")]).toEqual(["10485760", "0.5"]);
  });
  test("only known keys go back to their defaults", () => {
    expect([isResettable("retention.ms"), isResettable("cleanup.policy")]).toEqual([true, false]);
    expect(() => isResettable("nope")).toThrow(expect.objectContaining({ code: "INVALID_CONFIG" }));
  });
});
