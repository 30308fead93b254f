import type { GroupConfig } from "@sluice/core/group";
import { defineConfig, listenerKeys, mergeConfig } from "@sluice/runtime";
import { limits } from "@sluice/core/model";
import { sharedConfig } from "@sluice/service";
import { groupConfigDefault } from "./group-config.ts";

const KiB = 1024;
const MiB = 1024 * KiB;
const MINUTE_MS = 60_000;

const groupKeys = [
  "group.min.session.timeout.ms",
  "group.max.session.timeout.ms",
  "group.initial.rebalance.delay.ms",
  "group.max.size",
  "group.consumer.session.timeout.ms",
  "group.consumer.heartbeat.interval.ms",
  "offsets.retention.minutes",
  "offsets.retention.check.interval.ms",
] as const;

/** Configuration keys of the coordinator. */
export const coordinatorConfig = mergeConfig(
  sharedConfig("coordinator"),
  defineConfig({
    ...listenerKeys("rpc", "127.0.0.1:7072", "Control calls"),
    "snapshot.records": {
      type: "int",
      default: 50_000,
      min: 1,
      max: 10_000_000,
      doc: "A shard's state is written to the object store after so many records of its log.",
    },
    "snapshot.bytes": {
      type: "bytes",
      default: 16 * MiB,
      min: KiB,
      doc: "A shard's state is written to the object store after so many bytes of its log.",
    },
    "group.min.session.timeout.ms": {
      type: "int",
      default: groupConfigDefault.sessionTimeoutMinMs,
      min: 1,
      doc: "The shortest session that a member of a classic group may ask for.",
    },
    "group.max.session.timeout.ms": {
      type: "int",
      default: groupConfigDefault.sessionTimeoutMaxMs,
      min: 1,
      doc: "The longest session that a member of a classic group may ask for.",
    },
    "group.initial.rebalance.delay.ms": {
      type: "int",
      default: groupConfigDefault.initialRebalanceDelayMs,
      min: 0,
      doc: "A classic group that had no members waits so long for more of them before its first generation.",
    },
    "group.max.size": {
      type: "int",
      default: groupConfigDefault.membersMax,
      min: 1,
      max: limits.groupMembersMax,
      doc: "Members of one group.",
    },
    "group.consumer.session.timeout.ms": {
      type: "int",
      default: groupConfigDefault.consumerSessionTimeoutMs,
      min: 1,
      doc: "A member of a group that the server assigns is out after so long without a heartbeat.",
    },
    "group.consumer.heartbeat.interval.ms": {
      type: "int",
      default: groupConfigDefault.consumerHeartbeatIntervalMs,
      min: 10,
      doc: "How often members of groups that the server assigns are told to call; those of large groups less often.",
    },
    "offsets.retention.minutes": {
      type: "int",
      default: Math.round(groupConfigDefault.offsetsRetentionMs / MINUTE_MS),
      min: 1,
      doc: "Offsets are forgotten so long after their commit and after the last member of their group.",
    },
    "offsets.retention.check.interval.ms": {
      type: "int",
      default: 600_000,
      min: 1,
      doc: "How often offsets that are too old are looked for.",
    },
  }),
);

/** The groups' part of the configuration. */
export const groupSettings = (config: {
  readonly [K in (typeof groupKeys)[number]]: number;
}): { readonly groups: GroupConfig; readonly expiryCheckMs: number } => ({
  groups: {
    sessionTimeoutMinMs: config["group.min.session.timeout.ms"],
    sessionTimeoutMaxMs: config["group.max.session.timeout.ms"],
    initialRebalanceDelayMs: config["group.initial.rebalance.delay.ms"],
    membersMax: config["group.max.size"],
    consumerSessionTimeoutMs: config["group.consumer.session.timeout.ms"],
    consumerHeartbeatIntervalMs: config["group.consumer.heartbeat.interval.ms"],
    offsetsRetentionMs: config["offsets.retention.minutes"] * MINUTE_MS,
  },
  expiryCheckMs: config["offsets.retention.check.interval.ms"],
});
