import { type BatchHeader, newBatchHeader, parseBatchHeader, stampBatch } from "@sluice/core/log";
import type { ErrorCode } from "@sluice/core/model";
import { advanceProducers, checkSequence, createProducers, type ProducerTable } from "@sluice/core/producer";

export interface StoredBatch {
  readonly bytes: Uint8Array;
  readonly header: BatchHeader;
}

/** The log of one partition, with the server's rules for sequences. */
export class FakePartition {
  readonly batches: StoredBatch[] = [];
  producers: ProducerTable = createProducers();
  end = 0;
  start = 0;
  /** One batch, or a run of several. */
  append(bytes: Uint8Array): { base: number; last: number } | ErrorCode {
    const first = parseBatchHeader(bytes);
    if (first.totalBytes === bytes.length) return this.#append(bytes);
    const base = this.end;
    for (let at = 0; at < bytes.length;) {
      const { totalBytes } = parseBatchHeader(bytes, at);
      this.#append(bytes.subarray(at, at + totalBytes));
      at += totalBytes;
    }
    return { base, last: this.end - 1 };
  }
  #append(bytes: Uint8Array): { base: number; last: number } | ErrorCode {
    const header = parseBatchHeader(bytes);
    if (header.producerId >= 0) {
      const verdict = checkSequence(this.producers, header.producerId, header.producerEpoch, header.baseSequence, header.recordsCount);
      if (verdict.kind === "refused") return verdict.code;
      if (verdict.kind !== "fresh") return { base: verdict.offset, last: verdict.offset + header.lastOffsetDelta };
    }
    const copy = new Uint8Array(bytes);
    stampBatch(copy, 0, this.end, 1);
    const stamped = parseBatchHeader(copy, 0, newBatchHeader());
    this.batches.push({ bytes: copy, header: stamped });
    const base = this.end;
    this.end = stamped.lastOffset + 1;
    advanceProducers(this.producers, {
      firstOffset: base,
      lastOffset: stamped.lastOffset,
      producerId: stamped.producerId,
      producerEpoch: stamped.producerEpoch,
      baseSequence: stamped.baseSequence,
      appendMs: 0,
    });
    return { base, last: stamped.lastOffset };
  }
}
