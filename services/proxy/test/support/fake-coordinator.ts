import { shardOfGroup } from "@sluice/core/group";
import { errorNumber, SluiceError, type ErrorCode } from "@sluice/core/model";
import { CoordinatorService } from "@sluice/proto/internal/v1/coordinator";
import type { CommitRequest } from "@sluice/proto/v1/group";
import { defineAccess, implement, type ServiceRegistration } from "@sluice/rpc";

const internal = { resource: "cluster", operation: "internal" } as const;

/** Keeps offsets in memory, and refuses what its script says. */
export class FakeCoordinator {
  readonly refusals: ErrorCode[] = [];
  readonly heartbeats: { readonly group: string; readonly clientId: string; readonly clientHost: string }[] = [];
  readonly #shards: number;
  readonly #committed = new Map<string, CommitRequest["offsets"]>();

  constructor(shards: number) {
    this.#shards = shards;
  }
  addGroup(group: string): void {
    this.#committed.set(group, []);
  }
  service(): ServiceRegistration {
    const refuse = (): void => {
      const code = this.refusals.shift();
      if (code !== undefined) throw new SluiceError(code, "refused by the script");
    };
    const unscripted = (): never => {
      throw new SluiceError("INTERNAL", "not scripted");
    };
    const access = defineAccess(CoordinatorService, {
      commit: internal,
      fetch: internal,
      joinGroup: internal,
      syncGroup: internal,
      heartbeat: internal,
      leaveGroup: internal,
      consumerHeartbeat: internal,
      listShardGroups: internal,
      describeGroup: internal,
      deleteGroup: internal,
      deleteOffsets: internal,
    });
    return implement(access, {
      joinGroup: unscripted,
      syncGroup: unscripted,
      heartbeat: unscripted,
      leaveGroup: unscripted,
      consumerHeartbeat: ({ request, clientId, clientHost }) => {
        refuse();
        this.heartbeats.push({ group: request?.group ?? "", clientId, clientHost });
        if (request?.memberEpoch === 99) return { error: errorNumber("FENCED_MEMBER_EPOCH"), errorMessage: "fenced by the script" };
        return { response: { memberId: request?.memberId ?? "", memberEpoch: 1, heartbeatIntervalMs: 5 } };
      },
      listShardGroups: ({ shard, request }) => {
        refuse();
        const here = [...this.#committed.keys()].filter((group) => shardOfGroup(group, this.#shards) === shard).sort();
        const after = here.filter((group) => group > (request?.after ?? ""));
        const limit = request?.limit ?? 0;
        const groups = after.slice(0, limit).map((group) => ({ group, kind: "classic", state: "Empty", protocolType: "" }));
        return { response: { groups, more: after.length > limit } };
      },
      describeGroup: unscripted,
      deleteGroup: unscripted,
      deleteOffsets: unscripted,
      commit: (request) => {
        refuse();
        this.#committed.set(request.group, request.offsets);
        return { results: request.offsets.map(({ topic, partition }) => ({ topic, partition })) };
      },
      fetch: (request) => {
        refuse();
        return { offsets: this.#committed.get(request.group) ?? [] };
      },
    });
  }
}
