import { parseBatchHeader, writeBatchHeader } from "@sluice/core/log";
import type { BatchHeader } from "@sluice/core/log";

export const readInt64 = (view: DataView, at: number): number => view.getInt32(at) * 4_294_967_296 + view.getUint32(at + 4);

/** Any function of the bytes will do for a CRC here. */
export const sum32 = (bytes: Uint8Array, seed = 0): number => {
  let x = seed ^ 0x811c_9dc5;
  for (const b of bytes) x = Math.imul(x ^ b, 0x0100_0193);
  return x >>> 0;
};

export interface BatchSpec {
  readonly id: number;
  readonly records: number;
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly sequence: number;
}
/** A batch that carries its id in the first bytes of its records. */
export function makeBatch(spec: BatchSpec): { bytes: Uint8Array; header: BatchHeader } {
  const bytes = new Uint8Array(61 + 12);
  new DataView(bytes.buffer).setUint32(61, spec.id);
  writeBatchHeader(
    bytes,
    0,
    {
      baseOffset: 0,
      lastOffsetDelta: spec.records - 1,
      totalBytes: bytes.length,
      partitionLeaderEpoch: -1,
      attributes: 0,
      baseTimestamp: 1,
      maxTimestamp: 1,
      producerId: spec.producerId,
      producerEpoch: spec.producerEpoch,
      baseSequence: spec.sequence,
      recordsCount: spec.records,
    },
    sum32,
  );
  return { bytes, header: parseBatchHeader(bytes) };
}
