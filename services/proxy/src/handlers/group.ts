import { errorCodeOf, SluiceError } from "@sluice/core/model";
import { GroupService } from "@sluice/proto/v1/group";
import { defineAccess, implement, type ServiceRegistration } from "@sluice/rpc";
import { withConsumerProtocol } from "../consumer-protocol.ts";
import type { CoordinatorClient } from "../coordinator-client.ts";
import type { Topics } from "../topics.ts";
import { isAuthorized } from "./authorized.ts";

export const groupAccess = defineAccess(GroupService, {
  commit: { resource: "group", operation: "read" },
  fetch: { resource: "group", operation: "describe" },
  heartbeat: { resource: "group", operation: "read" },
  listGroups: { resource: "group", operation: "describe" },
  describeGroup: { resource: "group", operation: "describe" },
  deleteGroup: { resource: "group", operation: "delete" },
  deleteOffsets: { resource: "group", operation: "delete" },
});

/** Calls about a group go to the coordinator of its shard. */
export function groupService(coordinators: CoordinatorClient, topics: Topics): ServiceRegistration {
  return implement(groupAccess, {
    async commit(request, call) {
      await call.authorize(request.group);
      const offsets = topics.identified(call.principal.tenant, request.offsets);
      return coordinators.call(request.group, call, "change", (client, options) => client.commit({ ...request, offsets }, options));
    },
    async fetch(request, call) {
      await call.authorize(request.group);
      const asked = { ...request, topics: topics.identified(call.principal.tenant, request.topics) };
      return coordinators.call(request.group, call, "question", (client, options) => client.fetch(asked, options));
    },
    async heartbeat(request, call) {
      await call.authorize(request.group);
      const clientHost = hostOf(call.peer);
      const { error, errorMessage, response } = await coordinators.call(request.group, call, "change", (client, options) =>
        client.consumerHeartbeat({ request, clientId: call.clientId, clientHost }, options),
      );
      if (error !== 0) throw new SluiceError(errorCodeOf(error), errorMessage);
      if (response === undefined) throw new SluiceError("INTERNAL", "the coordinator's answer is empty");
      return response;
    },
    async listGroups(request, call) {
      let { after } = request;
      for (;;) {
        const { groups, more } = await coordinators.list({ ...request, after }, call);
        const shown = [];
        for (const group of groups) if (await isAuthorized(call, group.group)) shown.push(group);
        // Whoever asks goes on behind the last group that it was shown: a page of hidden ones only would end its list.
        const last = groups.at(-1);
        if (shown.length > 0 || !more || last === undefined) return { groups: shown, more };
        after = last.group;
      }
    },
    async describeGroup(request, call) {
      await call.authorize(request.group);
      return withConsumerProtocol(
        await coordinators.call(request.group, call, "question", (client, options) => client.describeGroup(request, options)),
      );
    },
    async deleteGroup(request, call) {
      await call.authorize(request.group);
      return coordinators.call(request.group, call, "change", (client, options) => client.deleteGroup(request, options));
    },
    async deleteOffsets(request, call) {
      await call.authorize(request.group);
      const asked = { ...request, topics: topics.identified(call.principal.tenant, request.topics) };
      return coordinators.call(request.group, call, "change", (client, options) => client.deleteOffsets(asked, options));
    },
  });
}

/** `10.0.0.1:4711` and `[::1]:4711` without the port. */
const hostOf = (peer: string): string => peer.replace(/^ipv[46]:/, "").replace(/:\d+$/, "");
