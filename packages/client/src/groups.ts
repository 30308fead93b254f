import { errorCodeOf, SluiceError } from "@sluice/core/model";
import type { AssignedTopic, GroupMember } from "@sluice/proto/v1/group";
import { type Call, int64 } from "./admin.ts";
import type { GroupMemberDescription, Groups, ListedGroup, TopicPartition } from "./group-types.ts";

export function createGroups(call: Call): Groups {
  return {
    async commit(group, offsets, options) {
      const request = {
        group,
        offsets: offsets.map((o) => ({
          topic: o.topic,
          partition: o.partition,
          offset: int64(o.offset, "offset"),
          metadata: o.metadata ?? "",
        })),
      };
      await call(async (link, o) => {
        const { results } = await link.groups.commit(request, o);
        const bad = results.find((r) => r.error !== 0);
        if (bad !== undefined) throw new SluiceError(errorCodeOf(bad.error), `${bad.topic}/${bad.partition}: ${bad.errorMessage}`);
      }, options);
    },
    async fetch(group, topics = [], options) {
      const request = { group, topics: topics.map((t) => ({ topic: t.topic, partitions: [...(t.partitions ?? [])] })) };
      const { offsets } = await call((link, o) => link.groups.fetch(request, o), options);
      return offsets.map((o) => ({
        topic: o.topic,
        partition: o.partition,
        offset: Number(o.offset),
        metadata: o.metadata,
        committedAtMs: Number(o.committedAtMs),
      }));
    },
    async list({ states = [], kinds = [], ...options } = {}) {
      const found: ListedGroup[] = [];
      for (let more = true; more;) {
        const request = { states: [...states], kinds: [...kinds], after: found.at(-1)?.group ?? "" };
        const page = await call((link, o) => link.groups.listGroups(request, o), options);
        for (const g of page.groups) found.push({ group: g.group, kind: kindOf(g.kind), state: g.state, protocolType: g.protocolType });
        more = page.more && page.groups.length > 0;
      }
      return found;
    },
    async describe(group, options) {
      const g = await call((link, o) => link.groups.describeGroup({ group }, o), options);
      const { state, protocolType, protocol, groupEpoch, assignmentEpoch, members } = g;
      return { group, kind: kindOf(g.kind), state, protocolType, protocol, groupEpoch, assignmentEpoch, members: members.map(member) };
    },
    async delete(group, options) {
      await call((link, o) => link.groups.deleteGroup({ group }, o), options, false);
    },
    async deleteOffsets(group, topics, options) {
      const request = { group, topics: topics.map((t) => ({ topic: t.topic, partitions: [...(t.partitions ?? [])] })) };
      const { results } = await call((link, o) => link.groups.deleteOffsets(request, o), options);
      const bad = results.find((r) => r.error !== 0);
      if (bad !== undefined) throw new SluiceError(errorCodeOf(bad.error), `${bad.topic}/${bad.partition}: ${bad.errorMessage}`);
    },
  };
}
const kindOf = (kind: string): "classic" | "consumer" => (kind === "consumer" ? "consumer" : "classic");
const partitionsOf = (topics: readonly AssignedTopic[]): TopicPartition[] =>
  topics.flatMap(({ topic, partitions }) => partitions.map((partition) => ({ topic, partition })));
const member = (m: GroupMember): GroupMemberDescription => ({
  memberId: m.memberId,
  instanceId: m.instanceId,
  rackId: m.rackId,
  clientId: m.clientId,
  clientHost: m.clientHost,
  memberEpoch: m.memberEpoch,
  topics: m.subscribedTopics,
  topicPattern: m.topicPattern,
  assigned: partitionsOf(m.assigned),
  target: partitionsOf(m.target),
});
