import { apis, type Input, type ListGroupsResponseListedGroup } from "@sluice/kafka-wire";
import type { ListedGroup } from "@sluice/proto/v1/group";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { callerOf, groupFailureCode } from "../group-calls.ts";
import { kafkaLimits } from "../limits.ts";

/** States, and kinds, are told and can be asked for from these versions on. */
const STATES_FROM = 4;
const KINDS_FROM = 5;

/** This proxy's part of the groups of all coordinators, those that the principal may see: clients ask every broker. */
export const listGroups = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.ListGroups,
    access: { resource: "group", operation: "describe" },
    async handle({ statesFilter, typesFilter }, call) {
      try {
        const groups = await all(context, call, statesFilter, typesFilter);
        const shown: Input<ListGroupsResponseListedGroup>[] = [];
        const lists = context.topology.lists();
        for (const group of groups) if (lists(group.group) && (await call.may(group.group))) shown.push(told(group, call.version));
        return { groups: shown };
      } catch (error) {
        return { errorCode: groupFailureCode(error) };
      }
    },
  });

async function all(
  context: KafkaContext,
  call: KafkaCall,
  statesFilter: readonly string[],
  typesFilter: readonly string[],
): Promise<readonly ListedGroup[]> {
  const caller = callerOf(context, call, context.timers.produceHoldMs);
  const groups: ListedGroup[] = [];
  for (;;) {
    const after = groups.at(-1)?.group ?? "";
    const page = await context.coordinators.list(
      { $typeName: "sluice.v1.ListGroupsRequest", states: [...statesFilter], kinds: [...typesFilter], after, limit: 0 },
      caller,
    );
    groups.push(...page.groups);
    if (!page.more || page.groups.length === 0 || groups.length >= kafkaLimits.listedGroupsMax) return groups;
  }
}

const told = ({ group, kind, state, protocolType }: ListedGroup, version: number): Input<ListGroupsResponseListedGroup> => ({
  groupId: group,
  protocolType,
  ...(version >= STATES_FROM ? { groupState: state } : {}),
  ...(version >= KINDS_FROM ? { groupType: kind } : {}),
});
