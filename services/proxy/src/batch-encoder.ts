import {
  BatchBuilder,
  newBatchHeader,
  newProducedRun,
  validateRun,
  type BatchHeader,
  type Codecs,
  type Crc32c,
  type ProducedRun,
  type RecordHeader,
} from "@sluice/core/log";
import { limits, partitionOfKey, SluiceError, topicSettings, type TopicRecord } from "@sluice/core/model";
import type { RecordSet } from "@sluice/proto/v1/records";
import type { Clock } from "@sluice/runtime";

export interface CheckedBatch {
  readonly partition: number;
  readonly batch: Uint8Array;
  readonly idempotent: boolean;
}
const utf8 = new TextEncoder();

/** Structured records become one batch here, once; encoded batches are judged by their header and CRC and go on as they are. */
export class BatchEncoder {
  readonly #crc32c: Crc32c;
  readonly #codecs: Codecs;
  readonly #clock: Clock;
  readonly #header: BatchHeader = newBatchHeader();
  readonly #run: ProducedRun = newProducedRun();
  readonly #bytesMax = new WeakMap<TopicRecord, number>();
  readonly #turns = new WeakMap<TopicRecord, number>();

  constructor(parts: { readonly crc32c: Crc32c; readonly codecs: Codecs; readonly clock: Clock }) {
    this.#crc32c = parts.crc32c;
    this.#codecs = parts.codecs;
    this.#clock = parts.clock;
  }

  /** Throws CORRUPT_BATCH, UNSUPPORTED_FORMAT, MESSAGE_TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP, UNSUPPORTED_CODEC, INVALID_ARGUMENT. */
  check(topic: TopicRecord, partition: number, batch: Uint8Array): CheckedBatch {
    if (partition < 0) throw new SluiceError("INVALID_ARGUMENT", "an encoded batch needs a partition");
    const header = this.#header;
    const bad = validateRun(batch, { messageBytesMax: this.#limit(topic), crc32c: this.#crc32c }, header, this.#run);
    if (bad === "INVALID_ARGUMENT")
      throw new SluiceError(
        bad,
        `${batch.length - header.totalBytes} bytes follow the first batch; with producer ids batches go one at a time`,
      );
    if (bad === "MESSAGE_TOO_LARGE") throw new SluiceError(bad, tooLarge(topic.name, batch.length, header, this.#limit(topic)));
    if (bad !== undefined) throw new SluiceError(bad, `the batch for ${topic.name} is refused: ${bad}`);
    return { partition, batch, idempotent: header.producerId >= 0 };
  }

  /** One batch, uncompressed. Throws MESSAGE_TOO_LARGE when the records do not fit one, INVALID_ARGUMENT, INVALID_RECORD, INVALID_TIMESTAMP. */
  encode(topic: TopicRecord, partition: number, set: RecordSet): CheckedBatch {
    const first = set.records[0];
    if (first === undefined) throw new SluiceError("INVALID_ARGUMENT", "there is no record to write");
    const bytesMax = this.#limit(topic);
    const builder = new BatchBuilder({ crc32c: this.#crc32c, codecs: this.#codecs, bytesMax });
    const nowMs = this.#clock.wallMs();
    for (const record of set.records) {
      const headers: RecordHeader[] = record.headers.map((h) => ({ key: utf8.encode(h.name), value: h.value ?? null }));
      const timestampMs = record.timestampMs === 0n ? nowMs : Number(record.timestampMs);
      if (!builder.tryAppend(timestampMs, record.key ?? null, record.value ?? null, headers))
        throw new SluiceError("MESSAGE_TOO_LARGE", `${set.records.length} records do not fit one batch of ${bytesMax} bytes`);
    }
    return { partition: partition < 0 ? this.#choose(topic, first.key) : partition, batch: builder.close(), idempotent: false };
  }

  #choose(topic: TopicRecord, key: Uint8Array | undefined): number {
    if (key !== undefined) return partitionOfKey(key, topic.partitions);
    const turn = this.#turns.get(topic) ?? 0;
    this.#turns.set(topic, (turn + 1) % topic.partitions);
    return turn;
  }
  #limit(topic: TopicRecord): number {
    let limit = this.#bytesMax.get(topic);
    if (limit === undefined) {
      limit = topicSettings(topic.config).maxMessageBytes;
      this.#bytesMax.set(topic, limit);
    }
    return limit;
  }
}

/** Which of the limits it was, and by how much. */
function tooLarge(topic: string, bytes: number, first: BatchHeader, bytesMax: number): string {
  if (first.totalBytes > bytesMax) return `a batch of ${first.totalBytes} bytes for ${topic}, whose max.message.bytes is ${bytesMax}`;
  if (first.recordsCount > limits.recordsPerBatchMax)
    return `a batch of ${first.recordsCount} records for ${topic}, the limit is ${limits.recordsPerBatchMax}`;
  return (
    `batches of ${bytes} bytes for ${topic}: each may have ${bytesMax} (max.message.bytes), ` +
    `several at once ${limits.produceRunBytesMax} and be ${limits.produceRunBatchesMax}`
  );
}
