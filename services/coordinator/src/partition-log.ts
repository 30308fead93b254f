import { nativeCodecs } from "@sluice/codec";
import type { EncodedRecord } from "@sluice/core/group";
import { BatchBuilder, BatchCursor, checkRun, RecordCursor, type Codecs, type Crc32c } from "@sluice/core/log";
import { asSluiceError, errorCodeOf, limits, SluiceError, type PartitionId } from "@sluice/core/model";
import type { ProduceOutcome, ProduceRouter, SegmentReader } from "@sluice/partition-client";
import type { Clock } from "@sluice/runtime";
import type { BrokerOffsets, ConfirmedMarks } from "./broker-offsets.ts";
import type { AppendCondition, AppendResult, LogRecord, ShardLog } from "./shard-log.ts";

export interface PartitionLogOptions {
  readonly clock: Clock;
  readonly crc32c: Crc32c;
  /** The partition of the shard; undefined while its topic is not known here. */
  readonly partition: () => PartitionId | undefined;
  readonly router: ProduceRouter;
  readonly reader: SegmentReader;
  readonly offsets: BrokerOffsets;
}

/** The log of a shard as a partition: appends through its broker, reads from storage nodes and objects. */
export class PartitionLog implements ShardLog {
  readonly #options: PartitionLogOptions;
  readonly #builder: BatchBuilder;
  readonly #codecs: Codecs = nativeCodecs;
  #marks: ConfirmedMarks | undefined;

  constructor(options: PartitionLogOptions) {
    this.#options = options;
    this.#builder = new BatchBuilder({ crc32c: options.crc32c, codecs: this.#codecs, bytesMax: limits.messageBytesDefault });
  }

  append(records: readonly EncodedRecord[], condition: AppendCondition): Promise<AppendResult> {
    const { clock, partition, router } = this.#options;
    const p = partition();
    if (p === undefined) return Promise.resolve({ kind: "refused", code: "UNKNOWN_TOPIC" });
    let batch: Uint8Array;
    try {
      const nowMs = clock.wallMs();
      for (const { key, value } of records) {
        if (!this.#builder.tryAppend(nowMs, key, value)) throw new SluiceError("MESSAGE_TOO_LARGE", "the records do not fit one batch");
      }
      batch = this.#builder.close();
    } catch (error) {
      this.#builder.reset();
      return Promise.resolve({ kind: "refused", code: asSluiceError(error).code });
    }
    return new Promise((resolve) => {
      router.produce({ partition: p, batch, idempotent: false, ...condition, done: (outcome) => resolve(resultOf(outcome)) });
    });
  }

  async end(deadlineMs: number): Promise<number> {
    const p = this.#partition();
    this.#marks = await this.#options.offsets.marks(p, deadlineMs);
    return this.#marks.highWatermark;
  }

  async read(from: number, end: number): Promise<readonly LogRecord[]> {
    const marks = this.#marks;
    const known = marks && {
      epoch: marks.epoch,
      segmentK: 0,
      segmentBase: 0,
      highWatermark: marks.highWatermark,
      lastStableOffset: marks.lastStable,
      logStart: marks.logStart,
    };
    const { batches } = await this.#options.reader.read(this.#partition(), from, limits.readRunBytesMax, known);
    try {
      checkRun(batches, { crc32c: this.#options.crc32c, contiguous: false });
    } catch (cause) {
      // The next read asks another copy.
      throw new SluiceError("READ_UNAVAILABLE", `the copy that was read is damaged behind offset ${from}`, { cause });
    }
    const out: LogRecord[] = [];
    const run = new BatchCursor(batches);
    const cursor = new RecordCursor();
    while (run.next()) {
      cursor.open(batches, run.position, run.header, this.#codecs);
      while (cursor.next()) {
        if (cursor.offset >= from && cursor.offset < end) out.push({ offset: cursor.offset, key: cursor.key, value: cursor.value });
      }
    }
    return out;
  }

  #partition(): PartitionId {
    const p = this.#options.partition();
    if (p === undefined) throw new SluiceError("UNKNOWN_TOPIC", "the topic of the group shards is not there yet");
    return p;
  }
}

function resultOf(outcome: ProduceOutcome): AppendResult {
  if (outcome.code === 0) return { kind: "stored", baseOffset: outcome.baseOffset };
  const code = errorCodeOf(outcome.code);
  switch (code) {
    case "UNEXPECTED_OFFSET":
      return { kind: "conflict" };
    case "FENCED_TOKEN":
      return { kind: "fenced" };
    case "NOT_OWNER":
    case "PARTITION_RECOVERING":
    case "NOT_ENOUGH_REPLICAS":
    case "OVERLOADED":
    case "LINK_DOWN":
    case "SHUTTING_DOWN":
    case "DISK_FULL":
    case "MESSAGE_TOO_LARGE":
    case "INVALID_TIMESTAMP":
      return { kind: "refused", code };
    default:
      // Time-outs too: the batch may be stored, now or later.
      return { kind: "unknown", code };
  }
}
