import type { ClusterView } from "@sluice/catalog";
import { codeOf, errorCodeOf, SluiceError, type MemberId, type PartitionId, type Timers } from "@sluice/core/model";
import { BrokerService } from "@sluice/proto/internal/v1/broker";
import { createRpcClient, type RpcClient } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";

/** Marks of a partition that two storage nodes confirmed after they were asked for. */
export interface ConfirmedMarks {
  readonly epoch: number;
  readonly logStart: number;
  readonly lastStable: number;
  readonly highWatermark: number;
}
export interface BrokerOffsetsOptions {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly view: ClusterView;
  readonly ownerOf: (p: PartitionId) => MemberId | undefined;
}
/** Between two questions while a partition has no owner that answers, ms. */
const RETRY_MS = 25;

/** Asks the owners of partitions for their marks, again and again within the deadline while a partition moves. */
export class BrokerOffsets {
  readonly #options: BrokerOffsetsOptions;
  /** By address; those of brokers that are gone are closed when the next one is opened. */
  readonly #clients = new Map<string, RpcClient<typeof BrokerService>>();
  #closed = false;

  constructor(options: BrokerOffsetsOptions) {
    this.#options = options;
  }

  /** Throws the last refusal when the deadline (monotonic ms) passes; UNKNOWN_TOPIC at once when the topic is deleted. */
  async marks(p: PartitionId, deadlineMs: number, signal?: AbortSignal): Promise<ConfirmedMarks> {
    const { clock, timers, view } = this.#options;
    let refusal = new SluiceError("NOT_OWNER", `no broker owns partition ${p.topicId}/${p.partition}`);
    for (;;) {
      const left = deadlineMs - clock.monotonicMs();
      if (left <= 0) throw refusal;
      if (view.isGone(p.topicId)) throw new SluiceError("UNKNOWN_TOPIC", "the topic has been deleted");
      const client = this.#client(p);
      if (client !== undefined) {
        try {
          const timeoutMs = Math.max(1, Math.min(left, timers.controlCallTimeoutMs));
          const reply = await client.partitionOffsets(
            { topicId: p.topicId, partition: p.partition },
            { timeoutMs, ...(signal === undefined ? {} : { signal }) },
          );
          if (reply.code === 0) {
            return {
              epoch: reply.epoch,
              logStart: Number(reply.logStartOffset),
              lastStable: Number(reply.lastStableOffset),
              highWatermark: Number(reply.highWatermark),
            };
          }
          refusal = new SluiceError(errorCodeOf(reply.code), reply.message);
        } catch (error) {
          signal?.throwIfAborted();
          refusal = new SluiceError(codeOf(error), "the owner of the partition does not answer", { cause: error });
        }
      }
      await clock.sleep(Math.min(RETRY_MS, Math.max(1, deadlineMs - clock.monotonicMs())), signal);
    }
  }
  close(): void {
    this.#closed = true;
    for (const client of this.#clients.values()) client.close();
    this.#clients.clear();
  }

  #client(p: PartitionId): RpcClient<typeof BrokerService> | undefined {
    const { view, ownerOf, clock } = this.#options;
    const owner = ownerOf(p);
    const address = owner === undefined ? undefined : view.member("broker", owner)?.endpoints.rpc;
    if (address === undefined || this.#closed) return undefined;
    let client = this.#clients.get(address);
    if (client === undefined) {
      const alive = new Set(view.membersOf("broker").map((m) => m.endpoints.rpc));
      for (const [known, old] of this.#clients) {
        if (alive.has(known)) continue;
        old.close();
        this.#clients.delete(known);
      }
      client = createRpcClient(BrokerService, address, { clock });
      this.#clients.set(address, client);
    }
    return client;
  }
}
