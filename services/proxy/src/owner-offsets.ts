import type { ClusterView } from "@sluice/catalog";
import { codeOf, errorCodeOf, SluiceError, type ErrorCode, type PartitionId, type Timers } from "@sluice/core/model";
import type { BrokerLinks, Marks } from "@sluice/partition-client";
import { BrokerService } from "@sluice/proto/internal/v1/broker";
import type { ChannelPool } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";
import { proxyLimits } from "./limits.ts";
import { PeerClients } from "./peer-clients.ts";

export interface OwnerOffsetsOptions {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly view: ClusterView;
  readonly links: Pick<BrokerLinks, "ownerOf">;
  readonly channels: ChannelPool;
}
/** Answers after which another attempt, perhaps at another broker, can succeed. The question changes nothing, so an unknown outcome is one. */
const AGAIN: ReadonlySet<ErrorCode> = new Set([
  "NOT_OWNER",
  "PARTITION_RECOVERING",
  "NOT_ENOUGH_REPLICAS",
  "DISK_FULL",
  "UNREACHABLE",
  "OUTCOME_UNKNOWN",
  "TIMED_OUT",
  "OVERLOADED",
  "SHUTTING_DOWN",
  "LINK_DOWN",
]);

/** Marks of partitions, confirmed: the owner asked two storage nodes after the question came, so no older owner can answer. */
export class OwnerOffsets {
  readonly #options: OwnerOffsetsOptions;
  readonly #clients: PeerClients<typeof BrokerService>;

  constructor(options: OwnerOffsetsOptions) {
    this.#options = options;
    this.#clients = new PeerClients(BrokerService, options.channels);
  }

  /** Tries until the deadline. Throws UNKNOWN_TOPIC once the topic is deleted, else the last reason: NOT_OWNER, UNREACHABLE, TIMED_OUT ... */
  async confirm(partition: PartitionId, deadlineMs: number, signal?: AbortSignal): Promise<Marks> {
    const { clock, view } = this.#options;
    let last: unknown;
    for (;;) {
      const leftMs = deadlineMs - clock.monotonicMs();
      try {
        if (leftMs <= 0) throw last ?? new SluiceError("TIMED_OUT", "the offsets were not confirmed within the deadline");
        return await this.#ask(partition, leftMs, signal);
      } catch (error) {
        if (last === undefined || codeOf(error) !== "TIMED_OUT") last = error;
        if (!AGAIN.has(codeOf(error)) || signal?.aborted === true) throw error;
        if (view.isGone(partition.topicId)) throw new SluiceError("UNKNOWN_TOPIC", "the topic has been deleted");
        if (deadlineMs - clock.monotonicMs() <= proxyLimits.routeRetryMs) throw last;
        await clock.sleep(proxyLimits.routeRetryMs, signal);
      }
    }
  }

  async #ask(partition: PartitionId, leftMs: number, signal: AbortSignal | undefined): Promise<Marks> {
    const { links, view, timers } = this.#options;
    const owner = links.ownerOf(partition);
    const address = owner === undefined ? undefined : view.member("broker", owner)?.endpoints.rpc;
    if (address === undefined) throw new SluiceError("NOT_OWNER", "no broker serves the partition now");
    const reply = await this.#clients
      .get(address)
      .partitionOffsets(
        { topicId: partition.topicId, partition: partition.partition },
        { timeoutMs: Math.min(leftMs, timers.controlCallTimeoutMs), ...(signal === undefined ? {} : { signal }) },
      );
    if (reply.code !== 0) throw new SluiceError(errorCodeOf(reply.code), reply.message);
    return {
      epoch: reply.epoch,
      segmentK: 0,
      segmentBase: 0,
      highWatermark: Number(reply.highWatermark),
      lastStableOffset: Number(reply.lastStableOffset),
      logStart: Number(reply.logStartOffset),
    };
  }
}
