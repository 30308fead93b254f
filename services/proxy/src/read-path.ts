import type { ClusterView } from "@sluice/catalog";
import { codeOf, SluiceError, type ErrorCode, type PartitionId, type TopicRecord } from "@sluice/core/model";
import type { Marks, SegmentReader } from "@sluice/partition-client";
import type { Clock } from "@sluice/runtime";
import { proxyLimits } from "./limits.ts";
import type { OwnerOffsets } from "./owner-offsets.ts";
import type { Tail, TailCache } from "./tail-cache.ts";

export interface ReadAnswer {
  /** Whole committed batches in order; the first may begin before the asked offset. Empty: nothing came in time. */
  readonly runs: readonly Uint8Array[];
  readonly bytes: number;
  readonly nextOffset: number;
  /** High watermark, last stable offset and log start as far as they are known; -1 = not known. */
  readonly highWatermark: number;
  readonly lastStableOffset: number;
  readonly logStart: number;
  /** Trace parent of a batch that came straight from its owner and whose write is being recorded. */
  readonly trace?: Uint8Array | undefined;
}
export type ReadSource = "tail" | "storage node" | "object";
export interface ReadOptions {
  readonly maxBytes: number;
  /** Monotonic ms up to which the read waits for a first record. */
  readonly waitUntilMs: number;
  /** Monotonic ms up to which it goes on trying while no copy answers; then it throws why. */
  readonly giveUpMs: number;
  readonly signal?: AbortSignal | undefined;
}
export interface ReadPathOptions {
  readonly clock: Clock;
  readonly view: ClusterView;
  readonly tails: TailCache;
  readonly segments: Pick<SegmentReader, "read">;
  readonly offsets: Pick<OwnerOffsets, "confirm">;
  readonly onRead: (source: ReadSource, bytes: number) => void;
}

/** One reader of one partition, at one place. Near the end it holds the partition's tail; `close` lets go of it. */
export interface Reader {
  readonly topic: TopicRecord;
  readonly partition: PartitionId;
  /** Next record to read. */
  offset: number;
  tail: Tail | undefined;
  /** What the tail's owner said last; kept when the tail is left. */
  marks: Marks | undefined;
  /** Version of the tail when the last read began. */
  version: number;
}
/** A copy is away, or the metadata is, or the owner: another attempt can succeed. */
const AGAIN: ReadonlySet<ErrorCode> = new Set([
  "READ_UNAVAILABLE",
  "METADATA_UNAVAILABLE",
  "UNKNOWN_OUTCOME",
  "TIMED_OUT",
  "OUTCOME_UNKNOWN",
  "OBJECT_STORE_UNAVAILABLE",
  "UNREACHABLE",
  "LINK_DOWN",
  "NOT_OWNER",
  "PARTITION_RECOVERING",
  "NOT_ENOUGH_REPLICAS",
  "DISK_FULL",
  "OVERLOADED",
  "SHUTTING_DOWN",
  "UNKNOWN_SEGMENT",
  "SEGMENT_INCOMPLETE",
  "OBJECT_NOT_FOUND",
]);
export const readCanRetry = (error: unknown): boolean => AGAIN.has(codeOf(error));

const isAborted = (signal: AbortSignal | undefined): boolean => signal?.aborted === true;

/**
 * Where a read goes:
 *
 *   offset in a sealed segment ─────────────► storage node or object, nobody is followed
 *   else: join the tail ─────────► cache ───► what the owner pushed
 *                                  miss ────► storage node, cut at the mark of that segment's epoch
 *                                  at the end ► wait for the next push
 *                                  beyond it ─► ask the owner (barrier) before OFFSET_OUT_OF_RANGE
 *
 * Without an owner or without the metadata, history stays readable and readers at the end wait.
 */
export class ReadPath {
  readonly #options: ReadPathOptions;

  constructor(options: ReadPathOptions) {
    this.#options = options;
  }

  open(topic: TopicRecord, partition: PartitionId, offset: number): Reader {
    return { topic, partition, offset, tail: undefined, marks: undefined, version: 0 };
  }
  close(reader: Reader): void {
    if (reader.tail !== undefined) this.#options.tails.leave(reader.tail);
    reader.tail = undefined;
  }

  /** Reads from `reader.offset`, which is not moved. Throws OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC; after `giveUpMs` why no copy answered. */
  async read(reader: Reader, options: ReadOptions): Promise<ReadAnswer> {
    const { clock } = this.#options;
    for (;;) {
      if (isAborted(options.signal)) return this.#empty(reader);
      this.#checkTopic(reader);
      reader.version = reader.tail?.version ?? 0;
      try {
        const answer = this.#fromTail(reader, options.maxBytes) ?? (await this.#fromStorage(reader, options));
        if (answer !== undefined) return answer;
      } catch (error) {
        if (isAborted(options.signal)) return this.#empty(reader);
        if (!readCanRetry(error) || clock.monotonicMs() >= options.giveUpMs) throw error;
        await clock.sleep(proxyLimits.readRetryMs, options.signal).catch(() => undefined);
        continue;
      }
      const leftMs = options.waitUntilMs - clock.monotonicMs();
      if (leftMs <= 0) return this.#empty(reader);
      await this.wait(reader, leftMs, options.signal);
    }
  }

