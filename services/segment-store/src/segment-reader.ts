import { BatchCursor } from "@sluice/core/log";
import { errorNumber, codeOf, isSluiceError, partitionKey, segmentKey } from "@sluice/core/model";
import type { ReadAnswer, ReadRequest, RecoveryReadAnswer, RecoveryReadRequest, Segment, SegmentAddress } from "@sluice/core/replica";
import { readPermission, recoveryReadLimit } from "@sluice/core/replica";
import type { Clock, Logger } from "@sluice/runtime";
import type { StoreMetrics } from "./metrics.ts";
import type { JournalReader } from "./reader.ts";
import type { ReplicaHost } from "./replica-host.ts";

export interface SegmentReaderOptions {
  readonly host: ReplicaHost;
  readonly reader: JournalReader;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: StoreMetrics;
}
const EMPTY = new Uint8Array(0);

/** Reads under the rules: what may be served is the machine's to say, the bytes are the journal's. */
export class SegmentReader {
  readonly #options: SegmentReaderOptions;
  constructor(options: SegmentReaderOptions) {
    this.#options = options;
  }

  async read(r: ReadRequest): Promise<ReadAnswer> {
    const { host, reader, clock, metrics } = this.#options;
    const began = clock.monotonicMs();
    const may = readPermission(host.state, r);
    if (may.code !== 0 || may.segment === undefined) {
      metrics.readRefused(String(may.code));
      return { code: may.code, sealed: may.sealed, limit: may.limit, payload: EMPTY };
    }
    if (may.segment.status === "INCOMPLETE" && r.from > may.limit)
      return { code: errorNumber("SEGMENT_INCOMPLETE"), sealed: false, limit: may.limit, payload: EMPTY };
    try {
      const payload = await reader.read(may.segment, Math.max(r.from, may.segment.base ?? 0), may.limit, r.maxBytes);
      metrics.read(payload.length, (clock.monotonicMs() - began) / 1000);
      return { code: 0, sealed: may.sealed, limit: may.limit, payload };
    } catch (error) {
      return { code: this.#failed(may.segment, error), sealed: may.sealed, limit: may.limit, payload: EMPTY };
    }
  }

  async recoveryRead(r: RecoveryReadRequest): Promise<RecoveryReadAnswer> {
    const { host, reader } = this.#options;
    const may = recoveryReadLimit(host.state, r);
    if (may.code !== 0 || may.segment === undefined)
      return { code: may.code, ...(may.message !== undefined && { message: may.message }), payload: EMPTY };
    try {
      return { code: 0, payload: await reader.read(may.segment, Math.max(r.from, may.segment.base ?? 0), may.upTo, r.maxBytes) };
    } catch (error) {
      return { code: this.#failed(may.segment, error), payload: EMPTY };
    }
  }

  #failed(segment: Segment, error: unknown): number {
    const { logger, metrics } = this.#options;
    const code = isSluiceError(error) ? error.code : "READ_UNAVAILABLE";
    metrics.readRefused(code);
    if (code !== "OVERLOADED")
      logger.error("read failed", { partition: segment.partitionKey, segment: segment.key, code: codeOf(error), err: error });
    return errorNumber(code);
  }

  /**
   * First offset of the batch that holds, or comes before, the first record with a timestamp of at least `timestampMs`, among what is committed; -1 = none.
   */
  async lookupTimestamp(address: SegmentAddress, timestampMs: number): Promise<{ readonly code: number; readonly offset: number }> {
    const { host, reader } = this.#options;
    const s = host.state.partitions.get(partitionKey(address.partition))?.segments.get(segmentKey(address.segment));
    const may = readPermission(host.state, { ...address, from: 0, maxBytes: 0, highWatermark: -1, highWatermarkEpoch: -1 });
    if (may.code !== 0 || s === undefined) return { code: may.code, offset: -1 };
    const locations = host.locations.bySegment.get(s.number);
    const point = locations?.floorOfTimestamp(timestampMs) ?? -1;
    if (locations === undefined || point < 0) return { code: 0, offset: -1 };
    const cursor = new BatchCursor();
    let next = locations.offsets[point] as number;
    try {
      while (next <= may.limit) {
        const run = await reader.read(s, next, may.limit, 256 * 1024);
        if (run.length === 0) break;
        cursor.reset(run);
        while (cursor.next()) {
          if (cursor.header.maxTimestamp >= timestampMs) return { code: 0, offset: cursor.header.baseOffset };
          next = cursor.header.lastOffset + 1;
        }
      }
      return { code: 0, offset: -1 };
    } catch (error) {
      return { code: this.#failed(s, error), offset: -1 };
    }
  }
}
