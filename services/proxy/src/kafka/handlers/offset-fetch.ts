import {
  apis,
  type Input,
  type OffsetFetchRequest,
  type OffsetFetchRequestGroup,
  type OffsetFetchResponseTopic,
  type OffsetFetchResponsePartition,
} from "@sluice/kafka-wire";
import type { CommittedOffset } from "@sluice/proto/v1/group";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError } from "../errors.ts";
import { callerOf, checkGroup, groupFailureCode, permittedTopics } from "../group-calls.ts";
import { kafkaLimits } from "../limits.ts";

type Topic = Input<OffsetFetchResponseTopic>;
type Partition = Input<OffsetFetchResponsePartition>;
/** Several groups in one request. */
const GROUPS_FROM = 8;
/** Before this version errors are told with each partition alone. */
const ERROR_FROM = 2;
const NONE = { committedOffset: -1, committedLeaderEpoch: -1, metadata: "" };

/** Committed offsets with what their committer wrote beside them. There are no transactions, so every offset is stable. */
export const offsetFetch = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.OffsetFetch,
    access: { resource: "group", operation: "describe" },
    async handle(request, call) {
      const groups = await inParallel(asked(request, call.version), kafkaLimits.groupsParallel, (group) => one(context, call, group));
      if (call.version >= GROUPS_FROM) return { groups };
      const { topics = [], errorCode = 0 } = groups[0] ?? {};
      if (call.version >= ERROR_FROM) return { topics, errorCode };
      return { topics: errorCode === 0 ? topics : refused(request.topics ?? [], errorCode) };
    },
  });

const asked = ({ groupId, topics, groups }: OffsetFetchRequest, version: number): readonly OffsetFetchRequestGroup[] =>
  version >= GROUPS_FROM ? groups : [{ groupId, topics, memberId: null, memberEpoch: -1 }];
type Asked = NonNullable<OffsetFetchRequestGroup["topics"]>;
const refused = (topics: Asked, errorCode: number): Topic[] =>
  topics.map(({ name, partitionIndexes }) => ({
    name,
    partitions: partitionIndexes.map((partitionIndex) => ({ partitionIndex, ...NONE, errorCode })),
  }));

interface GroupAnswer {
  readonly groupId: string;
  readonly topics: Topic[];
  readonly errorCode: number;
}
async function one(context: KafkaContext, call: KafkaCall, group: OffsetFetchRequestGroup): Promise<GroupAnswer> {
  const { groupId } = group;
  try {
    await checkGroup(call, groupId);
    return { groupId, topics: await fetched(context, call, group), errorCode: KafkaError.none };
  } catch (error) {
    return { groupId, topics: [], errorCode: groupFailureCode(error) };
  }
}

async function fetched(
  context: KafkaContext,
  call: KafkaCall,
  { groupId, topics, memberId, memberEpoch }: OffsetFetchRequestGroup,
): Promise<Topic[]> {
  // The coordinator takes an empty list for everything.
  const named = topics?.filter(({ partitionIndexes }) => partitionIndexes.length > 0);
  const wanted = named?.map(({ name, partitionIndexes }) => ({ topic: name, partitions: [...partitionIndexes] })) ?? [];
  const offsets =
    named?.length === 0
      ? []
      : await context.coordinators
          .call(groupId, callerOf(context, call, context.timers.produceHoldMs), "question", (client, options) =>
            client.fetch(
              {
                group: groupId,
                topics: context.topics.identified(call.principal.tenant, wanted),
                memberId: memberId ?? "",
                ...(memberEpoch < 0 ? {} : { memberEpoch }),
              },
              options,
            ),
          )
          .then((answer) => answer.offsets);
  const found = byTopic(offsets);
  const permitted = await permittedTopics(call, "describe", topics?.map(({ name }) => name) ?? found.keys());
  if (topics === null)
    return [...found].filter(([name]) => permitted.has(name)).map(([name, partitions]) => ({ name, partitions: [...partitions.values()] }));
  return topics.flatMap((topic) => {
    if (!permitted.has(topic.name)) return refused([topic], KafkaError.topicAuthorizationFailed);
    const known = found.get(topic.name);
    const partitions = topic.partitionIndexes.map((partitionIndex) => known?.get(partitionIndex) ?? { partitionIndex, ...NONE });
    return [{ name: topic.name, partitions }];
  });
}

function byTopic(offsets: readonly CommittedOffset[]): Map<string, Map<number, Partition>> {
  const topics = new Map<string, Map<number, Partition>>();
  for (const { topic, partition, offset, metadata, leaderEpoch = -1 } of offsets) {
    const known = topics.get(topic) ?? new Map<number, Partition>();
    topics.set(topic, known);
    known.set(partition, { partitionIndex: partition, committedOffset: Number(offset), committedLeaderEpoch: leaderEpoch, metadata });
  }
  return topics;
}
