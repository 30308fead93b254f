import { instanceId } from "@sluice/core/model";
import type { HeartbeatRequest } from "@sluice/proto/internal/v1/controller";
import { type HandlerContext, requireTerm } from "./leader-only.ts";
import { checkMember } from "./member-request.ts";

/** Tells that the member lives and how loaded it is; answers which storage nodes new segments should avoid. */
export function heartbeat(context: HandlerContext, request: HeartbeatRequest): { suspects: string[] } {
  const { members, duty } = requireTerm(context);
  const { service } = checkMember(request);
  duty.metrics.heartbeats.labels(service).inc();
  members.heartbeat(instanceId(request.instance), {
    appendBytesPerSecond: Number(request.appendBytesPerSecond),
    openPartitions: request.openPartitions,
    capacityBytes: Number(request.capacityBytes),
    freeBytes: Number(request.freeBytes),
  });
  return { suspects: members.suspectStores() };
}
