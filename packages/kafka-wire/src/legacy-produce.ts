import { Reader } from "./reader.ts";
import { WIRE_ELEMENTS_MAX } from "./message.ts";
import type { Writer } from "./writer.ts";

/**
 * Produce before version 3, which carries message sets of formats that nobody stores any more. It is only read to be refused: older clients
 * want to see these versions advertised before they compress, and never send them.
 *
 *   request   int16 acks, int32 timeoutMs, [ string topic, [ int32 partition, bytes messages ] ]
 *   response  [ string topic, [ int32 partition, int16 error, int64 offset, (v2) int64 append time ] ], (v1) int32 throttle time
 */
export const LEGACY_PRODUCE_MAX = 2;

/** Writes the refusal of every partition; false when the client wants no answer. Throws WireError MALFORMED, TOO_LARGE. */
export function refuseLegacyProduce(version: number, bytes: Uint8Array, bodyAt: number, errorCode: number, writer: Writer): boolean {
  const reader = new Reader(bytes, bodyAt, bytes.length, WIRE_ELEMENTS_MAX);
  const acks = reader.int16();
  reader.int32();
  const topics = reader.arrayLength(false, 6);
  writer.arrayLength(topics, false);
  for (let t = 0; t < topics; t += 1) {
    writer.string(reader.text(Math.max(0, reader.stringLength(false))), false);
    const partitions = reader.arrayLength(false, 8);
    writer.arrayLength(partitions, false);
    for (let p = 0; p < partitions; p += 1) {
      writer.int32(reader.int32());
      reader.skip(Math.max(0, reader.bytesLength(false)));
      writer.int16(errorCode);
      writer.int64(-1);
      if (version >= 2) writer.int64(-1);
    }
  }
  if (version >= 1) writer.int32(0);
  return acks !== 0;
}
