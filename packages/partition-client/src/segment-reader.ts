import type { ClusterView, Keys } from "@sluice/catalog";
import { segmentCodec, startCodec } from "@sluice/catalog";
import { cutRun, findBatch, newBatchHeader, readBatchHeader } from "@sluice/core/log";
import { codeOf, SluiceError, type PartitionId, type SegmentRecord } from "@sluice/core/model";
import type { MetadataStore } from "@sluice/metadata";
import type { ObjectReader } from "./object-reader.ts";
import type { StoreReader } from "./store-reader.ts";
import type { Marks } from "./tail-follower.ts";

export interface PartitionRead {
  /** Whole batches; the first may begin before the asked offset. Empty: nothing committed from there on is known yet. */
  readonly batches: Uint8Array;
  /** Offset after the last batch; the asked offset when empty. */
  readonly nextOffset: number;
  readonly from: "storage node" | "object" | "none";
}
const EMPTY = new Uint8Array(0);

/**
 * Reads committed records of a partition by its segments.
 *
 *   offset -> segment -> sealed: at most to its end, from a storage node while it has one, else from the object; a node that was not told of the
 *                                end yet, because the owner left, hears it from the read
 *                        open:   at most to the mark published for that segment's epoch, from a storage node
 *
 * The copy of the metadata may be old: a segment that is gone, or an offset that no known segment holds, means read the keys again, and only
 * then an answer. An old copy can also take a sealed segment for open; the node then knows better, or cuts at the mark of that epoch.
 */
export class SegmentReader {
  readonly #view: ClusterView;
  readonly #store: MetadataStore;
  readonly #keys: Keys;
  readonly #stores: StoreReader;
  readonly #objects: ObjectReader | undefined;

  constructor(options: {
    readonly view: ClusterView;
    readonly store: MetadataStore;
    readonly keys: Keys;
    readonly stores: StoreReader;
    readonly objects: ObjectReader | undefined;
  }) {
    this.#view = options.view;
    this.#store = options.store;
    this.#keys = options.keys;
    this.#stores = options.stores;
    this.#objects = options.objects;
  }

  /** Throws OFFSET_OUT_OF_RANGE for what retention removed, READ_UNAVAILABLE when no copy answers. `marks`: what the owner last published. */
  async read(p: PartitionId, offset: number, maxBytes: number, marks: Marks | undefined): Promise<PartitionRead> {
    const known = this.#view.segmentsOf(p).map((e) => e.record);
    try {
      const answer = await this.#readIn(p, known, this.#view.partition(p)?.startOffset ?? 0, offset, maxBytes, marks);
      if (answer !== undefined) return answer;
    } catch (error) {
      if (!["READ_UNAVAILABLE", "UNKNOWN_SEGMENT", "OBJECT_NOT_FOUND", "OFFSET_OUT_OF_RANGE"].includes(codeOf(error))) throw error;
    }
    const fresh = await this.#refresh(p);
    const answer = await this.#readIn(p, fresh.segments, fresh.start, offset, maxBytes, marks);
    return answer ?? { batches: EMPTY, nextOffset: offset, from: "none" };
  }

  /** First record position at or after a time: the offset from which a scan finds it; undefined when no segment holds one. */
  async scanStart(p: PartitionId, timestampMs: number): Promise<number | undefined> {
    const { segments, start } = await this.#refresh(p);
    for (const record of segments) {
      if (record.end !== undefined && (record.end < start || record.end < record.base)) continue;
      if (record.end !== undefined && record.maxTimestampMs !== undefined && record.maxTimestampMs < timestampMs) continue;
      const found = await this.#lookup(p, record, timestampMs);
      if (found >= 0) return Math.max(found, start);
    }
    return undefined;
  }

  async #lookup(p: PartitionId, record: SegmentRecord, timestampMs: number): Promise<number> {
    if (record.phase !== "LOCAL_DELETED") {
      for (const replica of this.#stores.order(record.replicas)) {
        try {
          return await this.#stores.lookupTimestamp(replica, p, record.segment, timestampMs);
        } catch {
          // The next copy.
        }
      }
    }
    if (record.object === undefined || this.#objects === undefined)
      throw new SluiceError("READ_UNAVAILABLE", "no copy of the segment answers");
    return this.#objects.lookupTimestamp(record.object, timestampMs);
  }

