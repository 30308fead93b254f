import type { JoinReply } from "@sluice/core/group";
import { DEFAULT_TENANT, errorNumber } from "@sluice/core/model";
import type { HeartbeatGroupRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest } from "@sluice/proto/internal/v1/coordinator";
import type { CallContext } from "@sluice/rpc";
import { cutText, errorFields, hostFor, type HandlerParts } from "./parts.ts";

/** Of a client's name in the ids that its members get. */
const ID_PREFIX_BYTES_MAX = 150;

const tenant = DEFAULT_TENANT;
const instance = (id: string) => (id === "" ? {} : { instanceId: id });

/** Members of classic groups. Each answer names its error; a thrown one means that the group was not asked. */
export function joinGroup(parts: HandlerParts) {
  return async (r: JoinGroupRequest, { signal }: CallContext) => {
    const instanceId = r.instanceId ?? "";
    const prefix = cutText(instanceId === "" ? r.clientId : instanceId, ID_PREFIX_BYTES_MAX);
    const reply = await hostFor(parts, r.group).join(
      {
        tenant,
        group: r.group,
        memberId: r.memberId,
        instanceId,
        clientId: cutText(r.clientId),
        clientHost: cutText(r.clientHost),
        sessionTimeoutMs: r.sessionTimeoutMs,
        rebalanceTimeoutMs: r.rebalanceTimeoutMs > 0 ? r.rebalanceTimeoutMs : r.sessionTimeoutMs,
        protocolType: r.protocolType,
        protocols: r.protocols,
        requireKnownMemberId: r.requireKnownMemberId,
        supportsSkipAssignment: r.supportsSkipAssignment,
        newMemberId: `${prefix === "" ? "member" : prefix}-${parts.random.uuid()}`,
      },
      signal,
    );
    return joinMessage(reply);
  };
}
const joinMessage = ({ code, message, members, ...reply }: JoinReply) => ({
  ...reply,
  ...errorFields(code, message),
  members: members.map((m) => ({ memberId: m.memberId, metadata: m.metadata, ...instance(m.instanceId) })),
});

export function syncGroup(parts: HandlerParts) {
  return async (r: SyncGroupRequest, { signal }: CallContext) => {
    const { code, message, ...reply } = await hostFor(parts, r.group).sync(
      {
        tenant,
        group: r.group,
        memberId: r.memberId,
        instanceId: r.instanceId ?? "",
        generation: r.generation,
        protocolType: r.protocolType,
        protocol: r.protocol,
        assignments: new Map(r.assignments.map((a) => [a.memberId, a.assignment])),
      },
      signal,
    );
    return { ...reply, ...errorFields(code, message) };
  };
}

export function heartbeatGroup(parts: HandlerParts) {
  return async ({ group, memberId, instanceId = "", generation }: HeartbeatGroupRequest, { signal }: CallContext) =>
    errorFields(await hostFor(parts, group).heartbeat({ tenant, group, memberId, instanceId, generation }, signal));
}

export function leaveGroup(parts: HandlerParts) {
  return async (r: LeaveGroupRequest, { signal }: CallContext) => {
    const leaving = r.members.map((m) => ({ memberId: m.memberId, instanceId: m.instanceId ?? "" }));
    const { code, message, members } = await hostFor(parts, r.group).leave({ tenant, group: r.group, members: leaving }, signal);
    return {
      ...errorFields(code, message),
      members: members.map((m) => ({
        memberId: m.memberId,
        error: m.code === undefined ? 0 : errorNumber(m.code),
        ...instance(m.instanceId),
      })),
    };
  };
}
