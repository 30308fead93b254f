import type { AppendEntry, CreateEntry, FenceEntry, JournalEntry, RebuildEntry, SealEntry, SegmentStateEntry } from "../journal/entry.ts";
import { BatchCursor, ChainHash } from "../log/index.ts";
import type { PartitionId, SegmentId } from "../model/index.ts";
import { partitionKey, segmentKey } from "../model/index.ts";
import type { ReplicaStatus } from "./api.ts";
import { BatchWindow, windowBatch } from "./batch-window.ts";
import type { Partition, ProducerTable, ReplicaState, Segment } from "./state.ts";

/**
 * What each journal entry does to the state. The rules (append.ts, fence.ts ...) decide whether a change may be made and then apply its entry;
 * a restart applies the entries that it reads back: the two cannot differ.
 */
export function applyEntry(state: ReplicaState, entry: JournalEntry): void {
  switch (entry.kind) {
    case "append":
      if (entry.copy !== true) applyAppend(state, entry);
      break;
    case "create":
      applyCreate(state, entry);
      break;
    case "fence":
      applyFence(state, entry);
      break;
    case "rebuild":
      applyRebuild(state, entry);
      break;
    case "seal":
      applySeal(state, entry);
      break;
    case "delete": {
      const s = state.byNumber.get(entry.segmentNumber);
      if (s !== undefined) {
        s.status = "DELETED";
        forget(s);
        s.sizeBytes = 0;
      }
      break;
    }
    case "node-state":
      state.nextSegmentNumber = Math.max(state.nextSegmentNumber, entry.nextSegmentNumber);
      state.damaged ||= entry.damaged;
      break;
    case "partition-state":
      raiseEpoch(partitionOf(state, entry.partition), entry.maxEpoch);
      break;
    case "segment-state":
      applySegmentState(state, entry);
      break;
    case "segment-index":
      // Of the host: where the bytes are.
      break;
  }
}

export function partitionOf(state: ReplicaState, id: PartitionId): Partition {
  const key = partitionKey(id);
  let p = state.partitions.get(key);
  if (p === undefined) {
    p = { id: { topicId: id.topicId, partition: id.partition }, key, maxEpoch: -1, segments: new Map() };
    state.partitions.set(key, p);
  }
  return p;
}
function raiseEpoch(p: Partition, epoch: number): void {
  if (epoch > p.maxEpoch) p.maxEpoch = epoch;
}

function addSegment(
  state: ReplicaState,
  number: number,
  partition: PartitionId,
  id: SegmentId,
  status: ReplicaStatus,
  base: number | undefined,
  madeBy: number,
): Segment {
  const p = partitionOf(state, partition);
  const { options } = state;
  const last = base === undefined ? -1 : base - 1;
  const s: Segment = {
    number,
    partition: p.id,
    partitionKey: p.key,
    id: { epoch: id.epoch, k: id.k },
    key: segmentKey(id),
    status,
    base,
    last,
    durableLast: last,
    lac: last,
    end: undefined,
    fencedBy: -1,
    madeBy,
    keyRevision: undefined,
    rebuildEpoch: undefined,
    nonce: "",
    chain: new ChainHash(),
    producers: undefined,
    window: new BatchWindow(options.retryBatchesKept, options.uncommittedBatchesMax),
    sizeBytes: 0,
    firstAppendMs: 0,
    lastAppendMs: 0,
    maxTimestampMs: -1,
    heardMs: 0,
  };
  s.window.reset(last, s.chain?.high ?? 0, s.chain?.low ?? 0);
  p.segments.set(s.key, s);
  state.byNumber.set(number, s);
  if (number >= state.nextSegmentNumber) state.nextSegmentNumber = number + 1;
  return s;
}

/** No bytes at all = not known. Snapshots were checked when they came in. */
const decodeTable = (state: ReplicaState, snapshot: Uint8Array): ProducerTable | undefined =>
  snapshot.length === 0 ? undefined : state.options.producers.decode(snapshot);

function applyCreate(state: ReplicaState, e: CreateEntry): void {
  const known = state.byNumber.get(e.segmentNumber);
  if (known === undefined) {
    const s = addSegment(state, e.segmentNumber, e.partition, e.segment, "OPEN", e.base, e.segment.epoch);
    s.nonce = e.nonce;
    s.producers = decodeTable(state, e.producers);
  } else {
    // It was fenced before it came, by its own epoch: it is known now, and stays fenced.
    known.status = "FENCED";
    known.nonce = e.nonce;
    known.madeBy = e.segment.epoch;
    if (e.base !== undefined) giveBase(known, e.base);
    known.producers = decodeTable(state, e.producers);
  }
  raiseEpoch(partitionOf(state, e.partition), e.segment.epoch);
}

