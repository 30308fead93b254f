import { defineConfig, listenerKeys, mergeConfig, type ConfigOf } from "@sluice/runtime";
import { sharedConfig } from "@sluice/service";
import { type ControllerLimits, defaultControllerLimits as d } from "./limits.ts";

const ms = (value: number): string => `${value}ms`;

/** Configuration keys of the controller. */
export const controllerConfig = mergeConfig(
  sharedConfig("controller"),
  defineConfig({
    ...listenerKeys("rpc", "127.0.0.1:7072", "Control calls"),
    "cluster.shards": {
      type: "int",
      default: 8,
      min: 1,
      max: 1_000,
      doc: "Group shards of a new cluster; an existing cluster keeps its number.",
    },
    "partitions.clusterMax": {
      type: "int",
      default: d.clusterPartitionsMax,
      min: 1,
      max: 1_000_000,
      doc: "Partitions of all topics together; a topic that would exceed it is refused.",
    },
    "rebalance.movesMax": {
      type: "int",
      default: d.plannedMovesMax,
      min: 1,
      max: 1_000,
      doc: "Planned moves of partitions under way at a time, at most; fewer while one takes over 300 ms.",
    },
    "rebalance.quiet": {
      type: "duration",
      default: ms(d.balanceQuietMs),
      doc: "Brokers must neither come nor go for this long before load is levelled.",
    },
    "retention.interval": {
      type: "duration",
      default: ms(d.retentionMs),
      min: 100,
      doc: "How often retention looks for segments to remove.",
    },
    "deletion.grace": {
      type: "duration",
      default: ms(d.segmentDeleteGraceMs),
      doc: "How long a removed segment keeps its copies and object: longer than any metadata cache and read.",
    },
    "deletion.topicGrace": {
      type: "duration",
      default: ms(d.topicDeleteGraceMs),
      doc: "The same for segments of a deleted topic, which nobody may read any more.",
    },
    "nodes.goneAfter": {
      type: "duration",
      default: ms(d.nodeGoneAfterMs),
      min: 1_000,
      doc: "A storage node that is away for this long is taken for gone.",
    },
    "metadata.compactInterval": {
      type: "duration",
      default: ms(d.compactMs),
      min: 1_000,
      doc: "How often the metadata history is compacted.",
    },
    "orphans.interval": {
      type: "duration",
      default: ms(d.orphanSweepMs),
      min: 1_000,
      doc: "How often objects are looked for that no key names.",
    },
    "orphans.minimumAge": { type: "duration", default: ms(d.orphanAgeMs), doc: "An object that no key names is removed at this age." },
  }),
);

/** The part of the limits that is configuration. */
export const limitsOf = (config: ConfigOf<typeof controllerConfig.spec>): Partial<ControllerLimits> => ({
  clusterPartitionsMax: config["partitions.clusterMax"],
  plannedMovesMax: config["rebalance.movesMax"],
  balanceQuietMs: config["rebalance.quiet"],
  retentionMs: config["retention.interval"],
  segmentDeleteGraceMs: config["deletion.grace"],
  topicDeleteGraceMs: config["deletion.topicGrace"],
  nodeGoneAfterMs: config["nodes.goneAfter"],
  compactMs: config["metadata.compactInterval"],
  orphanSweepMs: config["orphans.interval"],
  orphanAgeMs: config["orphans.minimumAge"],
});
