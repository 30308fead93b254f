import { SluiceError } from "../model/index.ts";
import { readInt64, writeInt64 } from "./bytes.ts";

/**
 * Aborted transactions whose records lie in a segment: what a reader of committed data must leave out, and what a Kafka fetch answer names.
 * Four int64 each, ordered by lastOffset:  producerId | firstOffset | lastOffset (of the abort marker) | lastStableOffset
 */
export interface AbortedTransaction {
  readonly producerId: number;
  readonly firstOffset: number;
  readonly lastOffset: number;
  /** The last stable offset when the marker was written. */
  readonly lastStableOffset: number;
}
export const ABORTED_TRANSACTION_BYTES = 32;

export function encodeAbortedTransactions(list: readonly AbortedTransaction[]): Uint8Array {
  const out = new Uint8Array(list.length * ABORTED_TRANSACTION_BYTES);
  let at = 0;
  for (const t of list) {
    writeInt64(out, at, t.producerId);
    writeInt64(out, at + 8, t.firstOffset);
    writeInt64(out, at + 16, t.lastOffset);
    writeInt64(out, at + 24, t.lastStableOffset);
    at += ABORTED_TRANSACTION_BYTES;
  }
  return out;
}
/** Throws CORRUPT_SEGMENT unless `bytes` is whole entries of safe integers. */
export function decodeAbortedTransactions(bytes: Uint8Array): AbortedTransaction[] {
  if (bytes.length % ABORTED_TRANSACTION_BYTES !== 0)
    throw new SluiceError("CORRUPT_SEGMENT", `aborted transactions of ${bytes.length} bytes`);
  const out: AbortedTransaction[] = [];
  for (let at = 0; at < bytes.length; at += ABORTED_TRANSACTION_BYTES) {
    const t = {
      producerId: readInt64(bytes, at),
      firstOffset: readInt64(bytes, at + 8),
      lastOffset: readInt64(bytes, at + 16),
      lastStableOffset: readInt64(bytes, at + 24),
    };
    for (const n of Object.values(t))
      if (!Number.isSafeInteger(n)) throw new SluiceError("CORRUPT_SEGMENT", "an aborted transaction is out of range");
    out.push(t);
  }
  return out;
}
