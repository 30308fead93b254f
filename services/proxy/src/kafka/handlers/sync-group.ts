import { apis, type Input, type SyncGroupRequest, type SyncGroupResponse } from "@sluice/kafka-wire";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError } from "../errors.ts";
import { checkGroup, groupAnswerCode, groupFailureCode } from "../group-calls.ts";
import { kafkaLimits } from "../limits.ts";

/** Members say which protocol they mean, and are told it, from this version on. */
const PROTOCOL_FROM = 5;

/** Waits for the leader's assignment; whoever is missing is expelled by the group within its rebalance timeout. */
export const syncGroup = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.SyncGroup,
    access: { resource: "group", operation: "read" },
    async handle(request, call) {
      try {
        await checkGroup(call, request.groupId);
        return await sync(context, request, call);
      } catch (error) {
        return { errorCode: call.ending.aborted ? KafkaError.notCoordinator : groupFailureCode(error) };
      }
    },
  });

async function sync({ coordinators, clock }: KafkaContext, request: SyncGroupRequest, call: KafkaCall): Promise<Input<SyncGroupResponse>> {
  const { groupId, generationId, memberId, groupInstanceId, protocolType, protocolName, assignments } = request;
  const caller = { deadlineMs: clock.monotonicMs() + kafkaLimits.groupWaitMsMax, signal: call.ending };
  const answer = await coordinators.call(groupId, caller, "waiting", (client, options) =>
    client.syncGroup(
      {
        group: groupId,
        memberId,
        generation: generationId,
        ...(groupInstanceId === null ? {} : { instanceId: groupInstanceId }),
        ...(protocolType === null ? {} : { protocolType }),
        ...(protocolName === null ? {} : { protocol: protocolName }),
        assignments: assignments.map((a) => ({ memberId: a.memberId, assignment: a.assignment })),
      },
      options,
    ),
  );
  const told = answer.error === 0 && call.version >= PROTOCOL_FROM;
  return {
    errorCode: groupAnswerCode(answer.error),
    assignment: answer.assignment,
    ...(told ? { protocolType: answer.protocolType, protocolName: answer.protocol } : {}),
  };
}
