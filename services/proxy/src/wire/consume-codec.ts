import { Gathered, type Codec } from "@sluice/rpc";
import { ProtobufWriter, wireTypes } from "./protobuf.ts";

/**
 * `sluice.v1.ConsumeResponse` and `FetchResponse` by hand: runs of batches go out as they lie in the caches, behind the other fields, so
 * that nothing is joined or copied before the HTTP/2 frame. Same meaning on the wire as the generated code (fields may come in any order).
 */
export interface Consumed {
  readonly topic: string;
  readonly partition: number;
  /** An encoded RecordSet. */
  readonly records: Uint8Array | undefined;
  readonly runs: readonly Uint8Array[];
  readonly nextOffset: number;
  readonly highWatermark: number;
  readonly lastStableOffset: number;
  readonly logStartOffset: number;
  readonly endReached: boolean;
  readonly seekNumber: number;
  readonly error: number;
  readonly errorMessage: string;
  /** "" = not recorded. */
  readonly traceparent: string;
}
export interface Fetched {
  readonly records: Uint8Array | undefined;
  readonly runs: readonly Uint8Array[];
  readonly nextOffset: number;
  readonly highWatermark: number;
  readonly lastStableOffset: number;
  readonly logStartOffset: number;
  readonly throttleMs: number;
}

export function encodeConsumed(m: Consumed): Uint8Array | Gathered {
  const w = new ProtobufWriter();
  w.string(1, m.topic);
  w.int64(2, m.partition);
  w.int64(5, m.nextOffset);
  w.int64(6, m.highWatermark);
  w.int64(7, m.lastStableOffset);
  w.int64(8, m.logStartOffset);
  w.bool(9, m.endReached);
  w.uint32(10, m.seekNumber);
  w.uint32(11, m.error);
  w.string(12, m.errorMessage);
  w.string(13, m.traceparent);
  return withData(w, 3, m.records, 4, m.runs);
}
export function encodeFetched(m: Fetched): Uint8Array | Gathered {
  const w = new ProtobufWriter();
  w.int64(3, m.nextOffset);
  w.int64(4, m.highWatermark);
  w.int64(5, m.lastStableOffset);
  w.int64(6, m.logStartOffset);
  w.uint32(7, m.throttleMs);
  return withData(w, 1, m.records, 2, m.runs);
}
function withData(
  w: ProtobufWriter,
  recordsField: number,
  records: Uint8Array | undefined,
  batchesField: number,
  runs: readonly Uint8Array[],
): Uint8Array | Gathered {
  if (records !== undefined) {
    w.tag(recordsField, wireTypes.bytes);
    w.varint(records.length);
    return new Gathered([w.finish(), records]);
  }
  if (runs.length === 0) return w.finish();
  let length = 0;
  for (const run of runs) length += run.length;
  w.tag(batchesField, wireTypes.bytes);
  w.varint(length);
  return new Gathered([w.finish(), ...runs]);
}

export const consumedCodec: Codec<Consumed, Uint8Array> = { encode: encodeConsumed, decode: (bytes) => bytes };
export const fetchedCodec: Codec<Fetched, Uint8Array> = { encode: encodeFetched, decode: (bytes) => bytes };
