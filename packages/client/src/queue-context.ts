import type { Codec } from "@sluice/core/log";
import type { SluiceError } from "@sluice/core/model";
import type { Clock, Random } from "@sluice/runtime";
import type { OutBatch, ProducerIdentity } from "./out-batch.ts";
import type { PartitionQueue } from "./partition-queue.ts";

/** What the queues of a producer share. */
export interface QueueContext {
  readonly clock: Clock;
  readonly random: Random;
  readonly codec: Codec;
  readonly lingerMs: number;
  readonly maxInFlight: number;
  readonly idempotent: boolean;
  readonly stream: { readonly writable: boolean; write(batch: OutBatch): void; abandon(reason: SluiceError): void };
  readonly flushing: boolean;
  /** Calls `pump` at the end of the turn. */
  pumpLater(queue: PartitionQueue): void;
  /** The producer's id; undefined = not there yet, all queues are pumped when it is. */
  identity(): ProducerIdentity | undefined;
  /** A fresh id for one partition; retried until the producer closes. */
  renewIdentity(queue: PartitionQueue, cause: SluiceError): Promise<ProducerIdentity>;
  /** The batch is over: its bytes leave the buffer. */
  released(batch: OutBatch): void;
  /** The server does not know the topic: ask again before the next record. True = it is so new that another try is due. */
  topicUnknown(topic: string): boolean;
}
