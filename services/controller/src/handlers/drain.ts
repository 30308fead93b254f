import { SluiceError, type InstanceId, type MemberId, type ServiceKind } from "@sluice/core/model";
import type { DrainRequest } from "@sluice/proto/internal/v1/controller";
import { type HandlerContext, requireTerm } from "./leader-only.ts";
import { checkMember } from "./member-request.ts";

/** Relieves a member of what it owns, by planned moves. Ask again until nothing remains. Throws INVALID_ARGUMENT for an unknown instance. */
export function drain(context: HandlerContext, request: DrainRequest): { remaining: number } {
  const { members } = requireTerm(context);
  const { service, id, instance } = checkMember(request);
  if (!members.drain(instance)) throw new SluiceError("INVALID_ARGUMENT", `${service} ${id} is not registered under instance ${instance}`);
  return { remaining: remaining(context, service, id, instance) };
}

function remaining(context: HandlerContext, service: ServiceKind, id: MemberId, instance: InstanceId): number {
  const { view } = context;
  let count = 0;
  if (service === "broker") {
    for (const p of view.partitions.values()) {
      const state = p.state?.record;
      const owns = state !== undefined && state.ownerInstance === instance && state.phase !== "UNOWNED" && state.phase !== "DELETED";
      if (owns || p.assigned?.record.broker === id) count += 1;
    }
  } else if (service === "coordinator") {
    for (const { record } of view.shards.values()) if (record.instance === instance) count += 1;
  }
  return count;
}
