import type { ClusterView } from "@sluice/catalog";
import { RESERVED_PREFIX, type TopicRecord } from "@sluice/core/model";
import { apis, type DescribeLogDirsRequest } from "@sluice/kafka-wire";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError } from "../errors.ts";

/** There is no folder behind a proxy: the name stands for the storage nodes and the object store. */
const LOG_DIR = "sluice";

/**
 * Sizes of partitions, for tools that show them. Tools ask every node and add up, so each proxy tells of the partitions that it is the leader of.
 * A size is that of one copy, of all segments but the open one, whose size only its owner knows.
 */
export const describeLogDirs = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.DescribeLogDirs,
    access: { resource: "cluster", operation: "describe" },
    async handle(request, call) {
      if (!(await call.may(undefined))) return { errorCode: KafkaError.clusterAuthorizationFailed };
      const topics = [...wanted(context.view, request, call)].map(([topic, partitions]) => ({
        name: topic.name,
        partitions: ownPartitions(context, topic, partitions).map((partitionIndex) => ({
          partitionIndex,
          partitionSize: sizeOf(context.view, topic, partitionIndex),
        })),
      }));
      return { results: [{ logDir: LOG_DIR, topics: topics.filter(({ partitions }) => partitions.length > 0) }] };
    },
  });

function* wanted(
  view: ClusterView,
  { topics }: DescribeLogDirsRequest,
  call: KafkaCall,
): Generator<[TopicRecord, readonly number[] | undefined]> {
  for (const { record } of view.topics.values()) {
    if (record.phase !== "ACTIVE" || record.tenant !== call.principal.tenant || record.name.startsWith(RESERVED_PREFIX)) continue;
    const asked = topics?.find(({ topic }) => topic === record.name);
    if (topics === null || asked !== undefined) yield [record, asked?.partitions];
  }
}
function ownPartitions({ topology }: KafkaContext, topic: TopicRecord, asked: readonly number[] | undefined): number[] {
  const leaders = topology.leaders(topic);
  const all = leaders.map((leader, partition) => ({ leader, partition })).filter(({ leader }) => leader === topology.ownId);
  return all.map(({ partition }) => partition).filter((partition) => asked === undefined || asked.includes(partition));
}
function sizeOf(view: ClusterView, { topicId }: TopicRecord, partition: number): number {
  let bytes = 0;
  for (const { record } of view.segmentsOf({ topicId, partition })) if (record.phase !== "DELETING") bytes += record.sizeBytes ?? 0;
  return bytes;
}
