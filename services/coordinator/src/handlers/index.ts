import { shardOfGroup } from "@sluice/core/group";
import { checkName, codeOf, SluiceError } from "@sluice/core/model";
import { CoordinatorService } from "@sluice/proto/internal/v1/coordinator";
import { defineAccess, implement, type CallContext, type ServiceRegistration } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";
import type { CoordinatorMetrics } from "../metrics.ts";
import type { PartitionEnds } from "../partition-ends.ts";
import type { Shard } from "../shard.ts";
import type { Topics } from "../topics.ts";
import { commit } from "./commit.ts";
import { fetchCommitted } from "./fetch.ts";

const access = defineAccess(CoordinatorService, {
  commit: { resource: "group", operation: "internal" },
  fetch: { resource: "group", operation: "internal" },
});

export interface HandlerParts {
  readonly clock: Clock;
  readonly metrics: CoordinatorMetrics;
  readonly shards: ReadonlyMap<number, Shard>;
  readonly shardCount: number;
  readonly topics: Topics;
  readonly ends: PartitionEnds;
}

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

/** A call may wait this long for its shard whatever its own deadline says, ms. */
const WAIT_MS_MAX = 30_000;
export const deadlineOf = (clock: Clock, context: CallContext): number =>
  clock.monotonicMs() + Math.min(context.remainingMs(), WAIT_MS_MAX);

/** The group's shard when it is here. Throws INVALID_NAME, NOT_COORDINATOR. */
export function shardFor({ shards, shardCount }: HandlerParts, group: string): Shard {
  checkName("group", group);
  const number = shardOfGroup(group, shardCount);
  const shard = shards.get(number);
  if (shard === undefined) throw new SluiceError("NOT_COORDINATOR", `shard ${number} of group ${group} is not here`);
  return shard;
}
