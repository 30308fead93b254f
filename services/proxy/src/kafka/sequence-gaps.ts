import { newBatchHeader, parseBatchHeader } from "@sluice/core/log";
import { errorNumber } from "@sluice/core/model";
import { isEarlier } from "@sluice/core/producer";
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
  /** For producers in partitions, of a connection by its signal: the earliest sequence that came to nothing. The oldest entry goes. */
  readonly #gaps = new WeakMap<AbortSignal, Map<string, number>>();

  /** An earlier batch of the producer is missing. By the topic's name: a batch for a topic that was deleted goes again to the next one. */
  has(connection: AbortSignal, topic: string, partition: number, batch: Uint8Array): boolean {
    const gaps = this.#gaps.get(connection);
    if (gaps === undefined || gaps.size === 0) return false;
    const { key, sequence } = identify(topic, partition, batch);
    const missing = gaps.get(key);
    return missing !== undefined && isEarlier(missing, sequence);
  }

  /** Takes note of what became of the batch; gives the outcome that the client is to be told. */
  settle(connection: AbortSignal, topic: string, partition: number, batch: Uint8Array, outcome: ProduceOutcome): ProduceOutcome {
    const gaps = this.#gaps.get(connection);
    if (outcome.code === 0) {
      if (gaps !== undefined && gaps.size > 0) gaps.delete(identify(topic, partition, batch).key);
      return outcome;
    }
    if (outcome.code === UNKNOWN_PRODUCER)
      return this.has(connection, topic, partition, batch) ? { ...outcome, code: OUT_OF_ORDER_SEQUENCE } : outcome;
    const { key, sequence } = identify(topic, partition, batch);
    if (gaps === undefined) this.#gaps.set(connection, new Map([[key, sequence]]));
    else {
      const missing = gaps.get(key);
      if (missing === undefined || isEarlier(sequence, missing)) gaps.set(key, sequence);
      const [oldest] = gaps.keys();
      if (gaps.size > kafkaLimits.sequenceGapsMax && oldest !== undefined) gaps.delete(oldest);
    }
    return outcome;
  }
}

const header = newBatchHeader();
function identify(topic: string, partition: number, batch: Uint8Array): { key: string; sequence: number } {
  const { producerId, producerEpoch, baseSequence } = parseBatchHeader(batch, 0, header);
  return { key: `${topic}/${partition} ${producerId} ${producerEpoch}`, sequence: baseSequence };
}
