import { unwritableReason, type ClusterView } from "@sluice/catalog";
import { effectiveTopicConfig, memberId, RESERVED_PREFIX, segmentKey, type TopicRecord } from "@sluice/core/model";

/** The metadata in the words of the admin API. */
export const topicMessage = (topic: TopicRecord) => ({
  name: topic.name,
  topicId: topic.topicId,
  partitions: topic.partitions,
  config: effectiveTopicConfig(topic.config),
  internal: topic.name.startsWith(RESERVED_PREFIX),
  createdAtMs: BigInt(topic.createdAtMs),
  deleting: topic.phase === "DELETING",
});

export function describePartitions(view: ClusterView, topic: TopicRecord) {
  return Array.from({ length: topic.partitions }, (_, partition) => {
    const id = { topicId: topic.topicId, partition };
    const found = view.partition(id);
    const state = found?.state?.record;
    return {
      partition,
      owner: state?.phase === "UNOWNED" ? "" : (state?.owner ?? ""),
      epoch: state?.epoch ?? 0,
      phase: state?.phase ?? "UNOWNED",
      logStartOffset: BigInt(found?.startOffset ?? 0),
      segments: view.segmentsOf(id).map(({ record }) => ({
        segmentId: segmentKey(record.segment),
        base: BigInt(record.base),
        end: BigInt(record.end ?? -1),
        phase: record.phase,
        replicas: record.replicas.map((replica) => replica.node),
        objectKey: record.object?.key ?? "",
        sizeBytes: BigInt(record.sizeBytes ?? 0),
      })),
    };
  });
}

/** `metadataStale`: the store has not answered for longer than a member's lease is sure. */
export function describeCluster(view: ClusterView, metadataStale: boolean) {
  let partitions = 0;
  let topics = 0;
  let topicsInternal = 0;
  let partitionsOffline = 0;
  for (const { record } of view.topics.values()) {
    if (record.phase !== "ACTIVE") continue;
    topics += 1;
    if (record.name.startsWith(RESERVED_PREFIX)) topicsInternal += 1;
    partitions += record.partitions;
    for (let partition = 0; partition < record.partitions; partition += 1) {
      const state = view.partition({ topicId: record.topicId, partition })?.state?.record;
      const owner = state?.phase === "OPEN" ? view.member("broker", memberId(state.owner)) : undefined;
      if (owner?.instance !== state?.ownerInstance || owner === undefined) partitionsOffline += 1;
    }
  }
  const reason = unwritableReason(view);
  return {
    clusterId: view.cluster?.clusterId ?? "",
    generation: view.cluster?.generation ?? 0,
    controller: view.leader?.member ?? "",
    topics,
    topicsInternal,
    partitions,
    partitionsOffline,
    partitionsUnwritable: reason === undefined ? partitionsOffline : partitions,
    unwritableReason: reason ?? "",
    metadataStale,
    members: [...view.members.values()].map(({ record }) => ({
      service: record.service,
      id: record.id,
      instance: record.instance,
      zone: record.zone,
      endpoints: Object.fromEntries(Object.entries(record.endpoints).filter(([, address]) => address !== undefined)),
      version: record.version,
      draining: record.draining,
      diskFull: record.diskFull ?? false,
    })),
  };
}
