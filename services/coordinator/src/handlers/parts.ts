import { shardOfGroup } from "@sluice/core/group";
import { checkGroupName, errorCatalogue, errorNumber, limits, SluiceError, utf8Bytes, type ErrorCode } from "@sluice/core/model";
import type { CallContext } from "@sluice/rpc";
import type { Clock, Random } from "@sluice/runtime";
import type { GroupHost } from "../group-host.ts";
import type { CoordinatorMetrics } from "../metrics.ts";
import type { PartitionEnds } from "../partition-ends.ts";
import type { Shard } from "../shard.ts";
import type { ViewTopics } from "../topic-lookup.ts";
import type { Topics } from "../topics.ts";

export interface HandlerParts {
  readonly clock: Clock;
  readonly metrics: CoordinatorMetrics;
  readonly shards: ReadonlyMap<number, Shard>;
  readonly shardCount: number;
  readonly topics: Topics;
  readonly ends: PartitionEnds;
  readonly lookup: ViewTopics;
  readonly random: Random;
  readonly groupsOf: (shard: Shard) => GroupHost;
}

/** A call may wait this long for its shard whatever its own deadline says, ms. */
const WAIT_MS_MAX = 30_000;
export const deadlineOf = (clock: Clock, context: CallContext): number =>
  clock.monotonicMs() + Math.min(context.remainingMs(), WAIT_MS_MAX);

/** The group's shard when it is here. Throws INVALID_NAME, NOT_COORDINATOR. */
export function shardFor({ shards, shardCount }: HandlerParts, group: string): Shard {
  checkGroupName(group);
  const number = shardOfGroup(group, shardCount);
  const shard = shards.get(number);
  if (shard === undefined) throw new SluiceError("NOT_COORDINATOR", `shard ${number} of group ${group} is not here`);
  return shard;
}

export const hostFor = (parts: HandlerParts, group: string): GroupHost => parts.groupsOf(shardFor(parts, group));

/** An error in a reply: 0 = none. */
export const errorFields = (code: ErrorCode | undefined, message?: string): { readonly error: number; readonly errorMessage: string } =>
  code === undefined
    ? { error: 0, errorMessage: "" }
    : { error: errorNumber(code), errorMessage: message === undefined || message === "" ? errorCatalogue[code].hint : message };

/** As much of what a client says of itself as a record takes. */
export function cutText(s: string, bytesMax: number = limits.groupTextBytesMax): string {
  let cut = s.slice(0, bytesMax);
  while (utf8Bytes(cut) > bytesMax) cut = cut.slice(0, Math.floor(cut.length * 0.9));
  return cut;
}
