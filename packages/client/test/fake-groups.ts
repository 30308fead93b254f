import {
  decideExpel,
  decideHeartbeat,
  createShardState,
  mayUseOffsets,
  replay,
  toAssignment,
  type ConsumerGroup,
  type GroupRecord,
} from "@sluice/core/group";
import { errorNumber, SluiceError, type ErrorCode } from "@sluice/core/model";
import { GroupService, type CommitRequest, type GroupHeartbeatRequest } from "@sluice/proto/v1/group";
import { defineAccess, implement } from "@sluice/rpc";

/** What the groups of the fake need of it. */
export interface GroupsHome {
  readonly topics: ReadonlyMap<string, { readonly length: number }>;
  readonly commits: Map<string, { readonly offset: number; readonly metadata: string }>;
  readonly groups: FakeGroups;
}
const open = { resource: "group", operation: "read" } as const;
const access = defineAccess(GroupService, {
  commit: open,
  fetch: open,
  heartbeat: open,
  listGroups: open,
  describeGroup: open,
  deleteGroup: open,
  deleteOffsets: open,
});
const tenant = "default";
const INTERVAL_MS = 15;

/** Members of groups as the coordinator's own machine decides about them, in memory; nobody is out unless the test says so. */
export class FakeGroups {
  /** Thrown at the next heartbeats, in order. */
  readonly refusals: ErrorCode[] = [];
  readonly beats: GroupHeartbeatRequest[] = [];
  readonly #state = createShardState();
  readonly #topics: () => GroupsHome["topics"];

  constructor(topics: () => GroupsHome["topics"]) {
    this.#topics = topics;
  }
  members(group: string): ConsumerGroup["members"] {
    return this.#group(group)?.members ?? new Map();
  }
  expel(group: string, memberId: string): void {
    this.#store(decideExpel(this.#state, { tenant, group }, [memberId], 1));
  }
  refusalOf({ group, memberId, memberEpoch = -1 }: CommitRequest): ErrorCode | undefined {
    const there = this.#group(group);
    return there === undefined ? undefined : mayUseOffsets(there, memberId, memberEpoch);
  }
  heartbeat(r: GroupHeartbeatRequest) {
    this.beats.push(r);
    const refusal = this.refusals.shift();
    if (refusal !== undefined) throw new SluiceError(refusal, "refused by the script");
    const topics = this.#topics();
    const owned = r.owned && toAssignment(new Map(r.owned.topics.map((t) => [t.topic, t.partitions])));
    const { records, reply } = decideHeartbeat(
      this.#state,
      {
        tenant,
        group: r.group,
        memberId: r.memberId,
        memberEpoch: r.memberEpoch,
        instanceId: r.instanceId,
        rackId: r.rackId,
        clientId: "",
        clientHost: "",
        rebalanceTimeoutMs: r.rebalanceTimeoutMs,
        subscription: r.subscription && { topics: r.subscription.topics, pattern: r.subscription.topicPattern },
        assignor: r.assignor,
        owned,
      },
      {
        config: {
          sessionTimeoutMinMs: 1,
          sessionTimeoutMaxMs: 1,
          initialRebalanceDelayMs: 0,
          membersMax: 100,
          consumerSessionTimeoutMs: 1,
          consumerHeartbeatIntervalMs: INTERVAL_MS,
          offsetsRetentionMs: 1,
        },
        topics: {
          topic: (_, name) => {
            const partitions = topics.get(name)?.length;
            return partitions === undefined ? undefined : { topicId: name, partitions };
          },
          matching: (_, pattern) => [...topics.keys()].filter((name) => new RegExp(`^(?:${pattern})$`).test(name)),
        },
        nowMs: 1,
        hasClassicMembers: false,
        topicsAreKnown: false,
      },
    );
    this.#store(records);
    if (reply.code !== undefined) throw new SluiceError(reply.code, "so the machine says");
    const { memberId, memberEpoch, heartbeatIntervalMs, assignment } = reply;
    const told = assignment?.map((t) => ({ topic: t.topicId, topicId: t.topicId, partitions: [...t.partitions] }));
    return { memberId, memberEpoch, heartbeatIntervalMs, ...(told === undefined ? {} : { assignment: { topics: told } }) };
  }

  #group(group: string): ConsumerGroup | undefined {
    const members = this.#state.groups.get(`${tenant}/${group}`)?.members;
    return members?.kind === "consumer" ? members : undefined;
  }
  #store(records: readonly GroupRecord[]): void {
    for (const record of records) replay(this.#state, this.#state.nextOffset, record);
  }
}

export const groups = (cluster: GroupsHome) =>
  implement(access, {
    async commit(request) {
      const refused = cluster.groups.refusalOf(request);
      const results = request.offsets.map((o) => {
        const code = refused ?? (cluster.topics.has(o.topic) ? undefined : "UNKNOWN_TOPIC");
        if (code === undefined)
          cluster.commits.set(`${request.group}/${o.topic}/${o.partition}`, { offset: Number(o.offset), metadata: o.metadata });
        return { topic: o.topic, partition: o.partition, error: code === undefined ? 0 : errorNumber(code), errorMessage: code ?? "" };
      });
      return { results };
    },
    async fetch(request) {
      const offsets = [...cluster.commits].flatMap(([key, c]) => {
        const [group, topic = "", partition] = key.split("/");
        if (group !== request.group) return [];
        return [{ topic, partition: Number(partition), offset: BigInt(c.offset), metadata: c.metadata, committedAtMs: 5n }];
      });
      return { offsets };
    },
    heartbeat: (request) => cluster.groups.heartbeat(request),
    listGroups: ({ after }) => {
      const all = ["a", "b", "c"].map((group) => ({
        group,
        kind: group === "b" ? "consumer" : "classic",
        state: "Empty",
        protocolType: "",
      }));
      const rest = all.filter((g) => g.group > after);
      return { groups: rest.slice(0, 2), more: rest.length > 2 };
    },
    describeGroup: ({ group }) => {
      const members = [...cluster.groups.members(group)].map(([memberId, m]) => ({
        memberId,
        memberEpoch: m.memberEpoch,
        subscribedTopics: [...m.topics],
        assigned: m.assigned.map((t) => ({ topic: t.topicId, partitions: [...t.partitions] })),
      }));
      if (members.length === 0) throw new SluiceError("GROUP_NOT_FOUND", "no such group");
      return { group, kind: "consumer", state: "Stable", protocol: "uniform", members };
    },
    deleteGroup: ({ group }) => {
      if (cluster.groups.members(group).size > 0) throw new SluiceError("NON_EMPTY_GROUP", "it has members");
      return {};
    },
    deleteOffsets: ({ group, topics }) => {
      const results = topics.flatMap(({ topic, partitions }) =>
        partitions.map((partition) => ({
          topic,
          partition,
          error: cluster.commits.delete(`${group}/${topic}/${partition}`) ? 0 : errorNumber("GROUP_SUBSCRIBED_TO_TOPIC"),
        })),
      );
      return { results };
    },
  });
