import { errorNumber, topicId, type Timers } from "@sluice/core/model";
import type { PartitionOffsetsRequest } from "@sluice/proto/internal/v1/broker";
import type { CallContext } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";
import type { Ownership } from "../ownership.ts";
import type { BarrierOutcome } from "../partition-host.ts";

/** Marks of a partition, its latest offset confirmed by two storage nodes after the request came (docs/protocol.md, reads). */
export function partitionOffsets(ownership: Ownership, clock: Clock, timers: Timers) {
  return async (request: PartitionOffsetsRequest, context: CallContext) => {
    const host = ownership.host({ topicId: topicId(request.topicId), partition: request.partition });
    if (host === undefined) return { code: errorNumber("NOT_OWNER"), message: "this broker does not own the partition" };
    const deadlineMs = clock.monotonicMs() + Math.min(context.remainingMs(), timers.fetchWaitMsMax);
    const outcome = await new Promise<BarrierOutcome>((resolve) => host.barrier(deadlineMs, resolve));
    if (outcome.code !== 0) return { code: outcome.code, message: "the latest offset could not be confirmed" };
    const lastStable = host.mark === undefined ? outcome.committed : Math.min(host.mark.lastStable, outcome.committed);
    return {
      epoch: host.machine.register?.state.epoch ?? 0,
      logStartOffset: BigInt(outcome.logStart),
      lastStableOffset: BigInt(lastStable + 1),
      highWatermark: BigInt(outcome.committed + 1),
    };
  };
}
