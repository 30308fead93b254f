import { readInt16, readInt32, readInt64, readUint32, writeInt16, writeInt32, writeInt64 } from "../log/bytes.ts";
import { SluiceError, limits } from "../model/index.ts";
import { advanceProducers, createProducers } from "./table.ts";
import type { ProducerBatch, ProducerEntry, ProducerTable, RememberedBatch } from "./table.ts";

/**
 * Producer snapshot, version 1. Big-endian. Travels in Create, Fence and Rebuild and is stored in segment objects.
 *
 *   at  bytes  field
 *    0    1    version (1)
 *    1    1    flags: bit 0 = some producer was forgotten
 *    2    2    zero
 *    4    8    fence token, -1 = none
 *   12    4    number of producers
 *   16         producers, least recently used first:
 *      8  id     2  epoch     8  last append time (ms since 1970)     1  number of batches (0 to 127), + 128 when its epoch did not begin at 0
 *      then in that case:  4 first sequence of the epoch
 *      then per batch, oldest first:  4 first sequence   4 last sequence   8 first offset   8 last offset
 *
 * At most `limits.producerSnapshotBytesMax`: when there are more, the least recently used producers are left out.
 * A snapshot of no bytes at all means "not known", which is not the same as "no producers".
 */
const VERSION = 1;
const FORGOTTEN_FLAG = 1;
const HEADER_BYTES = 16;
const PRODUCER_BYTES = 19;
const BATCH_BYTES = 24;
const FIRST_SEQUENCE_FLAG = 0x80;
const FIRST_SEQUENCE_BYTES = 4;

/** `inFlight`: batches in flight count as stored, for a segment that starts after them. */
export interface EncodeOptions {
  readonly inFlight?: boolean;
}

interface Written extends Pick<ProducerEntry, "id" | "epoch" | "firstSequence" | "lastAppendMs"> {
  readonly batches: readonly RememberedBatch[];
}
const written = (entry: ProducerEntry, withInFlight: boolean): Written => {
  const newest = withInFlight ? entry.inFlight[entry.inFlight.length - 1] : undefined;
  if (newest === undefined) return entry;
  const flying = entry.inFlight.filter((b) => b.epoch === newest.epoch);
  const { id, epoch, firstSequence, lastAppendMs } = entry;
  const batches = (newest.epoch === epoch ? [...entry.batches, ...flying] : flying).slice(-limits.producerBatchesRemembered);
  // A new epoch begins at 0.
  return { id, epoch: newest.epoch, firstSequence: newest.epoch === epoch ? firstSequence : 0, lastAppendMs, batches };
};
const bytesOf = ({ firstSequence, batches }: Written): number =>
  PRODUCER_BYTES + (firstSequence > 0 ? FIRST_SEQUENCE_BYTES : 0) + batches.length * BATCH_BYTES;

export function encodeProducers(table: ProducerTable, options: EncodeOptions = {}): Uint8Array {
  const chosen: Written[] = [];
  let total = HEADER_BYTES;
  for (const entry of table.entries.values()) {
    const producer = written(entry, options.inFlight === true);
    if (producer.batches.length === 0 && entry.inFlight.length > 0) continue; // known by what is in flight alone
    chosen.push(producer);
    total += bytesOf(producer);
  }
  let skip = 0;
  while (total > limits.producerSnapshotBytesMax) total -= bytesOf(chosen[skip++] as Written);
  const bytes = new Uint8Array(total);
  bytes[0] = VERSION;
  bytes[1] = table.forgotten || skip > 0 ? FORGOTTEN_FLAG : 0;
  writeInt64(bytes, 4, table.fenceToken);
  writeInt32(bytes, 12, chosen.length - skip);
  let at = HEADER_BYTES;
  for (const { id, epoch, firstSequence, lastAppendMs, batches } of chosen.slice(skip)) {
    writeInt64(bytes, at, id);
    writeInt16(bytes, at + 8, epoch);
    writeInt64(bytes, at + 10, lastAppendMs);
    bytes[at + 18] = batches.length | (firstSequence > 0 ? FIRST_SEQUENCE_FLAG : 0);
    at += PRODUCER_BYTES;
    if (firstSequence > 0) {
      writeInt32(bytes, at, firstSequence);
      at += FIRST_SEQUENCE_BYTES;
    }
    for (const b of batches) {
      writeInt32(bytes, at, b.firstSequence);
      writeInt32(bytes, at + 4, b.lastSequence);
      writeInt64(bytes, at + 8, b.firstOffset);
      writeInt64(bytes, at + 16, b.lastOffset);
      at += BATCH_BYTES;
    }
  }
  return bytes;
}

