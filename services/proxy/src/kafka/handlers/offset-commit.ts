import { FORGET_OFFSET } from "@sluice/core/group";
import { apis, type Input, type OffsetCommitRequest, type OffsetCommitResponseTopic } from "@sluice/kafka-wire";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError, kafkaCodeOf } from "../errors.ts";
import { callerOf, checkGroup, groupAnswerCode, groupFailureCode, permittedTopics } from "../group-calls.ts";

/** Members of groups that the server assigns may commit from this version on; older ones do not know what a member epoch is. */
const EPOCHS_FROM = 9;
/** Offsets are below 2^53; whatever is not is refused as this one is. */
const OFFSET_BEYOND = 2 ** 53;

/** Answers when the offsets are durable. Each partition has its own outcome. */
export const offsetCommit = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.OffsetCommit,
    access: { resource: "group", operation: "read" },
    async handle(request, call) {
      try {
        await checkGroup(call, request.groupId);
        return { topics: await commit(context, request, call) };
      } catch (error) {
        const errorCode = groupFailureCode(error);
        return { topics: answered(request, () => errorCode) };
      }
    },
  });

async function commit(context: KafkaContext, request: OffsetCommitRequest, call: KafkaCall): Promise<Input<OffsetCommitResponseTopic>[]> {
  const { groupId, memberId, generationIdOrMemberEpoch: epoch, groupInstanceId, topics } = request;
  const permitted = await permittedTopics(
    call,
    "read",
    topics.map(({ name }) => name),
  );
  const offsets = topics
    .filter(({ name }) => permitted.has(name))
    .flatMap(({ name, partitions }) =>
      partitions.map((p) => ({
        topic: name,
        partition: p.partitionIndex,
        // Kafka keeps an offset below zero, and every client takes it for none (kafkajs resets a group with -1 and -2).
        offset: BigInt(p.committedOffset < 0 ? FORGET_OFFSET : Math.min(p.committedOffset, OFFSET_BEYOND)),
        metadata: p.committedMetadata ?? "",
        ...(p.committedLeaderEpoch < 0 ? {} : { leaderEpoch: p.committedLeaderEpoch }),
      })),
    );
  if (offsets.length === 0) return answered(request, () => KafkaError.topicAuthorizationFailed);
  const caller = callerOf(context, call, context.timers.produceHoldMs);
  // Kafka never looks at the partition: tools and tests move groups to offsets that do not exist yet.
  const committer = { beyondEnd: true, memberId, instanceId: groupInstanceId ?? "", ...(epoch < 0 ? {} : { memberEpoch: epoch }) };
  const identified = context.topics.identified(call.principal.tenant, offsets);
  const { results } = await context.coordinators.call(groupId, caller, "change", (client, options) =>
    client.commit({ group: groupId, offsets: identified, ...committer }, options),
  );
  let next = 0;
  return answered(request, (topic) => {
    if (!permitted.has(topic)) return KafkaError.topicAuthorizationFailed;
    const code = groupAnswerCode(results[next++]?.error ?? 0);
    return code === kafkaCodeOf("STALE_MEMBER_EPOCH") && call.version < EPOCHS_FROM ? KafkaError.unsupportedVersion : code;
  });
}

/** Partition for partition, in the order of the request. */
const answered = ({ topics }: OffsetCommitRequest, codeOf: (topic: string) => number): Input<OffsetCommitResponseTopic>[] =>
  topics.map(({ name, partitions }) => ({
    name,
    partitions: partitions.map(({ partitionIndex }) => ({ partitionIndex, errorCode: codeOf(name) })),
  }));
