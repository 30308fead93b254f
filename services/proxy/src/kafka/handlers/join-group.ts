import { errorCatalogue } from "@sluice/core/model";
import { apis, type Input, type JoinGroupRequest, type JoinGroupResponse } from "@sluice/kafka-wire";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError } from "../errors.ts";
import { checkGroup, groupAnswerCode, groupFailureCode } from "../group-calls.ts";
import { kafkaLimits } from "../limits.ts";

/** From these versions on: a new member is told its id first; a leader may be told to skip its work; what is not known is null. */
const MEMBER_ID_FROM = 4;
const SKIP_FROM = 9;
const NULL_FROM = 7;

/**
 * A join that a later one of the same member has replaced. librdkafka gives a rebalance that is told here to the application as an error; it joins again
 * when the coordinator is not available.
 */
const SUPERSEDED = errorCatalogue.REBALANCE_IN_PROGRESS.number;

/**
 * Waits for the other members as long as the member itself says. As with Kafka, later requests of the same connection wait behind it: clients have a
 * connection for their group alone. A proxy that drains sends its members elsewhere; they keep their places.
 */
export const joinGroup = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.JoinGroup,
    access: { resource: "group", operation: "read" },
    async handle(request, call) {
      try {
        await checkGroup(call, request.groupId);
        return await join(context, request, call);
      } catch (error) {
        const errorCode = call.ending.aborted ? KafkaError.notCoordinator : groupFailureCode(error);
        return { errorCode, memberId: request.memberId, ...protocolOf(call, "", "") };
      }
    },
  });

async function join(context: KafkaContext, request: JoinGroupRequest, call: KafkaCall): Promise<Input<JoinGroupResponse>> {
  const { groupId, sessionTimeoutMs, rebalanceTimeoutMs, memberId, groupInstanceId, protocolType, protocols, reason } = request;
  const answer = await context.coordinators.call(groupId, waiting(context, call, request), "waiting", (client, options) =>
    client.joinGroup(
      {
        group: groupId,
        memberId,
        ...(groupInstanceId === null ? {} : { instanceId: groupInstanceId }),
        clientId: call.clientId,
        clientHost: call.clientHost,
        sessionTimeoutMs,
        rebalanceTimeoutMs: Math.max(0, rebalanceTimeoutMs),
        protocolType,
        protocols: protocols.map(({ name, metadata }) => ({ name, metadata })),
        requireKnownMemberId: call.version >= MEMBER_ID_FROM,
        supportsSkipAssignment: call.version >= SKIP_FROM,
        reason: reason ?? "",
      },
      options,
    ),
  );
  return {
    errorCode: answer.error === SUPERSEDED ? KafkaError.coordinatorNotAvailable : groupAnswerCode(answer.error),
    generationId: answer.generation,
    ...protocolOf(call, answer.protocolType, answer.protocol),
    leader: answer.leader,
    ...(call.version >= SKIP_FROM ? { skipAssignment: answer.skipAssignment } : {}),
    memberId: answer.memberId,
    members: answer.members.map((m) => ({ memberId: m.memberId, groupInstanceId: m.instanceId ?? null, metadata: m.metadata })),
  };
}
function waiting({ clock }: KafkaContext, call: KafkaCall, { sessionTimeoutMs, rebalanceTimeoutMs }: JoinGroupRequest) {
  const ownMs = Math.max(sessionTimeoutMs, rebalanceTimeoutMs, 0) + kafkaLimits.groupWaitMarginMs;
  return { deadlineMs: clock.monotonicMs() + Math.min(ownMs, kafkaLimits.groupWaitMsMax), signal: call.ending };
}
function protocolOf({ version }: KafkaCall, protocolType: string, protocolName: string) {
  if (version < NULL_FROM) return { protocolName };
  return { protocolType: protocolType === "" ? null : protocolType, protocolName: protocolName === "" ? null : protocolName };
}
