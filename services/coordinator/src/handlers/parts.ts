import { shardOfGroup } from "@sluice/core/group";
import { checkName, SluiceError } from "@sluice/core/model";
import type { CallContext } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";
import type { CoordinatorMetrics } from "../metrics.ts";
import type { PartitionEnds } from "../partition-ends.ts";
import type { Shard } from "../shard.ts";
import type { Topics } from "../topics.ts";

export interface HandlerParts {
  readonly clock: Clock;
  readonly metrics: CoordinatorMetrics;
  readonly shards: ReadonlyMap<number, Shard>;
  readonly shardCount: number;
  readonly topics: Topics;
  readonly ends: PartitionEnds;
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
