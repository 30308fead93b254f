import { partitionStateCodec, segmentCodec, parsePartitionKeyName, type Keys } from "@sluice/catalog";
import { codeOf, sameReplica, sameSegment } from "@sluice/core/model";
import type { PartitionId, PartitionState, ReplicaId, SegmentId, SegmentRecord } from "@sluice/core/model";
import type { MetadataStore, Txn, TxnResult } from "@sluice/metadata";
import type { DropFacts } from "@sluice/core/replica";

/** A partition's register and the key of one segment, of one revision. */
export interface SegmentLookup {
  readonly state: PartitionState | undefined;
  readonly key: string | undefined;
  readonly record: SegmentRecord | undefined;
  readonly modRevision: number;
}

/**
 * One linearizable read of everything that decides about a copy. With its base the segment has one possible key; a copy that was never given a base
 * is looked for among all keys of the partition.
 */
export async function lookUpSegment(
  store: MetadataStore,
  keys: Keys,
  s: { readonly partition: PartitionId; readonly id: SegmentId; readonly base: number | undefined },
): Promise<SegmentLookup> {
  const stateKey = keys.state(s.partition);
  const { results } = await store.txn({
    compare: [],
    then: [
      { kind: "get", key: stateKey },
      s.base === undefined
        ? { kind: "list", prefix: keys.segments(s.partition) }
        : { kind: "get", key: keys.segment(s.partition, s.base, s.id) },
    ],
  });
  let state: PartitionState | undefined;
  let found: { key: string; record: SegmentRecord; modRevision: number } | undefined;
  for (const e of results.flatMap((r) => (r.kind === "range" ? r.entries : []))) {
    const name = parsePartitionKeyName(keys, e.key);
    if (name?.kind === "state") state = partitionStateCodec.decode(e.value);
    else if (name?.kind === "segment" && sameSegment(name.segment, s.id))
      found = { key: e.key, record: segmentCodec.decode(e.value), modRevision: e.modRevision };
  }
  return { state, key: found?.key, record: found?.record, modRevision: found?.modRevision ?? 0 };
}

export const isMember = (record: SegmentRecord, self: ReplicaId): boolean => record.replicas.some((r) => sameReplica(r, self));

/** The look-up as the drop rule takes it. */
export const dropFacts = (l: SegmentLookup, self: ReplicaId): DropFacts => ({
  stateEpoch: l.state?.epoch,
  found: l.record !== undefined,
  sealed: l.record !== undefined && l.record.phase !== "OPEN",
  member: l.record !== undefined && (isMember(l.record, self) || (l.record.missing ?? []).some((r) => sameReplica(r, self))),
  otherReplicas: l.record?.replicas.filter((r) => !sameReplica(r, self)).length ?? 0,
  keyRevision: l.modRevision,
});

/** Sends the identical transaction until its outcome is known: its compares tell. */
export async function settle(store: MetadataStore, txn: Txn, signal: AbortSignal): Promise<TxnResult> {
  for (;;) {
    signal.throwIfAborted();
    try {
      return await store.txn(txn);
    } catch (error) {
      if (codeOf(error) !== "UNKNOWN_OUTCOME") throw error;
    }
  }
}

/** Replaces one segment key, if it is as it was read. True when it was done. */
export async function replaceRecord(
  store: MetadataStore,
  lookup: { readonly key: string; readonly record: SegmentRecord; readonly modRevision: number },
  next: SegmentRecord,
  signal: AbortSignal,
): Promise<boolean> {
  const done = await settle(
    store,
    {
      compare: [{ key: lookup.key, target: "mod", equals: lookup.modRevision }],
      then: [{ kind: "put", key: lookup.key, value: segmentCodec.encode(next, lookup.record) }],
    },
    signal,
  );
  return done.succeeded;
}