  async #readIn(
    p: PartitionId,
    segments: readonly SegmentRecord[],
    start: number,
    offset: number,
    maxBytes: number,
    marks: Marks | undefined,
  ): Promise<PartitionRead | undefined> {
    if (offset < start) throw new SluiceError("OFFSET_OUT_OF_RANGE", `offset ${offset} is before the log start ${start}`);
    const record = segmentOf(segments, offset);
    if (record === undefined) return undefined;
    if (record.phase === "DELETING") throw new SluiceError("OFFSET_OUT_OF_RANGE", `offset ${offset} is being removed`);
    return this.#readSegment(p, record, offset, maxBytes, marks);
  }

  async #readSegment(
    p: PartitionId,
    record: SegmentRecord,
    offset: number,
    maxBytes: number,
    marks: Marks | undefined,
  ): Promise<PartitionRead | undefined> {
    const sameEpoch = marks !== undefined && marks.epoch === record.segment.epoch;
    const committed = record.end ?? (sameEpoch ? marks.highWatermark - 1 : -1);
    let failure: unknown;
    let lagging = false;
    if (record.phase !== "LOCAL_DELETED") {
      for (const replica of this.#stores.order(record.replicas)) {
        try {
          const data = await this.#stores.read(replica, {
            partition: p,
            segment: record.segment,
            from: offset,
            maxBytes,
            committed,
            committedEpoch: committed < 0 ? -1 : record.segment.epoch,
          });
          const limit = Math.min(data.limit, record.end ?? Number.MAX_SAFE_INTEGER);
          const cut = trim(data.payload, offset, limit);
          // A sealed segment holds the offset for certain: an empty answer is a copy that lacks it.
          if (cut.length > 0) return answer(cut, "storage node");
          if (record.end !== undefined) continue;
          // An old view: the node knows the segment's end, and the offset is in a later one.
          if (data.sealed && offset > data.limit) return undefined;
          // Committed, but this copy lags: the third one may.
          if (sameEpoch && offset < marks.highWatermark) lagging = true;
          else return { batches: EMPTY, nextOffset: offset, from: "none" };
        } catch (error) {
          failure = error;
        }
      }
    }
    if (lagging) return { batches: EMPTY, nextOffset: offset, from: "none" };
    if (record.object !== undefined && this.#objects !== undefined) {
      const cut = trim(await this.#objects.read(record.object, offset, maxBytes), offset, record.end ?? offset);
      if (cut.length > 0) return answer(cut, "object");
    }
    throw new SluiceError("READ_UNAVAILABLE", `no copy of the segment at ${record.base} answers`, { cause: failure });
  }

  async #refresh(p: PartitionId): Promise<{ segments: SegmentRecord[]; start: number }> {
    const done = await this.#store.txn({
      compare: [],
      then: [
        { kind: "list", prefix: this.#keys.segments(p) },
        { kind: "get", key: this.#keys.start(p) },
      ],
    });
    const [listed, started] = done.results;
    const segments = listed?.kind === "range" ? listed.entries.map((e) => segmentCodec.decode(e.value)) : [];
    const start = started?.kind === "range" ? started.entries[0] : undefined;
    return { segments, start: start === undefined ? 0 : startCodec.decode(start.value).offset };
  }
}

/** The last segment that begins at or before the offset and does not end before it. Segments of one base: only the last can hold records. */
function segmentOf(segments: readonly SegmentRecord[], offset: number): SegmentRecord | undefined {
  let found: SegmentRecord | undefined;
  for (const record of segments) {
    if (record.base > offset) break;
    if (record.end === undefined || record.end >= offset) found = record;
  }
  return found;
}

/** From the batch that holds `offset` to the last one that ends at or below `limit`. */
function trim(bytes: Uint8Array, offset: number, limit: number): Uint8Array {
  const at = bytes.length === 0 ? -1 : findBatch(bytes, offset);
  return at < 0 ? EMPTY : bytes.subarray(at, cutRun(bytes, limit, at));
}

function answer(batches: Uint8Array, from: PartitionRead["from"]): PartitionRead {
  const header = newBatchHeader();
  let at = 0;
  let nextOffset = 0;
  while (at < batches.length && readBatchHeader(batches, at, batches.length, header) === undefined) {
    nextOffset = header.lastOffset + 1;
    at += header.totalBytes;
  }
  return { batches, nextOffset, from };
}