const malformed = (what: string): SluiceError => new SluiceError("MALFORMED_FRAME", `producer snapshot: ${what}`);

/** Throws MALFORMED_FRAME on bytes that are no snapshot (no bytes at all included) and on an unknown version. */
export function decodeProducers(bytes: Uint8Array, producersMax: number = limits.producersPerPartitionMax): ProducerTable {
  if (bytes.length > limits.producerSnapshotBytesMax) throw malformed(`${bytes.length} bytes are over the limit`);
  if (bytes.length < HEADER_BYTES) throw malformed("cut off");
  if (bytes[0] !== VERSION) throw malformed(`version ${String(bytes[0])} is not known`);
  const table = createProducers(producersMax);
  table.forgotten = ((bytes[1] as number) & FORGOTTEN_FLAG) !== 0;
  table.fenceToken = readInt64(bytes, 4);
  const count = readUint32(bytes, 12);
  let at = HEADER_BYTES;
  for (let i = 0; i < count; i++) {
    if (at + PRODUCER_BYTES > bytes.length) throw malformed("cut off");
    const id = readInt64(bytes, at);
    const epoch = readInt16(bytes, at + 8);
    const lastAppendMs = readInt64(bytes, at + 10);
    const batchCount = (bytes[at + 18] as number) & ~FIRST_SEQUENCE_FLAG;
    const hasFirst = batchCount !== bytes[at + 18];
    at += PRODUCER_BYTES;
    if (at + (hasFirst ? FIRST_SEQUENCE_BYTES : 0) + batchCount * BATCH_BYTES > bytes.length) throw malformed("cut off");
    const firstSequence = hasFirst ? readInt32(bytes, at) : 0;
    if (hasFirst) at += FIRST_SEQUENCE_BYTES;
    if (firstSequence < 0) throw malformed(`producer ${id} begins at an impossible sequence`);
    const batches: RememberedBatch[] = [];
    for (let b = 0; b < batchCount; b++, at += BATCH_BYTES) {
      const batch = {
        firstSequence: readInt32(bytes, at),
        lastSequence: readInt32(bytes, at + 4),
        firstOffset: readInt64(bytes, at + 8),
        lastOffset: readInt64(bytes, at + 16),
      };
      if (batch.firstSequence < 0 || batch.lastSequence < 0 || batch.firstOffset < 0 || batch.lastOffset < batch.firstOffset)
        throw malformed(`producer ${id} has an impossible batch`);
      batches.push(batch);
    }
    if (id < 0 || table.entries.has(id)) throw malformed(`producer ${id} is impossible or there twice`);
    table.entries.set(id, {
      id,
      epoch,
      firstSequence,
      batches: batches.slice(-limits.producerBatchesRemembered),
      inFlight: [],
      lastAppendMs,
    });
  }
  if (at !== bytes.length) throw malformed("bytes after its end");
  return table;
}

/**
 * The table as the storage node's machine takes it (core/replica `ProducerTables`): one per segment, advanced by batches, given back with
 * a fence.
 */
export const producerTables = {
  decode(snapshot: Uint8Array): { advance(batch: ProducerBatch): void; encode(): Uint8Array } {
    const table = decodeProducers(snapshot);
    return { advance: (batch) => advanceProducers(table, batch), encode: () => encodeProducers(table) };
  },
};
