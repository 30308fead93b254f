import { shardOfGroup } from "@sluice/core/group";
import { errorNumber, SluiceError, type ErrorCode } from "@sluice/core/model";
import { CoordinatorService } from "@sluice/proto/internal/v1/coordinator";
import type { CommitRequest, GroupHeartbeatRequest } from "@sluice/proto/v1/group";
import { defineAccess, implement, type ServiceRegistration } from "@sluice/rpc";

/** Answers of calls that have no other meaning here, by the name of the call. */
export type Script = Partial<
  Record<
    "joinGroup" | "syncGroup" | "heartbeat" | "leaveGroup" | "describeGroup" | "deleteGroup" | "deleteOffsets",
    (request: never) => unknown
  >
>;

const internal = { resource: "cluster", operation: "internal" } as const;

/** Keeps offsets in memory, and refuses what its script says. */
export class FakeCoordinator {
  readonly refusals: ErrorCode[] = [];
  readonly heartbeats: { readonly group: string; readonly clientId: string; readonly clientHost: string }[] = [];
  /** Answers of a test's own. */
  script: Script = {};
  /** Requests that the script has answered. */
  readonly scripted: unknown[] = [];
  readonly consumerRequests: GroupHeartbeatRequest[] = [];
  readonly commits: CommitRequest[] = [];
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
    const scripted =
      (name: keyof Script) =>
      (request: unknown): never => {
        refuse();
        const answer = this.script[name];
        if (answer === undefined) throw new SluiceError("INTERNAL", `${name} is not scripted`);
        this.scripted.push(request);
        return answer(request as never) as never;
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
      joinGroup: scripted("joinGroup"),
      syncGroup: scripted("syncGroup"),
      heartbeat: scripted("heartbeat"),
      leaveGroup: scripted("leaveGroup"),
      consumerHeartbeat: ({ request, clientId, clientHost }) => {
        refuse();
        if (request !== undefined) this.consumerRequests.push(request);
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
      describeGroup: scripted("describeGroup"),
      deleteGroup: scripted("deleteGroup"),
      deleteOffsets: scripted("deleteOffsets"),
      commit: (request) => {
        refuse();
        this.commits.push(request);
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
