import { codeOf } from "@sluice/core/model";
import { apis, type DescribeGroupsResponseDescribedGroup, type Input } from "@sluice/kafka-wire";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import { groupOperations, NOT_ASKED } from "../authorized-operations.ts";
import type { KafkaContext } from "../context.ts";
import { kafkaCodeOf } from "../errors.ts";
import { callerOf, checkGroup, groupFailure } from "../group-calls.ts";
import { kafkaLimits } from "../limits.ts";

type Described = Input<DescribeGroupsResponseDescribedGroup>;
/** A group that is not there is an error from this version on. Before, it was in the state Dead. */
const NOT_FOUND_FROM = 6;
const OPERATIONS_FROM = 3;

/** Classic groups. What members say to each other is passed on as it is. */
export const describeGroups = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.DescribeGroups,
    access: { resource: "group", operation: "describe" },
    handle: async ({ groups, includeAuthorizedOperations }, call) => ({
      groups: await inParallel(groups, kafkaLimits.groupsParallel, async (group) => {
        const described = await one(context, call, group);
        if (call.version < OPERATIONS_FROM) return described;
        const isTold = includeAuthorizedOperations && (described.errorCode ?? 0) === 0;
        return { ...described, authorizedOperations: isTold ? await groupOperations(call, group) : NOT_ASKED };
      }),
    }),
  });

async function one(context: KafkaContext, call: KafkaCall, groupId: string): Promise<Described> {
  try {
    await checkGroup(call, groupId);
    const caller = callerOf(context, call, context.timers.produceHoldMs);
    const found = await context.coordinators.call(groupId, caller, "question", (client, options) =>
      client.describeGroup({ group: groupId }, options),
    );
    if (found.kind !== "classic") return missing(call, groupId, `group ${groupId} is not a classic group`);
    return {
      groupId,
      groupState: found.state,
      protocolType: found.protocolType,
      protocolData: found.protocol,
      members: found.members.map((m) => ({
        memberId: m.memberId,
        groupInstanceId: m.instanceId === "" ? null : m.instanceId,
        clientId: m.clientId,
        clientHost: m.clientHost,
        memberMetadata: m.metadata,
        memberAssignment: m.assignment,
      })),
    };
  } catch (error) {
    if (codeOf(error) === "GROUP_NOT_FOUND") return missing(call, groupId, `there is no group ${groupId}`);
    return failed(call, groupId, groupFailure(error));
  }
}
function missing(call: KafkaCall, groupId: string, errorMessage: string): Described {
  if (call.version < NOT_FOUND_FROM) return { groupId, groupState: "Dead" };
  return { ...failed(call, groupId, { errorCode: kafkaCodeOf("GROUP_NOT_FOUND"), errorMessage }), groupState: "Dead" };
}
const failed = ({ version }: KafkaCall, groupId: string, failure: { errorCode: number; errorMessage: string | null }): Described =>
  version < NOT_FOUND_FROM ? { groupId, errorCode: failure.errorCode } : { groupId, ...failure };
