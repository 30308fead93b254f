import {
  assignmentCodec,
  parsePartitionKeyName,
  partitionStateCodec,
  segmentCodec,
  startCodec,
  type Keys,
  type Versioned,
} from "@sluice/catalog";
import type { AssignmentRecord, PartitionId, PartitionState, SegmentEntry, SegmentRecord } from "@sluice/core/model";
import type { KeyValue } from "@sluice/metadata";

/** The keys of one partition as one linearizable listing shows them: what is decided from it is not a hint. */
export interface PartitionListing {
  readonly id: PartitionId;
  assigned: Versioned<AssignmentRecord> | undefined;
  state: Versioned<PartitionState> | undefined;
  /** modRevision 0 when there is no key. */
  start: { readonly offset: number; readonly modRevision: number };
  /** In order of base, epoch, k. */
  readonly segments: (SegmentEntry & { readonly key: string })[];
}

/** Entries of a listing of one or more partitions, by partition number. */
export function readPartitions(keys: Keys, entries: readonly KeyValue[]): Map<number, PartitionListing> {
  const out = new Map<number, PartitionListing>();
  for (const entry of entries) {
    const name = parsePartitionKeyName(keys, entry.key);
    if (name === undefined) continue;
    let p = out.get(name.partition.partition);
    if (p === undefined) {
      p = { id: name.partition, assigned: undefined, state: undefined, start: { offset: 0, modRevision: 0 }, segments: [] };
      out.set(name.partition.partition, p);
    }
    const { modRevision } = entry;
    if (name.kind === "assigned") p.assigned = { record: assignmentCodec.decode(entry.value), modRevision };
    else if (name.kind === "state") p.state = { record: partitionStateCodec.decode(entry.value), modRevision };
    else if (name.kind === "start") p.start = { offset: startCodec.decode(entry.value).offset, modRevision };
    else p.segments.push({ key: entry.key, partition: name.partition, record: segmentCodec.decode(entry.value), modRevision });
  }
  return out;
}

/** The same value marked DELETING; every other field stays. */
export const markedDeleting = (record: SegmentRecord): Uint8Array => segmentCodec.encode({ ...record, phase: "DELETING" }, record);
