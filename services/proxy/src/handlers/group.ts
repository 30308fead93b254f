import { GroupService } from "@sluice/proto/v1/group";
import { defineAccess, implement, type ServiceRegistration } from "@sluice/rpc";
import type { CoordinatorClient } from "../coordinator-client.ts";

export const groupAccess = defineAccess(GroupService, {
  commit: { resource: "group", operation: "read" },
  fetch: { resource: "group", operation: "describe" },
});

/** Calls about a group go to the coordinator of its shard. */
export function groupService(coordinators: CoordinatorClient): ServiceRegistration {
  return implement(groupAccess, {
    async commit(request, call) {
      await call.authorize(request.group);
      return coordinators.call(request.group, call, false, (client, options) => client.commit(request, options));
    },
    async fetch(request, call) {
      await call.authorize(request.group);
      return coordinators.call(request.group, call, true, (client, options) => client.fetch(request, options));
    },
  });
}
