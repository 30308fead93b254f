import { apis, type Input, type OffsetDeleteRequest, type OffsetDeleteResponseTopic } from "@sluice/kafka-wire";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError } from "../errors.ts";
import { callerOf, checkGroup, groupAnswerCode, groupFailureCode, permittedTopics } from "../group-calls.ts";

/** Offsets of topics that no member reads are forgotten. */
export const offsetDelete = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.OffsetDelete,
    access: { resource: "group", operation: "delete" },
    async handle(request, call) {
      try {
        await checkGroup(call, request.groupId);
        return { topics: await remove(context, request, call) };
      } catch (error) {
        return { errorCode: groupFailureCode(error) };
      }
    },
  });

async function remove(
  context: KafkaContext,
  { groupId, topics }: OffsetDeleteRequest,
  call: KafkaCall,
): Promise<Input<OffsetDeleteResponseTopic>[]> {
  const permitted = await permittedTopics(
    call,
    "read",
    topics.map(({ name }) => name),
  );
  // The coordinator takes a topic without partitions for all of it.
  const named = topics.filter(({ name, partitions }) => permitted.has(name) && partitions.length > 0);
  const caller = callerOf(context, call, context.timers.produceHoldMs);
  const { results } = await context.coordinators.call(groupId, caller, "change", (client, options) =>
    client.deleteOffsets(
      {
        group: groupId,
        topics: context.topics.identified(
          call.principal.tenant,
          named.map(({ name, partitions }) => ({ topic: name, partitions: partitions.map((p) => p.partitionIndex) })),
        ),
      },
      options,
    ),
  );
  let next = 0;
  return topics.map(({ name, partitions }) => ({
    name,
    partitions: partitions.map(({ partitionIndex }) => ({
      partitionIndex,
      errorCode: permitted.has(name) ? groupAnswerCode(results[next++]?.error ?? 0) : KafkaError.topicAuthorizationFailed,
    })),
  }));
}
