import { BatchCursor, RecordCursor, type BatchHeader, type Codecs } from "@sluice/core/log";
import { asSluiceError, isSluiceError, SluiceError } from "@sluice/core/model";
import { DataFormat } from "@sluice/proto/v1/consume";
import { ProtobufWriter } from "./wire/protobuf.ts";

/**
 * Stored batches as a `sluice.v1.RecordSet`, written without an object per record:
 *
 *   RecordSet { records = 1 [Record { key = 1, value = 2, headers = 3 [{ name = 1, value = 2 }], timestamp_ms = 4, offset = 5 }] }
 */
const FIELD_RECORDS = 1;
const FORMATS: ReadonlySet<number> = new Set(Object.values(DataFormat));

export interface RecordPage {
  /** The encoded RecordSet. */
  readonly bytes: Uint8Array;
  readonly count: number;
  /** Offset after the last record, or after the batches that were passed over. */
  readonly nextOffset: number;
}

/**
 * The records of `runs` from `offset` on, in pages of about `pageBytes` (one record at least): a compressed batch can hold many times its
 * size. Stops at the end of the batch with which `stopBytes` are reached, or before one that cannot be decoded. Control batches are passed over.
 * Throws UNREADABLE_BATCH when there is nothing before such a batch.
 */
export function* recordPages(
  runs: readonly Uint8Array[],
  offset: number,
  pageBytes: number,
  codecs: Codecs,
  stopBytes: number = Number.POSITIVE_INFINITY,
): Generator<RecordPage, void, undefined> {
  const cursor = new BatchCursor();
  const records = new RecordCursor();
  let writer = new ProtobufWriter();
  let count = 0;
  let nextOffset = offset;
  let passed = 0;
  for (const run of runs) {
    cursor.reset(run);
    while (passed + writer.length < stopBytes && cursor.next()) {
      const { header } = cursor;
      let opened = false;
      if (!header.isControl) {
        for (;;) {
          try {
            if (!opened) records.open(run, cursor.position, header, codecs);
            opened = true;
            if (!records.next()) break;
          } catch (cause) {
            // What lies before it is given first; the next read begins with it.
            if (nextOffset === offset) throw unreadable(header, cause);
            yield { bytes: writer.finish(), count, nextOffset };
            return;
          }
          if (records.offset < offset) continue;
          const size = recordBytes(records);
          if (count > 0 && writer.length + size > pageBytes) {
            yield { bytes: writer.finish(), count, nextOffset };
            passed += writer.length;
            writer = new ProtobufWriter();
            count = 0;
          }
          writeRecord(writer, records);
          count += 1;
          nextOffset = records.offset + 1;
        }
      }
      nextOffset = Math.max(nextOffset, header.lastOffset + 1);
    }
    cursor.expectEnd();
  }
  yield { bytes: writer.finish(), count, nextOffset };
}

/** Batches are stored unread, so a producer can store one that nobody can decode: the error names the way past it. */
function unreadable(header: BatchHeader, cause: unknown): SluiceError {
  const { baseOffset, lastOffset } = header;
  const nextOffset = lastOffset + 1;
  const text = `the batch at offsets ${baseOffset} to ${lastOffset} cannot be decoded (${asSluiceError(cause).message}); go on at offset ${nextOffset}`;
  return new SluiceError("UNREADABLE_BATCH", text, { cause, details: { offset: String(baseOffset), nextOffset: String(nextOffset) } });
}

/** An upper bound: tags, lengths and numbers at their longest. */
function recordBytes(records: RecordCursor): number {
  return 64 + Math.max(0, records.keyLength) + Math.max(0, records.valueLength) + records.headerBytes * 2 + records.headerCount * 16;
}
function writeRecord(writer: ProtobufWriter, records: RecordCursor): void {
  const at = writer.begin(FIELD_RECORDS);
  const { key, value } = records;
  if (key !== null) writer.bytes(1, key);
  if (value !== null) writer.bytes(2, value);
  if (records.headerCount > 0) {
    for (const header of records.headers()) {
      const headerAt = writer.begin(3);
      if (header.key.length > 0) writer.bytes(1, header.key);
      if (header.value !== null) writer.bytes(2, header.value);
      writer.end(headerAt);
    }
  }
  writer.int64(4, records.timestampMs);
  writer.int64(5, records.offset);
  writer.end(at);
}

/** The runs without their control batches; the same array when there are none. */
export function withoutControl(runs: readonly Uint8Array[]): readonly Uint8Array[] {
  const cursor = new BatchCursor();
  let out: Uint8Array[] | undefined;
  runs.forEach((run, i) => {
    cursor.reset(run);
    let from = 0;
    while (cursor.next()) {
      if (!cursor.header.isControl) continue;
      out ??= runs.slice(0, i);
      if (cursor.position > from) out.push(run.subarray(from, cursor.position));
      from = cursor.nextPosition;
    }
    if (out !== undefined && from < run.length) out.push(run.subarray(from));
  });
  return out ?? runs;
}

/** Names the partition, as the caller calls it. */
export function atPartition(topic: string, partition: number, reason: unknown): unknown {
  if (!isSluiceError(reason) || reason.code !== "UNREADABLE_BATCH") return reason;
  const details = { ...reason.details, topic, partition: String(partition) };
  return new SluiceError(reason.code, `${topic}/${partition}: ${reason.message}`, { cause: reason.cause, details });
}

/** A client that asks for what this version does not know must not be given something else. */
export function checkFormat(format: DataFormat): void {
  if (!FORMATS.has(format)) throw new SluiceError("INVALID_ARGUMENT", `format ${format} is unknown`);
}
