import type { AnyHandler } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { alterConfigs, incrementalAlterConfigs } from "./alter-configs.ts";
import { apiVersions } from "./api-versions.ts";
import { consumerGroupDescribe } from "./consumer-group-describe.ts";
import { consumerGroupHeartbeat } from "./consumer-group-heartbeat.ts";
import { createPartitions } from "./create-partitions.ts";
import { createTopics } from "./create-topics.ts";
import { deleteGroups } from "./delete-groups.ts";
import { deleteRecords } from "./delete-records.ts";
import { deleteTopics } from "./delete-topics.ts";
import { describeCluster } from "./describe-cluster.ts";
import { describeConfigs } from "./describe-configs.ts";
import { describeGroups } from "./describe-groups.ts";
import { describeLogDirs } from "./describe-log-dirs.ts";
import { fetch } from "./fetch.ts";
import { findCoordinator } from "./find-coordinator.ts";
import { heartbeat } from "./heartbeat.ts";
import { initProducerId } from "./init-producer-id.ts";
import { joinGroup } from "./join-group.ts";
import { leaveGroup } from "./leave-group.ts";
import { listGroups } from "./list-groups.ts";
import { listOffsets } from "./list-offsets.ts";
import { metadata } from "./metadata.ts";
import { offsetCommit } from "./offset-commit.ts";
import { offsetDelete } from "./offset-delete.ts";
import { offsetFetch } from "./offset-fetch.ts";
import { offsetForLeaderEpoch } from "./offset-for-leader-epoch.ts";
import { produce } from "./produce.ts";
import { syncGroup } from "./sync-group.ts";

/** The APIs that are served. What is not here is not told to clients. */
export function kafkaHandlers(context: KafkaContext): readonly AnyHandler[] {
  const handlers: readonly AnyHandler[] = [
    apiVersions(() => handlers),
    metadata(context),
    produce(context),
    fetch(context),
    listOffsets(context),
    offsetForLeaderEpoch(context),
    initProducerId(context),
    createTopics(context),
    deleteTopics(context),
    createPartitions(context),
    deleteRecords(context),
    describeConfigs(context),
    alterConfigs(context),
    incrementalAlterConfigs(context),
    describeCluster(context),
    describeLogDirs(context),
    findCoordinator(context),
    joinGroup(context),
    syncGroup(context),
    heartbeat(context),
    leaveGroup(context),
    offsetCommit(context),
    offsetFetch(context),
    describeGroups(context),
    listGroups(context),
    deleteGroups(context),
    offsetDelete(context),
    consumerGroupHeartbeat(context),
    consumerGroupDescribe(context),
  ];
  return handlers;
}
