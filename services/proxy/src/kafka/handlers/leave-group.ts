import { apis } from "@sluice/kafka-wire";
import { defineHandler, type AnyHandler } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { callerOf, checkGroup, groupAnswerCode, groupFailureCode } from "../group-calls.ts";

/** Several members in one request from this version on. */
const MEMBERS_FROM = 3;

export const leaveGroup = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.LeaveGroup,
    access: { resource: "group", operation: "read" },
    async handle({ groupId, memberId, members }, call) {
      const leaving = call.version >= MEMBERS_FROM ? members : [{ memberId, groupInstanceId: null, reason: null }];
      try {
        await checkGroup(call, groupId);
        const caller = callerOf(context, call, context.timers.produceHoldMs);
        const answer = await context.coordinators.call(groupId, caller, "change", (client, options) =>
          client.leaveGroup(
            {
              group: groupId,
              members: leaving.map((m) => ({
                memberId: m.memberId,
                ...(m.groupInstanceId === null ? {} : { instanceId: m.groupInstanceId }),
                reason: m.reason ?? "",
              })),
            },
            options,
          ),
        );
        const left = answer.members.map((m) => ({
          memberId: m.memberId,
          groupInstanceId: m.instanceId ?? null,
          errorCode: groupAnswerCode(m.error),
        }));
        const errorCode = groupAnswerCode(answer.error);
        if (call.version >= MEMBERS_FROM) return { errorCode, members: left };
        return { errorCode: errorCode === 0 ? (left[0]?.errorCode ?? 0) : errorCode };
      } catch (error) {
        return { errorCode: groupFailureCode(error) };
      }
    },
  });