export function giveBase(s: Segment, base: number): void {
  s.base = base;
  s.last = base - 1;
  s.durableLast = base - 1;
  s.lac = Math.max(s.lac, base - 1);
  s.window.reset(base - 1, s.chain?.high ?? 0, s.chain?.low ?? 0);
}

function applyFence(state: ReplicaState, e: FenceEntry): void {
  const s =
    state.byNumber.get(e.segmentNumber) ?? addSegment(state, e.segmentNumber, e.partition, e.segment, "FENCED_EMPTY", undefined, e.epoch);
  if (s.status === "OPEN") s.status = "FENCED";
  if (s.status === "FENCED" || s.status === "FENCED_EMPTY") s.fencedBy = Math.max(s.fencedBy, e.epoch);
  raiseEpoch(partitionOf(state, e.partition), e.epoch);
}

function applyRebuild(state: ReplicaState, e: RebuildEntry): void {
  const madeBy = e.epoch ?? e.segment.epoch;
  let s = state.byNumber.get(e.segmentNumber);
  if (s === undefined) {
    s = addSegment(state, e.segmentNumber, e.partition, e.segment, "REBUILD", e.base, madeBy);
  } else {
    // An incomplete copy goes on where it ends: what it has is a verified prefix.
    s.status = "REBUILD";
    s.madeBy = Math.max(s.madeBy, madeBy);
    if (s.base === undefined) giveBase(s, e.base);
  }
  s.end = e.end;
  s.keyRevision = e.keyRevision;
  s.rebuildEpoch = e.epoch;
  s.producers ??= decodeTable(state, e.producers);
  if (e.epoch !== undefined) raiseEpoch(partitionOf(state, e.partition), e.epoch);
  completeRebuild(s);
}

function completeRebuild(s: Segment): void {
  if (s.status !== "REBUILD" || s.end === undefined || s.last < s.end) return;
  if (s.rebuildEpoch === undefined) {
    s.status = "SEALED";
    settleProducers(s);
  } else {
    s.status = "FENCED";
    s.fencedBy = s.rebuildEpoch;
    s.end = undefined;
  }
}

const cursor = new BatchCursor();

function applyAppend(state: ReplicaState, e: AppendEntry): void {
  const s = state.byNumber.get(e.segmentNumber);
  if (s === undefined) {
    // Its Create lies in a part that is unknown: the number must not be given out again.
    if (e.segmentNumber >= state.nextSegmentNumber) state.nextSegmentNumber = e.segmentNumber + 1;
    return;
  }
  if (s.status === "DELETED" || s.status === "FAILED") return;
  if (s.base === undefined) giveBase(s, e.firstOffset);
  // The producers stay unknown: the Create with their snapshot never came.
  if (s.status === "FENCED_EMPTY") s.status = "FENCED";
  if (e.firstOffset !== s.last + 1) {
    // Only after a part that is unknown: what lies between cannot be vouched for.
    s.status = "FAILED";
    return;
  }
  cursor.reset(e.payload);
  while (cursor.next()) {
    const h = cursor.header;
    s.chain?.add(h.baseOffset, h.partitionLeaderEpoch, h.crc);
    s.window.push(windowBatch(h, s.chain?.high ?? 0, s.chain?.low ?? 0, e.appendMs));
    if (h.maxTimestamp > s.maxTimestampMs) s.maxTimestampMs = h.maxTimestamp;
  }
  s.sizeBytes += e.payload.length;
  if (s.firstAppendMs === 0) s.firstAppendMs = e.appendMs;
  s.lastAppendMs = e.appendMs;
  s.last = e.lastOffset;
  raiseLac(s, s.status === "REBUILD" && s.rebuildEpoch === undefined ? e.lastOffset : e.lac);
  completeRebuild(s);
}

/** Committed marks only grow, and lie within what is here. The producer table follows. */
export function raiseLac(s: Segment, lac: number): void {
  if (lac > s.lac) s.lac = lac;
  s.window.fold(Math.min(s.lac, s.last), (b) => s.producers?.advance(b));
}

/** Folds all that is left: nothing can be cut any more. */
function settleProducers(s: Segment): void {
  s.window.fold(Number.MAX_SAFE_INTEGER, (b) => s.producers?.advance(b));
  s.window.reset(s.last, 0, 0);
}

