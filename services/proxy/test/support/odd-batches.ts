import { crc32c, nativeCodecs } from "@sluice/codec";
import { BATCH_HEADER_BYTES, BatchBuilder, codecs, newBatchHeader, readBatchHeader, writeBatchHeader } from "@sluice/core/log";
import { limits } from "@sluice/core/model";
import { batchOf } from "./proxy.ts";

/** A batch with a right CRC over records that are none, from record `goodRecords` on. */
export function damaged(values: readonly string[], goodRecords = 0, timestampMs?: number): Uint8Array {
  const batch = batchOf(values, timestampMs);
  const header = newBatchHeader();
  readBatchHeader(batch, 0, batch.length, header);
  const recordBytes = (batch.length - BATCH_HEADER_BYTES) / values.length;
  batch.fill(0xff, BATCH_HEADER_BYTES + goodRecords * recordBytes);
  writeBatchHeader(batch, 0, header, crc32c);
  return batch;
}
/** A sound batch of one record that decompresses to more than readers over gRPC take. */
export function overLimit(timestampMs: number): Uint8Array {
  const value = new Uint8Array(limits.decompressedBytesFree + 1);
  const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs, codec: codecs.zstd, bytesMax: value.length + 1_024 });
  builder.tryAppend(timestampMs, null, value);
  return builder.close();
}
