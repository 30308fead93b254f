import { committedOffsets } from "@sluice/core/group";
import { DEFAULT_TENANT, limits, SluiceError, topicId } from "@sluice/core/model";
import type { FetchCommittedRequest } from "@sluice/proto/v1/group";
import type { CallContext } from "@sluice/rpc";
import { deadlineOf, shardFor, type HandlerParts } from "./parts.ts";

const utf8 = new TextDecoder();
/** What an entry of the reply takes beside its name and its metadata, at most. */
const ENTRY_BYTES = 48;

/** Committed offsets of a group: everything that was committed before the call came. Topics that are gone are left out. */
export function fetchCommitted(parts: HandlerParts) {
  const { clock, metrics, topics } = parts;
  return async (request: FetchCommittedRequest, context: CallContext) => {
    const shard = shardFor(parts, request.group);
    if (request.topics.length > limits.groupOffsetsPerRequestMax)
      throw new SluiceError(
        "INVALID_ARGUMENT",
        `${request.topics.length} topics, the limit of one fetch is ${limits.groupOffsetsPerRequestMax}`,
      );
    metrics.fetches.inc();
    const wanted = request.topics.length === 0 ? undefined : await wantedTopics(parts, request);
    const key = { tenant: DEFAULT_TENANT, group: request.group };
    const host = parts.groupsOf(shard);
    const { memberId, memberEpoch } = request;
    const { refused, entries } = await shard.read(deadlineOf(clock, context), (state) => ({
      refused: memberEpoch === undefined ? undefined : host.mayFetch(state, key, memberId, memberEpoch),
      entries: committedOffsets(state, key.tenant, key.group, wanted),
    }));
    if (refused !== undefined)
      throw new SluiceError(refused, `member ${memberId} may not ask for offsets of group ${request.group} in epoch ${memberEpoch}`);
    const names = await topics.byIds(new Set(entries.map((e) => topicId(e.topicId))));
    let bytes = 0;
    const offsets = [];
    for (const { topicId: id, partition, value } of entries) {
      const topic = names.get(topicId(id));
      if (topic === undefined) continue;
      bytes += ENTRY_BYTES + topic.name.length + value.metadata.length;
      offsets.push({
        topic: topic.name,
        partition,
        offset: BigInt(value.offset),
        metadata: utf8.decode(value.metadata),
        committedAtMs: BigInt(value.committedAtMs),
        ...(value.leaderEpoch < 0 ? {} : { leaderEpoch: value.leaderEpoch }),
      });
    }
    if (bytes > limits.grpcReplyBytesMax)
      throw new SluiceError(
        "MESSAGE_TOO_LARGE",
        `the offsets of group ${request.group} take ${bytes} bytes; ask for fewer topics at a time`,
      );
    return { offsets };
  };
}

/** Partitions by topic id; an empty set = all of the topic. */
async function wantedTopics({ topics }: HandlerParts, request: FetchCommittedRequest): Promise<ReadonlyMap<string, ReadonlySet<number>>> {
  const wanted = new Map<string, Set<number>>();
  for (const { topic: name, topicId: id, partitions } of request.topics) {
    const topic = await topics.byName(DEFAULT_TENANT, name, id);
    if (topic === undefined) continue;
    const known = wanted.get(topic.topicId);
    // Named twice: one "all" wins.
    if (known === undefined) wanted.set(topic.topicId, new Set(partitions));
    else if (partitions.length === 0) known.clear();
    else if (known.size > 0) for (const p of partitions) known.add(p);
  }
  return wanted;
}
