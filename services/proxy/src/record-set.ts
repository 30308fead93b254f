import { BatchCursor, RecordCursor, type Codecs } from "@sluice/core/log";
import { ProtobufWriter } from "./wire/protobuf.ts";

/**
 * Stored batches as a `sluice.v1.RecordSet`, written without an object per record:
 *
 *   RecordSet { records = 1 [Record { key = 1, value = 2, headers = 3 [{ name = 1, value = 2 }], timestamp_ms = 4, offset = 5 }] }
 */
const FIELD_RECORDS = 1;

export interface RecordPage {
  /** The encoded RecordSet. */
  readonly bytes: Uint8Array;
  readonly count: number;
  /** Offset after the last record, or after the batches that were passed over. */
  readonly nextOffset: number;
}

/**
 * The records of `runs` from `offset` on, in pages of about `pageBytes` (one record at least): a compressed batch can hold many times its
 * size. Stops at the end of the batch with which `stopBytes` are reached. Control batches are passed over. Throws CORRUPT_BATCH, UNSUPPORTED_CODEC, MESSAGE_TOO_LARGE.
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
      if (!header.isControl) {
        records.open(run, cursor.position, header, codecs);
        while (records.next()) {
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
