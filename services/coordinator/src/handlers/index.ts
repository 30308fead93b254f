import { codeOf } from "@sluice/core/model";
import { CoordinatorService } from "@sluice/proto/internal/v1/coordinator";
import { defineAccess, implement, type CallContext, type ServiceRegistration } from "@sluice/rpc";
import { commit } from "./commit.ts";
import { fetchCommitted } from "./fetch.ts";
import type { HandlerParts } from "./parts.ts";

const access = defineAccess(CoordinatorService, {
  commit: { resource: "group", operation: "internal" },
  fetch: { resource: "group", operation: "internal" },
});

export function coordinatorHandlers(parts: HandlerParts): ServiceRegistration {
  return implement(access, { commit: counted(parts, commit(parts)), fetch: counted(parts, fetchCommitted(parts)) });
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
