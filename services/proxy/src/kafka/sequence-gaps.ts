import { newBatchHeader, parseBatchHeader } from "@sluice/core/log";
import { errorNumber, partitionKey, type PartitionId } from "@sluice/core/model";
import type { ProduceOutcome } from "@sluice/partition-client";
import { kafkaLimits } from "./limits.ts";

const UNKNOWN_PRODUCER = errorNumber("UNKNOWN_PRODUCER");
const OUT_OF_ORDER_SEQUENCE = errorNumber("OUT_OF_ORDER_SEQUENCE");

/**
 * Idempotent producers of whom a batch failed, by connection. An owner that has never heard of a producer refuses all but its first batch, and cannot know
 * which of these it is:
 *
 *   [0] has failed, [1] is refused          a gap: the client sends both again, in order       OUT_OF_ORDER_SEQUENCE_NUMBER (45)
 *   [7] [8] and the topic was made again    nothing is missing: the producer begins at [7]     stored, as Kafka does
 *   [7] [8] and the partition has           [7] may have been stored before: the producer      UNKNOWN_PRODUCER_ID (59)
 *       forgotten the producer              has to begin anew
 *
 * librdkafka's producer is dead after a 45 for its oldest batch, kafkajs and kafka-python know nothing to do after a 59.
 */
export class SequenceGaps {
  /** Producers in partitions whose last batch on a connection, by its signal, came to nothing; the oldest goes. */
  readonly #gaps = new WeakMap<AbortSignal, Set<string>>();

  /** An earlier batch of the producer is missing. */
  has(connection: AbortSignal, partition: PartitionId, batch: Uint8Array): boolean {
    return this.#gaps.get(connection)?.has(keyOf(partition, batch)) === true;
  }

  /** Takes note of what became of the batch; gives the outcome that the client is to be told. */
  settle(connection: AbortSignal, partition: PartitionId, batch: Uint8Array, outcome: ProduceOutcome): ProduceOutcome {
    const gaps = this.#gaps.get(connection);
    if (outcome.code === 0) {
      if (gaps !== undefined && gaps.size > 0) gaps.delete(keyOf(partition, batch));
      return outcome;
    }
    const key = keyOf(partition, batch);
    if (outcome.code === UNKNOWN_PRODUCER) return gaps?.has(key) === true ? { ...outcome, code: OUT_OF_ORDER_SEQUENCE } : outcome;
    if (gaps === undefined) this.#gaps.set(connection, new Set([key]));
    else {
      gaps.add(key);
      const [oldest] = gaps;
      if (gaps.size > kafkaLimits.sequenceGapsMax && oldest !== undefined) gaps.delete(oldest);
    }
    return outcome;
  }
}

const header = newBatchHeader();
function keyOf(partition: PartitionId, batch: Uint8Array): string {
  const { producerId, producerEpoch } = parseBatchHeader(batch, 0, header);
  return `${partitionKey(partition)} ${producerId} ${producerEpoch}`;
}
