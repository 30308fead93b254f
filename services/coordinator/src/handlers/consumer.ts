import { toAssignment, type Assignment } from "@sluice/core/group";
import { DEFAULT_TENANT, limits, SluiceError } from "@sluice/core/model";
import type { ConsumerHeartbeatRequest } from "@sluice/proto/internal/v1/coordinator";
import type { OwnedPartitions } from "@sluice/proto/v1/group";
import type { CallContext } from "@sluice/rpc";
import type { ViewTopics } from "../topic-lookup.ts";
import { cutText, deadlineOf, errorFields, hostFor, type HandlerParts } from "./parts.ts";

/** A heartbeat of a member of a group that the server assigns. */
export function consumerHeartbeat(parts: HandlerParts) {
  const { clock, lookup, random } = parts;
  return async ({ request: r, clientId, clientHost }: ConsumerHeartbeatRequest, context: CallContext) => {
    if (r === undefined) throw new SluiceError("INVALID_ARGUMENT", "the request is missing");
    const reply = await hostFor(parts, r.group).consumerHeartbeat(
      {
        tenant: DEFAULT_TENANT,
        group: r.group,
        memberId: r.memberId === "" && r.memberEpoch === 0 ? random.uuid() : r.memberId,
        memberEpoch: r.memberEpoch,
        instanceId: r.instanceId,
        rackId: r.rackId,
        clientId: cutText(clientId),
        clientHost: cutText(clientHost),
        rebalanceTimeoutMs: r.rebalanceTimeoutMs,
        subscription: r.subscription && { topics: r.subscription.topics, pattern: r.subscription.topicPattern },
        assignor: r.assignor,
        owned: r.owned && ownedPartitions(lookup, r.owned),
      },
      deadlineOf(clock, context),
      context.signal,
    );
    const { code, message, memberId, memberEpoch, heartbeatIntervalMs, assignment } = reply;
    const told = assignment === undefined ? {} : { assignment: { topics: namedTopics(lookup, assignment) } };
    return { ...errorFields(code, message), response: { memberId, memberEpoch, heartbeatIntervalMs, ...told } };
  };
}

/** Topics that are gone are nobody's. Throws INVALID_ARGUMENT. */
function ownedPartitions(lookup: ViewTopics, { topics }: OwnedPartitions): Assignment {
  const sets = new Map<string, Set<number>>();
  let count = 0;
  for (const { topicId, topic, partitions } of topics) {
    const id = topicId === "" ? lookup.topic(DEFAULT_TENANT, topic)?.topicId : topicId;
    count += partitions.length;
    if (count > limits.groupOwnedPartitionsMax)
      throw new SluiceError("INVALID_ARGUMENT", `a member owns at most ${limits.groupOwnedPartitionsMax} partitions`);
    if (id === undefined) continue;
    const set = sets.get(id) ?? new Set<number>();
    sets.set(id, set);
    for (const p of partitions) set.add(p);
  }
  return toAssignment(sets);
}
export const namedTopics = (lookup: ViewTopics, assignment: Assignment) =>
  assignment.map(({ topicId, partitions }) => ({ topicId, topic: lookup.nameOf(topicId) ?? "", partitions: [...partitions] }));
