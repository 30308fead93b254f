import { apis } from "@sluice/kafka-wire";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { callerOf, checkGroup, groupFailureCode } from "../group-calls.ts";
import { kafkaLimits } from "../limits.ts";

/** Groups without members, with their offsets. */
export const deleteGroups = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.DeleteGroups,
    access: { resource: "group", operation: "delete" },
    handle: async ({ groupsNames }, call) => ({
      results: await inParallel(groupsNames, kafkaLimits.groupsParallel, async (groupId) => {
        try {
          await checkGroup(call, groupId);
          const caller = callerOf(context, call, context.timers.produceHoldMs);
          await context.coordinators.call(groupId, caller, "change", (client, options) => client.deleteGroup({ group: groupId }, options));
          return { groupId };
        } catch (error) {
          return { groupId, errorCode: groupFailureCode(error) };
        }
      }),
    }),
  });
