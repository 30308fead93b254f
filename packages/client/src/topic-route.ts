import { partitionOfKey, SluiceError } from "@sluice/core/model";
import type { Random } from "@sluice/runtime";
import type { PartitionQueue } from "./partition-queue.ts";
import type { Partitioner } from "./types.ts";

/**
 * The partitions of a topic and the choice among them. Records without a key stay with one random partition until a batch's worth of bytes
 * went there, as with Kafka's default: batches fill, and the load still evens out.
 */
export class TopicRoute {
  readonly topic: string;
  readonly queues: readonly PartitionQueue[];
  readonly #batchBytes: number;
  readonly #random: Random;
  readonly #partitioner: Partitioner | undefined;
  #sticky: number;
  #stickyBytes = 0;

  constructor(
    topic: string,
    queues: readonly PartitionQueue[],
    options: { readonly batchBytes: number; readonly random: Random; readonly partitioner: Partitioner | undefined },
  ) {
    this.topic = topic;
    this.queues = queues;
    this.#batchBytes = options.batchBytes;
    this.#random = options.random;
    this.#partitioner = options.partitioner;
    this.#sticky = options.random.int(queues.length);
  }
  /** Throws UNKNOWN_PARTITION, or INVALID_ARGUMENT for what a partitioner of the user returns. */
  queueFor(asked: number | undefined, key: Uint8Array | null, bytes: number): PartitionQueue {
    const partition = asked ?? this.#choose(key, bytes);
    const queue = this.queues[partition];
    if (queue !== undefined) return queue;
    const count = this.queues.length;
    if (asked === undefined)
      throw new SluiceError("INVALID_ARGUMENT", `the partitioner chose ${partition}; ${this.topic} has ${count} partitions`);
    throw new SluiceError("UNKNOWN_PARTITION", `${this.topic}/${partition}: the topic has ${count} partitions`);
  }
  #choose(key: Uint8Array | null, bytes: number): number {
    const count = this.queues.length;
    if (this.#partitioner !== undefined) return this.#partitioner(key, count, this.topic);
    if (key !== null) return partitionOfKey(key, count);
    if (this.#stickyBytes >= this.#batchBytes && count > 1) {
      // Another one, each as likely.
      this.#sticky = (this.#sticky + 1 + this.#random.int(count - 1)) % count;
      this.#stickyBytes = 0;
    }
    this.#stickyBytes += bytes;
    return this.#sticky;
  }
}
