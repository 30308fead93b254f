import { SluiceError } from "@sluice/core/model";
import { apis, type ConsumerGroupHeartbeatRequest, type ConsumerGroupHeartbeatResponse, type Input } from "@sluice/kafka-wire";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError } from "../errors.ts";
import { callerOf, checkGroup, groupAnswerCode, groupFailure, permittedTopics } from "../group-calls.ts";

/** From this version on the member chooses its id itself. */
const OWN_ID_FROM = 1;
/** Groups wait no longer; clients that never want to be late say more. */
const REBALANCE_MS_MAX = 86_400_000;

/** A member of a group that the server assigns: joins, stays, gives back, leaves; and is told what to read. */
export const consumerGroupHeartbeat = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.ConsumerGroupHeartbeat,
    access: { resource: "group", operation: "read" },
    async handle(request, call) {
      try {
        await checkGroup(call, request.groupId);
        if (request.memberId === "" && call.version >= OWN_ID_FROM)
          throw new SluiceError("INVALID_ARGUMENT", "a member chooses its id before it joins");
        const names = request.subscribedTopicNames ?? [];
        const permitted = await permittedTopics(call, "describe", names);
        const secret = names.find((name) => !permitted.has(name));
        if (secret !== undefined) return { errorCode: KafkaError.topicAuthorizationFailed, errorMessage: `no right to topic ${secret}` };
        return await beat(context, request, call);
      } catch (error) {
        return groupFailure(error);
      }
    },
  });

async function beat(
  context: KafkaContext,
  request: ConsumerGroupHeartbeatRequest,
  call: KafkaCall,
): Promise<Input<ConsumerGroupHeartbeatResponse>> {
  const { clientId, clientHost } = call;
  const { groupId } = request;
  const caller = callerOf(context, call, context.timers.controlCallTimeoutMs);
  const { error, errorMessage, response } = await context.coordinators.call(groupId, caller, "change", (client, options) =>
    client.consumerHeartbeat({ request: asked(request), clientId, clientHost }, options),
  );
  if (error !== 0) return { errorCode: groupAnswerCode(error), errorMessage };
  if (response === undefined) throw new SluiceError("INTERNAL", "the coordinator's answer is empty");
  const { memberId, memberEpoch, heartbeatIntervalMs, assignment } = response;
  const topicPartitions = assignment?.topics.map(({ topicId, partitions }) => ({ topicId, partitions }));
  return { memberId, memberEpoch, heartbeatIntervalMs, assignment: topicPartitions === undefined ? null : { topicPartitions } };
}

function asked(r: ConsumerGroupHeartbeatRequest) {
  const { subscribedTopicNames: topics, subscribedTopicRegex: pattern, topicPartitions: owned } = r;
  const self = { group: r.groupId, memberId: r.memberId, memberEpoch: r.memberEpoch, instanceId: r.instanceId ?? "" };
  // What a member that leaves says beside it means nothing, and clients put anything there.
  if (r.memberEpoch < 0) return self;
  return {
    ...self,
    rackId: r.rackId ?? "",
    assignor: r.serverAssignor ?? "",
    ...(r.rebalanceTimeoutMs < 0 ? {} : { rebalanceTimeoutMs: Math.min(r.rebalanceTimeoutMs, REBALANCE_MS_MAX) }),
    ...(topics === null && pattern === null ? {} : { subscription: { topics: [...(topics ?? [])], topicPattern: pattern ?? "" } }),
    ...(owned === null ? {} : { owned: { topics: owned.map(({ topicId, partitions }) => ({ topicId, partitions: [...partitions] })) } }),
  };
}
