import type { Codec } from "@sluice/core/log";
import { SluiceError } from "@sluice/core/model";
import type { Clock, Random } from "@sluice/runtime";
import type { OutBatch, ProducerIdentity } from "./out-batch.ts";

/** A partition's queue as the producer's core sees it; see PartitionQueue. */
export interface ProducerQueue {
  readonly topic: string;
  readonly partition: number;
  readonly isEmpty: boolean;
  pump(): void;
  settled(): Promise<void>;
  /** True = the stream that owes an answer is of no use any more. */
  expire(nowMs: number): boolean;
  abort(error: SluiceError): void;
}
/** What the queues of a producer share. */
export interface QueueContext {
  readonly clock: Clock;
  readonly random: Random;
  readonly codec: Codec;
  readonly lingerMs: number;
  readonly maxInFlight: number;
  readonly idempotent: boolean;
  readonly stream: {
    readonly writable: boolean;
    /** Why there is no stream, as far as has been heard. */
    readonly failure: SluiceError | undefined;
    write(batch: OutBatch): void;
    abandon(reason: SluiceError): void;
  };
  readonly flushing: boolean;
  /** Calls `pump` at the end of the turn. */
  pumpLater(queue: ProducerQueue): void;
  /** The producer's id; undefined = not there yet, all queues are pumped when it is. */
  identity(): ProducerIdentity | undefined;
  /** Why there is no id yet, as far as has been heard. */
  readonly identityMissing: SluiceError | undefined;
  /** A fresh id for one partition; retried until the producer closes. */
  renewIdentity(queue: ProducerQueue, cause: SluiceError): Promise<ProducerIdentity>;
  /** The batch is over: its bytes leave the buffer. */
  released(batch: OutBatch): void;
  /** The server does not know the topic: ask again before the next record. True = it is so new that another try is due. */
  topicUnknown(topic: string): boolean;
}

/** What a batch fails with that was not sent before its deadline. The code is always the same: nothing was refused. */
export function neverSent(
  where: (text: string) => string,
  { identityMissing, stream }: Pick<QueueContext, "identityMissing" | "stream">,
): SluiceError {
  const cause = identityMissing ?? stream.failure;
  const what = identityMissing === undefined ? "" : "no producer id could be had: ";
  const why = cause === undefined ? "" : `: ${what}${cause.code}: ${cause.message}`;
  return new SluiceError("TIMED_OUT", where(`not sent within deliveryTimeoutMs, so not stored${why}`), { cause });
}
