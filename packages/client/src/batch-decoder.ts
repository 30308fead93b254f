import { crc32c, nativeCodecs } from "@sluice/codec";
import { batchCrc, BatchCursor, RecordCursor, type BatchHeader } from "@sluice/core/log";
import { asSluiceError, SluiceError } from "@sluice/core/model";
import { ReceivedRecord } from "./records.ts";
import { clientLimits } from "./timing.ts";
import type { ConsumedRecord } from "./types.ts";

export interface DecodeRange {
  readonly topic: string;
  readonly partition: number;
  /** Records below are left out: the first batch may begin before the asked offset. */
  readonly fromOffset: number;
  /** Records from here on are left out. */
  readonly endOffset: number;
  readonly checkCrc: boolean;
}
export interface Decoded {
  readonly records: ConsumedRecord[];
  /** Position of the first batch that was not decoded: the end of the run, or less when the step has enough. */
  readonly at: number;
  /** Offset after the last decoded batch. */
  readonly nextOffset: number;
}

/**
 * Decodes the batches of a run from `at` on, at most `decodedBytesPerStep` of them (one batch at least). Control batches give no records.
 * Decompression is bounded as in core. Throws CORRUPT_BATCH, UNSUPPORTED_FORMAT, UNREADABLE_BATCH when the first batch is none or cannot be decoded; the
 * batches before such a one are given first, and the next step throws.
 */
export function decodeRun(bytes: Uint8Array, at: number, range: DecodeRange): Decoded {
  const batches = new BatchCursor(bytes, at);
  const cursor = new RecordCursor();
  const records: ConsumedRecord[] = [];
  let nextOffset = range.fromOffset;
  let decodedBytes = 0;
  while (decodedBytes < clientLimits.decodedBytesPerStep && batches.next()) {
    const whole = records.length;
    try {
      decodedBytes += decodeBatch(batches, cursor, range, records);
    } catch (error) {
      if (batches.position === at) throw error;
      // A batch counts as a whole: of this one nothing.
      records.length = whole;
      return { records, at: batches.position, nextOffset };
    }
    nextOffset = Math.max(nextOffset, batches.header.lastOffset + 1);
  }
  if (batches.nextPosition === at) batches.expectEnd();
  return { records, at: batches.nextPosition, nextOffset };
}

/** Adds the records of the batch that the cursor stands at. Returns what they hold, in bytes. */
function decodeBatch(
  { bytes, header, position }: BatchCursor,
  cursor: RecordCursor,
  range: DecodeRange,
  records: ConsumedRecord[],
): number {
  if (range.checkCrc && batchCrc(bytes, position, header.totalBytes, crc32c) !== header.crc)
    throw new SluiceError("CORRUPT_BATCH", `${range.topic}/${range.partition}: the batch at offset ${header.baseOffset} fails its CRC`);
  if (header.isControl || header.lastOffset < range.fromOffset || header.recordsCount === 0) return 0;
  let decodedBytes = 0;
  try {
    cursor.open(bytes, position, header, nativeCodecs);
    while (cursor.next()) {
      decodedBytes += cursor.keyLength + cursor.valueLength + cursor.headerBytes + clientLimits.recordOverheadBytes;
      if (cursor.offset < range.fromOffset || cursor.offset >= range.endOffset) continue;
      const headers = cursor.headerCount === 0 ? undefined : cursor.headers();
      records.push(new ReceivedRecord(range.topic, range.partition, cursor.offset, cursor.timestampMs, cursor.key, cursor.value, headers));
    }
  } catch (cause) {
    throw unreadable(range, header, cause);
  }
  return decodedBytes;
}

/** The servers store batches unread, so a producer can store one that nobody can decode: the error names the way past it. */
function unreadable(range: DecodeRange, header: BatchHeader, cause: unknown): SluiceError {
  const { message } = asSluiceError(cause);
  const nextOffset = header.lastOffset + 1;
  const details = {
    topic: range.topic,
    partition: String(range.partition),
    offset: String(header.baseOffset),
    nextOffset: String(nextOffset),
  };
  const place = `${range.topic}/${range.partition}: the batch at offsets ${header.baseOffset} to ${header.lastOffset} cannot be decoded`;
  return new SluiceError("UNREADABLE_BATCH", `${place} (${message}); go on at offset ${nextOffset} to pass it`, { cause, details });
}
