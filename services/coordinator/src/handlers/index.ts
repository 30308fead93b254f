import { codeOf } from "@sluice/core/model";
import { CoordinatorService } from "@sluice/proto/internal/v1/coordinator";
import { defineAccess, implement, type CallContext, type ServiceRegistration } from "@sluice/rpc";
import { commit } from "./commit.ts";
import { consumerHeartbeat } from "./consumer.ts";
import { fetchCommitted } from "./fetch.ts";
import { deleteGroup, deleteOffsets, describe, listShardGroups } from "./groups.ts";
import { heartbeatGroup, joinGroup, leaveGroup, syncGroup } from "./members.ts";
import type { HandlerParts } from "./parts.ts";

const access = defineAccess(CoordinatorService, {
  commit: { resource: "group", operation: "internal" },
  fetch: { resource: "group", operation: "internal" },
  joinGroup: { resource: "group", operation: "internal" },
  syncGroup: { resource: "group", operation: "internal" },
  heartbeat: { resource: "group", operation: "internal" },
  leaveGroup: { resource: "group", operation: "internal" },
  consumerHeartbeat: { resource: "group", operation: "internal" },
  listShardGroups: { resource: "group", operation: "internal" },
  describeGroup: { resource: "group", operation: "internal" },
  deleteGroup: { resource: "group", operation: "internal" },
  deleteOffsets: { resource: "group", operation: "internal" },
});

export function coordinatorHandlers(parts: HandlerParts): ServiceRegistration {
  return implement(access, {
    commit: counted(parts, commit(parts)),
    fetch: counted(parts, fetchCommitted(parts)),
    joinGroup: counted(parts, joinGroup(parts)),
    syncGroup: counted(parts, syncGroup(parts)),
    heartbeat: counted(parts, heartbeatGroup(parts)),
    leaveGroup: counted(parts, leaveGroup(parts)),
    consumerHeartbeat: counted(parts, consumerHeartbeat(parts)),
    listShardGroups: counted(parts, listShardGroups(parts)),
    describeGroup: counted(parts, describe(parts)),
    deleteGroup: counted(parts, deleteGroup(parts)),
    deleteOffsets: counted(parts, deleteOffsets(parts)),
  });
}

function counted<Request, Response>(
  { metrics }: HandlerParts,
  handle: (request: Request, context: CallContext) => Promise<Response>,
): (request: Request, context: CallContext) => Promise<Response> {
  return async (request, context) => {
    try {
      return await handle(request, context);
    } catch (error) {
      metrics.refused.labels(codeOf(error)).inc();
      throw error;
    }
  };
}
