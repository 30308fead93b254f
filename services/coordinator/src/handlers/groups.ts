import { committedOffsets, describeGroup, listGroups, type OffsetToDelete } from "@sluice/core/group";
import { DEFAULT_TENANT, limits, SluiceError, type ErrorCode } from "@sluice/core/model";
import type { ListShardGroupsRequest } from "@sluice/proto/internal/v1/coordinator";
import type { DeleteGroupRequest, DeleteOffsetsRequest, DescribeGroupRequest } from "@sluice/proto/v1/group";
import type { CallContext } from "@sluice/rpc";
import { namedTopics } from "./consumer.ts";
import { deadlineOf, errorFields, hostFor, shardFor, type HandlerParts } from "./parts.ts";

const tenant = DEFAULT_TENANT;
/** Groups of one page. */
const PAGE_MAX = 1_000;

export function listShardGroups(parts: HandlerParts) {
  return async ({ shard: number, request }: ListShardGroupsRequest, context: CallContext) => {
    const shard = parts.shards.get(number);
    if (shard === undefined) throw new SluiceError("NOT_COORDINATOR", `shard ${number} is not here`);
    const { after = "", states = [], kinds = [], limit = 0 } = request ?? {};
    const page = { after, states, kinds, limit: limit === 0 ? PAGE_MAX : Math.min(limit, PAGE_MAX) };
    const { classics } = parts.groupsOf(shard);
    const { groups, more } = await shard.read(deadlineOf(parts.clock, context), (state) => listGroups(state, classics, tenant, page));
    return { response: { groups: [...groups], more } };
  };
}

export function describe(parts: HandlerParts) {
  return async ({ group }: DescribeGroupRequest, context: CallContext) => {
    const shard = shardFor(parts, group);
    const { classics } = parts.groupsOf(shard);
    const found = await shard.read(deadlineOf(parts.clock, context), (state) => describeGroup(state, classics, { tenant, group }));
    if (found === undefined) throw new SluiceError("GROUP_NOT_FOUND", `there is no group ${group}`);
    let bytes = 0;
    for (const m of found.members) bytes += m.metadata.length + m.assignment.length;
    const isTooLong = bytes > limits.grpcReplyBytesMax;
    return {
      ...found,
      members: found.members.map(({ topics, pattern, assigned, target, ...m }) => ({
        ...m,
        // What members tell each other is theirs: of a huge group it is left out.
        ...(isTooLong ? { metadata: new Uint8Array(0), assignment: new Uint8Array(0) } : {}),
        subscribedTopics: [...topics],
        topicPattern: pattern,
        assigned: namedTopics(parts.lookup, assigned),
        target: namedTopics(parts.lookup, target),
      })),
    };
  };
}

export function deleteGroup(parts: HandlerParts) {
  return async ({ group }: DeleteGroupRequest, context: CallContext) => {
    await hostFor(parts, group).delete({ tenant, group }, deadlineOf(parts.clock, context));
    return {};
  };
}

export function deleteOffsets(parts: HandlerParts) {
  return async (request: DeleteOffsetsRequest, context: CallContext) => {
    const deadlineMs = deadlineOf(parts.clock, context);
    const { group } = request;
    const wanted = await wantedOffsets(parts, request, deadlineMs);
    const offsets = wanted.filter((o) => o.topicId !== "");
    const codes = await hostFor(parts, group).deleteOffsets({ tenant, group }, offsets, deadlineMs);
    const byOffset = new Map<OffsetToDelete, ErrorCode | undefined>(offsets.map((o, i) => [o, codes[i]]));
    return {
      results: wanted.map((o) => {
        const code = o.topicId === "" ? "UNKNOWN_TOPIC" : byOffset.get(o);
        return { topic: o.topic, partition: o.partition, ...errorFields(code) };
      }),
    };
  };
}
/** No topic id: there is no such topic. What a whole topic has is asked of the shard as it is once everything before the call is in it. */
async function wantedOffsets(parts: HandlerParts, { group, topics }: DeleteOffsetsRequest, deadlineMs: number): Promise<OffsetToDelete[]> {
  const shard = shardFor(parts, group);
  const needsKnown = topics.some(({ partitions }) => partitions.length === 0);
  const known = needsKnown ? await shard.read(deadlineMs, (state) => committedOffsets(state, tenant, group)) : [];
  const wanted: OffsetToDelete[] = [];
  for (const { topic, topicId: meant, partitions } of topics) {
    const topicId = (await parts.topics.byName(tenant, topic, meant))?.topicId ?? "";
    const all = partitions.length > 0 ? partitions : known.filter((o) => o.topicId === topicId).map((o) => o.partition);
    for (const partition of all) wanted.push({ topic, topicId, partition });
    if (wanted.length > limits.groupOffsetsPerRequestMax)
      throw new SluiceError(
        "INVALID_ARGUMENT",
        `${wanted.length} offsets, the limit of one request is ${limits.groupOffsetsPerRequestMax}`,
      );
  }
  return wanted;
}
