import type { GroupMember } from "@sluice/proto/v1/group";
import type { Call } from "./admin.ts";
import type { GroupMemberDescription, Groups, ListedGroup } from "./group-types.ts";
import { offsetsToWire, partitionsOf, throwFirst, topicsToWire } from "./group-wire.ts";

export function createGroups(call: Call): Groups {
  return {
    async commit(group, offsets, options) {
      const request = { group, offsets: offsetsToWire(offsets) };
      await call(async (link, o) => throwFirst((await link.groups.commit(request, o)).results), options);
    },
    async fetch(group, topics = [], options) {
      const request = { group, topics: topicsToWire(topics) };
      const { offsets } = await call((link, o) => link.groups.fetch(request, o), options);
      return offsets.map((o) => ({
        topic: o.topic,
        partition: o.partition,
        offset: Number(o.offset),
        metadata: o.metadata,
        committedAtMs: Number(o.committedAtMs),
      }));
    },
    // Groups that are hidden from the caller are the server's to go past: a page is empty only when nothing follows.
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
      const request = { group, topics: topicsToWire(topics) };
      throwFirst((await call((link, o) => link.groups.deleteOffsets(request, o), options)).results);
    },
  };
}
const kindOf = (kind: string): "classic" | "consumer" => (kind === "consumer" ? "consumer" : "classic");
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
