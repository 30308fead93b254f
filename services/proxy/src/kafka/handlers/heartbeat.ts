import { apis } from "@sluice/kafka-wire";
import { defineHandler, type AnyHandler } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { callerOf, checkGroup, groupAnswerCode, groupFailureCode } from "../group-calls.ts";

/** A member of a classic group is alive, and hears whether it must join again. */
export const heartbeat = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.Heartbeat,
    access: { resource: "group", operation: "read" },
    async handle({ groupId, generationId, memberId, groupInstanceId }, call) {
      try {
        await checkGroup(call, groupId);
        // Not for long: the client has a session to keep, and another proxy may be luckier.
        const caller = callerOf(context, call, context.timers.controlCallTimeoutMs);
        const instance = groupInstanceId === null ? {} : { instanceId: groupInstanceId };
        const { error } = await context.coordinators.call(groupId, caller, "change", (client, options) =>
          client.heartbeat({ group: groupId, memberId, generation: generationId, ...instance }, options),
        );
        return { errorCode: groupAnswerCode(error) };
      } catch (error) {
        return { errorCode: groupFailureCode(error) };
      }
    },
  });