function applySeal(state: ReplicaState, e: SealEntry): void {
  const s = state.byNumber.get(e.segmentNumber);
  if (s === undefined || s.status === "FAILED" || s.status === "DELETED") return;
  state.rollWanted.delete(s.number);
  s.end = e.end;
  if (s.last < e.end) {
    s.status = state.mutants.M25 === true ? "SEALED" : "INCOMPLETE";
    settleProducers(s);
    return;
  }
  if (s.last > e.end) cutTo(s, e.end);
  s.lac = e.end;
  s.status = "SEALED";
  settleProducers(s);
}

function cutTo(s: Segment, end: number): void {
  const result = s.window.cut(end, (b) => {
    s.sizeBytes -= b.bytes;
  });
  if (result === "exact") {
    const newest = s.window.newest;
    if (newest !== undefined) s.lastAppendMs = newest.appendMs;
    if (s.chain !== undefined)
      s.chain = ChainHash.fromLanes(newest?.chainHigh ?? s.window.foldedChainHigh, newest?.chainLow ?? s.window.foldedChainLow);
  } else {
    // The cut lies below what the node remembers batch by batch: hash and producers at `end` are not known here. Other copies know them.
    s.chain = undefined;
    s.producers = undefined;
  }
  s.last = end;
  if (s.durableLast > end) s.durableLast = end;
}

function forget(s: Segment): void {
  s.producers = undefined;
  s.window.reset(s.last, 0, 0);
}

/** Snapshot of the producers at `last`; undefined = not known. Does not disturb the table, which stays at the committed mark. */
export function producersAtLast(state: ReplicaState, s: Segment): Uint8Array | undefined {
  if (s.producers === undefined) return undefined;
  const rest = s.window.unfolded();
  const at = s.producers.encode();
  if (rest.length === 0) return at;
  const table = state.options.producers.decode(at);
  for (const batch of rest) table.advance(batch);
  return table.encode();
}

function applySegmentState(state: ReplicaState, e: SegmentStateEntry): void {
  const s = addSegment(state, e.segmentNumber, e.partition, e.segment, e.status, e.base, e.madeBy);
  s.last = e.last;
  s.durableLast = e.last;
  s.lac = e.lac;
  s.end = e.end;
  s.fencedBy = e.fencedBy;
  s.keyRevision = e.keyRevision;
  s.rebuildEpoch = e.rebuildEpoch;
  s.nonce = e.nonce;
  s.chain = e.chainHash === "" ? undefined : ChainHash.fromHex(e.chainHash);
  s.window.reset(e.last, s.chain?.high ?? 0, s.chain?.low ?? 0);
  s.producers = e.producersKnown ? decodeTable(state, e.producers) : undefined;
  s.sizeBytes = e.sizeBytes;
  s.firstAppendMs = e.firstAppendMs;
  s.lastAppendMs = e.lastAppendMs;
  s.maxTimestampMs = e.maxTimestampMs;
}

/** The whole state as entries, for a checkpoint. Queued changes are included: publish it only when everything up to `state.sequence` is durable. */
export function* checkpointEntries(state: ReplicaState): Generator<JournalEntry> {
  yield { kind: "node-state", nextSegmentNumber: state.nextSegmentNumber, damaged: state.damaged };
  for (const p of state.partitions.values()) yield { kind: "partition-state", partition: p.id, maxEpoch: p.maxEpoch };
  for (const s of state.byNumber.values()) yield segmentStateEntry(state, s);
}

function segmentStateEntry(state: ReplicaState, s: Segment): SegmentStateEntry {
  const producers = s.status === "DELETED" ? undefined : producersAtLast(state, s);
  return {
    kind: "segment-state",
    segmentNumber: s.number,
    partition: s.partition,
    segment: s.id,
    status: s.status,
    base: s.base,
    last: s.last,
    lac: s.lac,
    end: s.end,
    fencedBy: s.fencedBy,
    madeBy: s.madeBy,
    keyRevision: s.keyRevision,
    rebuildEpoch: s.rebuildEpoch,
    nonce: s.nonce,
    chainHash: s.chain?.hex() ?? "",
    producers: producers ?? new Uint8Array(0),
    producersKnown: producers !== undefined,
    sizeBytes: s.sizeBytes,
    firstAppendMs: s.firstAppendMs,
    lastAppendMs: s.lastAppendMs,
    maxTimestampMs: s.maxTimestampMs,
  };
}
