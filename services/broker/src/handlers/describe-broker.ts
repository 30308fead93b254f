import type { Ownership } from "../ownership.ts";

/** The partitions that this broker works on, for operators and tests. */
export function describeBroker(ownership: Ownership) {
  return () => ({
    partitions: [...ownership.hosts].map((host) => ({
      topicId: host.id.topicId,
      partition: host.id.partition,
      epoch: host.machine.register?.state.epoch ?? 0,
      phase: host.machine.role.kind,
      highWatermark: BigInt(host.machine.committed + 1),
      nextOffset: BigInt(host.machine.nextOffset),
      pendingBytes: BigInt(host.machine.pipeline.bytes),
    })),
  });
}