  /** After a read that gave nothing: until the tail has news, at most `timeoutMs`, and not for ever. */
  async wait(reader: Reader, timeoutMs: number, signal?: AbortSignal): Promise<void> {
    const { clock, tails } = this.#options;
    const { tail, marks } = reader;
    // Committed by the mark, but no copy that was asked has it yet: soon.
    const behind = tail === undefined || (marks !== undefined && marks.highWatermark > reader.offset);
    if (tail === undefined || (behind && tail.version === reader.version)) {
      await clock.sleep(Math.min(timeoutMs, proxyLimits.readRetryMs), signal).catch(() => undefined);
    } else await tails.change(tail, reader.version, Math.min(timeoutMs, proxyLimits.tailQuietMs), signal);
  }
  /** The end of the log, confirmed by its owner. Throws what `OwnerOffsets.confirm` does. */
  end(reader: Reader, deadlineMs: number, signal?: AbortSignal): Promise<Marks> {
    return this.#options.offsets.confirm(reader.partition, deadlineMs, signal);
  }

  #fromTail(reader: Reader, maxBytes: number): ReadAnswer | undefined {
    if (reader.tail === undefined) return undefined;
    const found = this.#options.tails.read(reader.tail, reader.offset, maxBytes);
    if (found === undefined) return undefined;
    this.#options.onRead("tail", found.bytes);
    return { ...this.#marks(reader), ...found };
  }

  async #fromStorage(reader: Reader, options: ReadOptions): Promise<ReadAnswer | undefined> {
    const { segments, onRead } = this.#options;
    const sealed = this.#sealedAt(reader);
    // A reader of the history holds no tail; what it heard of the end is old by then, and says nothing here.
    if (sealed) this.close(reader);
    else if (this.#join(reader)) {
      // Others may have followed it before, and so may this reader's client: a Kafka fetch is a reader of its own.
      const cached = this.#fromTail(reader, options.maxBytes);
      if (cached !== undefined) return cached;
    }
    const marks = (reader.marks = reader.tail?.marks ?? reader.marks);
    if (!sealed && marks !== undefined && reader.offset >= marks.highWatermark) {
      if (reader.offset > marks.highWatermark) await this.#confirm(reader, options);
      return undefined;
    }
    const { batches, nextOffset, from } = await segments.read(reader.partition, reader.offset, options.maxBytes, marks);
    if (batches.length === 0 || from === "none") {
      if (!this.#join(reader) && marks === undefined) await this.#confirm(reader, options);
      return undefined;
    }
    onRead(from, batches.length);
    return { ...this.#marks(reader), runs: [batches], bytes: batches.length, nextOffset };
  }

  /** False: it had it already. */
  #join(reader: Reader): boolean {
    if (reader.tail !== undefined) return false;
    reader.tail = this.#options.tails.join(reader.partition, reader.offset);
    reader.version = reader.tail.version;
    return true;
  }

  /**
   * An offset that nobody has heard of yet: only the owner can say whether it is the next one or was never given. Without an owner the
   * reader waits.
   */
  async #confirm(reader: Reader, options: ReadOptions): Promise<void> {
    const { clock, offsets } = this.#options;
    if (reader.offset <= (reader.marks?.highWatermark ?? this.#endKnown(reader))) return;
    let end: number;
    try {
      end = (await offsets.confirm(reader.partition, clock.monotonicMs() + proxyLimits.tailQuietMs, options.signal)).highWatermark;
    } catch (error) {
      if (readCanRetry(error)) return;
      throw error;
    }
    if (reader.offset > end) throw new SluiceError("OFFSET_OUT_OF_RANGE", `offset ${reader.offset} is beyond the end ${end}`);
  }
  /** The lowest end that the log can have, by the segments in the view. */
  #endKnown(reader: Reader): number {
    const last = this.#options.view.segmentsOf(reader.partition).at(-1)?.record;
    return last === undefined ? 0 : last.end === undefined ? last.base : last.end + 1;
  }

  /** The offset lies in a segment that is known to be sealed: the view may be old, but a sealed segment stays so. */
  #sealedAt(reader: Reader): boolean {
    const partition = this.#options.view.partition(reader.partition);
    if (partition === undefined) return false;
    for (const { record } of partition.segments.values()) {
      if (record.end !== undefined && record.base <= reader.offset && reader.offset <= record.end) return true;
    }
    return false;
  }
  #checkTopic(reader: Reader): void {
    if (!this.#options.view.isGone(reader.partition.topicId)) return;
    throw new SluiceError("UNKNOWN_TOPIC", `topic ${reader.topic.name} has been deleted`);
  }
  #marks(reader: Reader): Pick<ReadAnswer, "highWatermark" | "lastStableOffset" | "logStart"> {
    const marks = (reader.marks = reader.tail?.marks ?? reader.marks);
    const start = this.#options.view.partition(reader.partition)?.startOffset ?? 0;
    return {
      highWatermark: marks?.highWatermark ?? -1,
      lastStableOffset: marks?.lastStableOffset ?? -1,
      logStart: Math.max(start, marks?.logStart ?? 0),
    };
  }
  #empty(reader: Reader): ReadAnswer {
    return { ...this.#marks(reader), runs: [], bytes: 0, nextOffset: reader.offset };
  }
}
