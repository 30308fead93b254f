import { create } from "@bufbuild/protobuf";
import { effectiveTopicConfig, RESERVED_PREFIX, type TopicRecord } from "@sluice/core/model";
import { TopicSchema, type Topic } from "@sluice/proto/v1/admin";

/** A topic as clients see it: effective configuration, defaults included. */
export const topicMessage = (topic: TopicRecord): Topic =>
  create(TopicSchema, {
    name: topic.name,
    topicId: topic.topicId,
    partitions: topic.partitions,
    config: effectiveTopicConfig(topic.config),
    internal: topic.name.startsWith(RESERVED_PREFIX),
    createdAtMs: BigInt(topic.createdAtMs),
    deleting: topic.phase === "DELETING",
  });
