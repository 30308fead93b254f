import type { AnyHandler } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { alterConfigs, incrementalAlterConfigs } from "./alter-configs.ts";
import { apiVersions } from "./api-versions.ts";
import { createPartitions } from "./create-partitions.ts";
import { createTopics } from "./create-topics.ts";
import { deleteRecords } from "./delete-records.ts";
import { deleteTopics } from "./delete-topics.ts";
import { describeCluster } from "./describe-cluster.ts";
import { describeConfigs } from "./describe-configs.ts";
import { describeLogDirs } from "./describe-log-dirs.ts";
import { fetch } from "./fetch.ts";
import { initProducerId } from "./init-producer-id.ts";
import { listOffsets } from "./list-offsets.ts";
import { metadata } from "./metadata.ts";
import { offsetForLeaderEpoch } from "./offset-for-leader-epoch.ts";
import { produce } from "./produce.ts";

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
  ];
  return handlers;
}
