import { segmentKey } from "@sluice/core/model";
import type { SegmentRecord } from "@sluice/core/model";
import type { Metadata } from "../world/metadata.ts";
import type { StorageNode, StoredBatch } from "../world/storage-node.ts";
import type { Batch, History } from "./history.ts";
import { batchesOf } from "./history.ts";

/**
 * After everything was healed: the log as the metadata names it is read from every replica. It must be whole and the same everywhere, and
 * hold all that
 * was ever acknowledged or seen, in order.
 */
export function checkFinalLog(history: History, metadata: Metadata, nodes: readonly StorageNode[], committed: number): void {
  const log = new Map<number, number>();
  const records = [...metadata.segments.values()].sort(
    (a, b) => a.base - b.base || a.segment.epoch - b.segment.epoch || a.segment.k - b.segment.k,
  );
  for (const record of records) readSegment(history, record, nodes, record.end ?? committed, log);
  for (const batch of history.acked) {
    const id = log.get(batch.offset);
    if (id !== batch.id) history.violation(`acknowledged batch ${batch.id} at ${batch.offset} is lost (there: ${id ?? "nothing"})`);
  }
  for (const [offset, { id, by }] of history.seen)
    if (log.get(offset) !== id)
      history.violation(`batch ${id}, seen at ${offset} (${by}), is gone (there: ${log.get(offset) ?? "nothing"})`);
  const places = new Map<number, number>();
  const lastOf = new Map<string, Batch>();
  for (const [offset, id] of [...log].sort((a, b) => a[0] - b[0])) {
    const batch = history.batches.get(id);
    if (batch === undefined || !batch.idempotent) continue;
    const other = places.get(id);
    if (other !== undefined) history.violation(`I13: batch ${id} is at ${other} and at ${offset}`);
    places.set(id, offset);
    const last = lastOf.get(batch.producer);
    if (last !== undefined && last.id > id) history.violation(`order: ${batch.producer} sent ${id} before ${last.id}, it lies after it`);
    lastOf.set(batch.producer, batch);
  }
}

/** I4 when an end is published: at least two of the named replicas hold everything up to it, durably (a copy that was wiped since did). */
export function checkCopies(history: History, record: SegmentRecord, nodes: readonly StorageNode[]): void {
  const end = record.end ?? record.base - 1;
  if (end < record.base) return;
  let copies = 0;
  for (const replica of record.replicas) {
    const node = nodes.find((n) => n.name === replica.node);
    if (node === undefined) continue;
    if (node.incarnation !== replica.incarnation || node.failed) copies++;
    else if ((node.segment(record)?.durableLast ?? -1) >= end) copies++;
  }
  if (copies < 2) history.violation(`I4: ${segmentKey(record.segment)} is sealed at ${end} with ${copies} copies`);
}

function readSegment(history: History, record: SegmentRecord, nodes: readonly StorageNode[], end: number, log: Map<number, number>): void {
  const key = segmentKey(record.segment);
  let first: readonly StoredBatch[] | undefined;
  let copies = 0;
  for (const replica of record.replicas) {
    const node = nodes.find((n) => n.name === replica.node && n.incarnation === replica.incarnation);
    const copy = node?.copyUpTo(record, end);
    if (copy === undefined || node === undefined) continue;
    copies++;
    if (first === undefined) {
      first = copy;
      let next = record.base;
      for (const b of copy) {
        if (b.first !== next) history.violation(`${key} on ${node.name}: offset ${b.first} where ${next} is due`);
        next = b.last + 1;
        for (const seen of batchesOf(b.bytes)) log.set(seen.first, seen.id);
      }
      if (next !== end + 1) history.violation(`${key} on ${node.name} ends at ${next - 1}, not at ${end}`);
    } else if (!sameBatches(first, copy)) history.violation(`I3: the copies of ${key} differ (${node.name})`);
    const s = node.segment(record);
    if (record.phase === "SEALED" && s?.status === "SEALED" && s.chain !== undefined && record.chainHash !== s.chain.hex())
      history.violation(`I3: chain hash of ${key} on ${node.name} is not the recorded one`);
  }
  if (copies === 0 && end >= record.base) history.violation(`I4: no copy of ${key} (${record.base}..${end}) can be read`);
}
function sameBatches(a: readonly StoredBatch[], b: readonly StoredBatch[]): boolean {
  if (a.length !== b.length) return false;
  return a.every((x, i) => {
    const y = b[i] as StoredBatch;
    return x.bytes.length === y.bytes.length && x.bytes.every((byte, j) => byte === y.bytes[j]);
  });
}
