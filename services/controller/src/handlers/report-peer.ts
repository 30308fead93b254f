import type { ReportPeerRequest } from "@sluice/proto/internal/v1/controller";
import { type HandlerContext, requireTerm } from "./leader-only.ts";
import { checkMember } from "./member-request.ts";

const REASON_CHARS_MAX = 120;

/** A reset or an exit seen by a peer. The word of one is not enough: the controller tries to connect itself, at once. */
export function reportPeer(context: HandlerContext, request: ReportPeerRequest): Record<string, never> {
  const { members, duty } = requireTerm(context);
  const { service, id, instance } = checkMember(request);
  const reporter = request.reporter.slice(0, REASON_CHARS_MAX);
  duty.logger.info("peer reported", {
    memberService: service,
    member: id,
    instance,
    reporter,
    cause: request.reason.slice(0, REASON_CHARS_MAX),
  });
  members.reported(instance);
  return {};
}
