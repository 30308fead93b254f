import { errorNumber, SluiceError } from "@sluice/core/model";
import { GroupService } from "@sluice/proto/v1/group";
import { defineAccess, implement } from "@sluice/rpc";

/** What the groups of the fake need of it. */
export interface GroupsHome {
  readonly topics: ReadonlyMap<string, unknown>;
  readonly commits: Map<string, { readonly offset: number; readonly metadata: string }>;
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

export const groups = (cluster: GroupsHome) =>
  implement(access, {
    async commit(request) {
      const results = request.offsets.map((o) => {
        const known = cluster.topics.has(o.topic);
        if (known) cluster.commits.set(`${request.group}/${o.topic}/${o.partition}`, { offset: Number(o.offset), metadata: o.metadata });
        return { topic: o.topic, partition: o.partition, error: known ? 0 : errorNumber("UNKNOWN_TOPIC"), errorMessage: known ? "" : "no" };
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
    heartbeat: () => {
      throw new SluiceError("GROUP_LIMIT", "this cluster has no members");
    },
    listGroups: () => ({ groups: [], more: false }),
    describeGroup: () => {
      throw new SluiceError("GROUP_NOT_FOUND", "no such group");
    },
    deleteGroup: () => ({}),
    deleteOffsets: () => ({ results: [] }),
  });
