import {
  apis,
  type ConsumerGroupDescribeResponseAssignment,
  type ConsumerGroupDescribeResponseDescribedGroup,
  type Input,
} from "@sluice/kafka-wire";
import { SluiceError } from "@sluice/core/model";
import type { AssignedTopic, DescribeGroupResponse } from "@sluice/proto/v1/group";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import { groupOperations, NOT_ASKED } from "../authorized-operations.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError } from "../errors.ts";
import { callerOf, checkGroup, groupFailure, permittedTopics } from "../group-calls.ts";
import { kafkaLimits } from "../limits.ts";

type Described = Input<ConsumerGroupDescribeResponseDescribedGroup>;
/** The kind of a member is told from this version on: all members of these groups speak their protocol. */
const MEMBER_TYPE_FROM = 1;
const CONSUMER_MEMBER = 1;

/** Groups that the server assigns, with what each member reads and shall read. */
export const consumerGroupDescribe = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.ConsumerGroupDescribe,
    access: { resource: "group", operation: "describe" },
    handle: async ({ groupIds, includeAuthorizedOperations }, call) => ({
      groups: await inParallel(groupIds, kafkaLimits.groupsParallel, async (groupId): Promise<Described> => {
        try {
          const described = await one(context, call, groupId);
          const isTold = includeAuthorizedOperations && described.errorCode === KafkaError.none;
          return { ...described, authorizedOperations: isTold ? await groupOperations(call, groupId) : NOT_ASKED };
        } catch (error) {
          return { groupId, ...groupFailure(error), authorizedOperations: NOT_ASKED };
        }
      }),
    }),
  });

async function one(context: KafkaContext, call: KafkaCall, groupId: string): Promise<Described> {
  await checkGroup(call, groupId);
  const caller = callerOf(context, call, context.timers.produceHoldMs);
  const found = await context.coordinators.call(groupId, caller, "question", (client, options) =>
    client.describeGroup({ group: groupId }, options),
  );
  if (found.kind !== "consumer") throw new SluiceError("GROUP_NOT_FOUND", `group ${groupId} is not assigned by the server`);
  const names = topicsOf(found);
  if ((await permittedTopics(call, "describe", names)).size < names.size)
    return { groupId, errorCode: KafkaError.topicAuthorizationFailed, errorMessage: "the group reads topics that you may not see" };
  return {
    groupId,
    errorCode: KafkaError.none,
    groupState: found.state,
    groupEpoch: found.groupEpoch,
    assignmentEpoch: found.assignmentEpoch,
    assignorName: found.protocol,
    members: found.members.map((m) => ({
      memberId: m.memberId,
      instanceId: m.instanceId === "" ? null : m.instanceId,
      rackId: m.rackId === "" ? null : m.rackId,
      memberEpoch: m.memberEpoch,
      clientId: m.clientId,
      clientHost: m.clientHost,
      subscribedTopicNames: m.subscribedTopics,
      subscribedTopicRegex: m.topicPattern === "" ? null : m.topicPattern,
      assignment: assignmentOf(m.assigned),
      targetAssignment: assignmentOf(m.target),
      ...(call.version >= MEMBER_TYPE_FROM ? { memberType: CONSUMER_MEMBER } : {}),
    })),
  };
}

/** Of topics that are gone there is no name any more. */
const isThere = ({ topic }: AssignedTopic): boolean => topic !== "";
const topicsOf = ({ members }: DescribeGroupResponse): ReadonlySet<string> =>
  new Set(members.flatMap((m) => [...m.subscribedTopics, ...[...m.assigned, ...m.target].filter(isThere).map(({ topic }) => topic)]));
const assignmentOf = (topics: readonly AssignedTopic[]): Input<ConsumerGroupDescribeResponseAssignment> => ({
  topicPartitions: topics.filter(isThere).map(({ topicId, topic, partitions }) => ({ topicId, topicName: topic, partitions })),
});
