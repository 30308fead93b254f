import type { ClusterView } from "@sluice/catalog";
import { BatchCursor, RecordCursor, type Codecs } from "@sluice/core/log";
import { SluiceError, type PartitionId } from "@sluice/core/model";
import type { Marks, SegmentReader } from "@sluice/partition-client";
import type { Position } from "@sluice/proto/v1/consume";
import { proxyLimits } from "./limits.ts";
import type { OwnerOffsets } from "./owner-offsets.ts";

export interface FoundPosition {
  /** -1 = no record at or after the asked time. */
  readonly offset: number;
  /** Of the record found by time; -1 otherwise. */
  readonly timestampMs: number;
  /** End of the log when it was asked for; -1 otherwise. */
  readonly end: number;
}
export interface PositionsOptions {
  readonly view: ClusterView;
  readonly segments: Pick<SegmentReader, "read" | "scanStart">;
  readonly offsets: Pick<OwnerOffsets, "confirm">;
  readonly codecs: Codecs;
}

/** From positions (earliest, latest, offset, time) to offsets. */
export class Positions {
  readonly #options: PositionsOptions;
  constructor(options: PositionsOptions) {
    this.#options = options;
  }

  /** Throws INVALID_ARGUMENT, and what the owner or the storage said when they are needed and do not answer by the deadline. */
  async find(partition: PartitionId, position: Position | undefined, deadlineMs: number, signal?: AbortSignal): Promise<FoundPosition> {
    const at = position?.at;
    switch (at?.case) {
      case "offset": {
        const offset = Number(at.value);
        if (!Number.isSafeInteger(offset) || offset < 0) throw new SluiceError("INVALID_ARGUMENT", `offset ${at.value} is out of range`);
        return { offset, timestampMs: -1, end: -1 };
      }
      case "earliest":
        return this.earliest(partition);
      case "latest":
        return this.latest(partition, deadlineMs, signal);
      case "timestampMs":
        return this.atTime(partition, Number(at.value), deadlineMs, signal);
      default:
        throw new SluiceError("INVALID_ARGUMENT", "a position is one of offset, earliest, latest, timestamp_ms");
    }
  }
  earliest(partition: PartitionId): FoundPosition {
    return { offset: this.#options.view.partition(partition)?.startOffset ?? 0, timestampMs: -1, end: -1 };
  }
  /** Throws what the owner said when it does not answer by the deadline. */
  async latest(partition: PartitionId, deadlineMs: number, signal?: AbortSignal): Promise<FoundPosition> {
    const { highWatermark } = await this.#options.offsets.confirm(partition, deadlineMs, signal);
    return { offset: highWatermark, timestampMs: -1, end: highWatermark };
  }
  /**
   * The first record whose time is not before `timestampMs`. A batch that cannot be decoded here (a Kafka client may be able to), and by its
   * header has such a record, answers with the first offset that may be it: a reader misses nothing from there on, and one that cannot decode
   * the batch either is told so there, with the way past it. Throws INVALID_ARGUMENT, and what owner or storage said.
   */
  async atTime(partition: PartitionId, timestampMs: number, deadlineMs: number, signal?: AbortSignal): Promise<FoundPosition> {
    return this.#byTime(partition, timestampMs, await this.#options.offsets.confirm(partition, deadlineMs, signal), signal);
  }

  async #byTime(partition: PartitionId, timestampMs: number, marks: Marks, signal: AbortSignal | undefined): Promise<FoundPosition> {
    const { segments } = this.#options;
    const none = { offset: -1, timestampMs: -1, end: marks.highWatermark };
    if (!Number.isSafeInteger(timestampMs)) throw new SluiceError("INVALID_ARGUMENT", `timestamp ${timestampMs} is out of range`);
    if (marks.highWatermark <= this.earliest(partition).offset) return none;
    let offset = await segments.scanStart(partition, timestampMs);
    while (offset !== undefined && offset < marks.highWatermark) {
      if (signal?.aborted === true) throw signal.reason;
      const { batches, nextOffset } = await segments.read(partition, offset, proxyLimits.fetchBytesDefault, marks);
      if (batches.length === 0) return none;
      const found = this.#scan(batches, offset, timestampMs);
      if (found !== undefined) return { ...found, end: marks.highWatermark };
      offset = nextOffset;
    }
    return none;
  }
  #scan(batches: Uint8Array, from: number, timestampMs: number): { offset: number; timestampMs: number } | undefined {
    const cursor = new BatchCursor(batches);
    const records = new RecordCursor();
    while (cursor.next()) {
      const { header } = cursor;
      if (header.maxTimestamp < timestampMs || header.isControl) continue;
      let at = Math.max(from, header.baseOffset);
      try {
        records.open(batches, cursor.position, header, this.#options.codecs);
        while (records.next()) {
          if (records.offset < from) continue;
          if (records.timestampMs >= timestampMs) return { offset: records.offset, timestampMs: records.timestampMs };
          at = records.offset + 1;
        }
      } catch {
        // Nothing of it can be told but the header: its latest time, which is one of a record.
        return { offset: at, timestampMs: header.maxTimestamp };
      }
    }
    return undefined;
  }
}
