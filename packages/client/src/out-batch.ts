import { limits, type SluiceError } from "@sluice/core/model";
import type { ProduceAnswer } from "./messages.ts";
import { clientLimits, clientTimers } from "./timing.ts";
import type { BatchMetadata, RecordMetadata } from "./types.ts";

/** A producer id as the server gave it. */
export interface ProducerIdentity {
  readonly producerId: number;
  readonly producerEpoch: number;
}
/** The queue that a batch stands in. */
export interface BatchOwner {
  answered(batch: OutBatch, answer: ProduceAnswer): void;
  /** The stream broke before the answer; `sent` false = nothing ever left this process. Followed by one `lostAll`. */
  lost(batch: OutBatch, error: SluiceError, sent: boolean): void;
  lostAll(): void;
}
/** Takes the result of a batch, once. */
export interface Settlement {
  stored(partition: number, baseOffset: number, lastOffset: number, appendTimeMs: number): void;
  failed(error: SluiceError): void;
}
/** Takes the result of one record; `index` is its own number there. */
export interface RecordSink {
  stored(index: number, metadata: RecordMetadata): void;
  failed(index: number, error: SluiceError): void;
}

/** Who waits for the records of a batch, in parallel arrays. */
export class RecordSettlement implements Settlement {
  readonly #sinks: RecordSink[] = [];
  readonly #indexes: number[] = [];
  readonly #timesMs: number[] = [];
  add(sink: RecordSink, index: number, timestampMs: number): void {
    this.#sinks.push(sink);
    this.#indexes.push(index);
    this.#timesMs.push(timestampMs);
  }
  stored(partition: number, baseOffset: number, _lastOffset: number, appendTimeMs: number): void {
    for (let i = 0; i < this.#sinks.length; i++) {
      const timestampMs = appendTimeMs >= 0 ? appendTimeMs : (this.#timesMs[i] as number);
      const offset = baseOffset < 0 ? -1 : baseOffset + i;
      (this.#sinks[i] as RecordSink).stored(this.#indexes[i] as number, { partition, offset, timestampMs });
    }
  }
  failed(error: SluiceError): void {
    for (let i = 0; i < this.#sinks.length; i++) (this.#sinks[i] as RecordSink).failed(this.#indexes[i] as number, error);
  }
}

/** One promise for one record. */
export class OneRecord implements RecordSink {
  readonly #resolve: (metadata: RecordMetadata) => void;
  readonly #reject: (error: SluiceError) => void;
  constructor(resolve: (metadata: RecordMetadata) => void, reject: (error: SluiceError) => void) {
    this.#resolve = resolve;
    this.#reject = reject;
  }
  stored(_index: number, metadata: RecordMetadata): void {
    this.#resolve(metadata);
  }
  failed(_index: number, error: SluiceError): void {
    this.#reject(error);
  }
}
/** One promise for many records. */
export class ManyRecords implements RecordSink {
  readonly #results: RecordMetadata[];
  readonly #resolve: (metadata: readonly RecordMetadata[]) => void;
  readonly #reject: (error: SluiceError) => void;
  #left: number;
  #error: SluiceError | undefined;
  constructor(count: number, resolve: (metadata: readonly RecordMetadata[]) => void, reject: (error: SluiceError) => void) {
    this.#results = Array.from({ length: count });
    this.#left = count;
    this.#resolve = resolve;
    this.#reject = reject;
  }
  stored(index: number, metadata: RecordMetadata): void {
    this.#results[index] = metadata;
    this.#one();
  }
  failed(_index: number, error: SluiceError): void {
    this.#error ??= error;
    this.#one();
  }
  #one(): void {
    if (--this.#left > 0) return;
    if (this.#error === undefined) this.#resolve(this.#results);
    else this.#reject(this.#error);
  }
}
export class OneBatch implements Settlement {
  readonly #resolve: (metadata: BatchMetadata) => void;
  readonly #reject: (error: SluiceError) => void;
  constructor(resolve: (metadata: BatchMetadata) => void, reject: (error: SluiceError) => void) {
    this.#resolve = resolve;
    this.#reject = reject;
  }
  stored(partition: number, baseOffset: number, lastOffset: number, appendTimeMs: number): void {
    this.#resolve({ partition, baseOffset, lastOffset, appendTimeMs });
  }
  failed(error: SluiceError): void {
    this.#reject(error);
  }
}

/**
 * A closed batch on its way:
 *
 *   waiting ──sent──► inFlight ──answered well──► gone
 *      ▲                 │  └────refused for good──► gone (failed)
 *      └── its turn ── refused ◄── may be tried again, or its stream broke
 */
export class OutBatch {
  readonly topic: string;
  readonly partition: number;
  records: number;
  /** What it counts for in the buffer. */
  bufferBytes: number;
  deadlineMs: number;
  readonly settlement: Settlement;
  /** Encoded by the caller: never stamped. */
  readonly raw: boolean;
  /** A repetition cannot be stored twice. */
  readonly repeatable: boolean;
  readonly expectedBaseOffset: number | undefined;
  readonly fenceToken: number | undefined;
  /** Trace context that its servers go on with: that of the first record, or batch, that is being recorded. */
  trace: string | undefined;
  bytes: Uint8Array;
  /** Goes without company: a write that it was part of was refused. */
  alone = false;
  owner: BatchOwner | undefined = undefined;
  state: "waiting" | "inFlight" | "refused" = "waiting";
  refusal: SluiceError | undefined = undefined;
  /** First sequence; -1 = not given yet. Of `identity`. */
  sequence = -1;
  identity: ProducerIdentity | undefined = undefined;
  /** Identities under which its sequence was refused. */
  sequenceRefusals = 0;
  everSent = false;
  /** Counts the batches of the partition in the order they were first sent. */
  ordinal = 0;
  /** An attempt ended without an answer that tells whether it is stored. */
  inDoubt = false;
  settled = false;
  id = 0;
  sentMs = 0;
  onSettled: (() => void)[] | undefined = undefined;

  constructor(fields: {
    topic: string;
    partition: number;
    bytes: Uint8Array;
    records: number;
    bufferBytes: number;
    deadlineMs: number;
    settlement: Settlement;
    raw?: boolean;
    repeatable: boolean;
    expectedBaseOffset?: number | undefined;
    fenceToken?: number | undefined;
    trace?: string | undefined;
  }) {
    this.topic = fields.topic;
    this.partition = fields.partition;
    this.bytes = fields.bytes;
    this.records = fields.records;
    this.bufferBytes = fields.bufferBytes;
    this.deadlineMs = fields.deadlineMs;
    this.settlement = fields.settlement;
    this.raw = fields.raw ?? false;
    this.repeatable = fields.repeatable;
    this.expectedBaseOffset = fields.expectedBaseOffset;
    this.fenceToken = fields.fenceToken;
    this.trace = fields.trace;
  }
}

const NOTHING = new Uint8Array(0);

/**
 * Batches of a partition that found themselves waiting one behind the other, and are written together: one message, one answer. Only batches
 * without a sequence, for which the server gives one outcome to all.
 *
 *   waiting: [ run: a b c ] [ d with a sequence ] [ e ]
 */
export class OutRun extends OutBatch {
  readonly parts: OutBatch[];
  runBytes = 0;

  constructor(first: OutBatch) {
    const parts: OutBatch[] = [];
    super({
      topic: first.topic,
      partition: first.partition,
      bytes: NOTHING,
      records: 0,
      bufferBytes: 0,
      deadlineMs: first.deadlineMs,
      settlement: new RunSettlement(parts),
      raw: true,
      repeatable: false,
    });
    this.parts = parts;
    this.add(first);
  }
  static fits(last: OutBatch | undefined, next: OutBatch): last is OutBatch {
    if (last === undefined || !joinable(last) || !joinable(next)) return false;
    const [bytes, count] = last instanceof OutRun ? [last.runBytes, last.parts.length] : [last.bytes.length, 1];
    if (bytes + next.bytes.length > clientLimits.runBytesMax || count >= limits.produceRunBatchesMax) return false;
    // They end together when time is over in the middle of an attempt.
    return Math.abs(next.deadlineMs - last.deadlineMs) <= clientTimers.runDeadlinesApartMs;
  }
  add(batch: OutBatch): void {
    this.parts.push(batch);
    this.records += batch.records;
    this.bufferBytes += batch.bufferBytes;
    this.runBytes += batch.bytes.length;
    this.trace ??= batch.trace;
    this.deadlineMs = Math.min(this.deadlineMs, batch.deadlineMs);
  }
  /** Puts a batch at the end of a queue, into the last run where it may. */
  static enqueue(queue: OutBatch[], batch: OutBatch): void {
    const last = queue.at(-1);
    if (!OutRun.fits(last, batch)) {
      queue.push(batch);
      return;
    }
    const run = last instanceof OutRun ? last : new OutRun(last);
    if (run !== last) {
      // Who waits for the batch waits for the run now.
      run.owner = last.owner;
      run.onSettled = last.onSettled;
      last.onSettled = undefined;
    }
    run.add(batch);
    queue[queue.length - 1] = run;
  }
  /** Its batches take its place in the queue, each to be written alone. Who waits for the run waits for them. */
  split(queue: OutBatch[], state: OutBatch["state"], refusal: SluiceError | undefined): void {
    const waiting = this.onSettled ?? [];
    let left = this.parts.length;
    for (const part of this.parts) {
      part.alone = true;
      part.owner = this.owner;
      part.state = state;
      part.refusal = refusal;
      part.inDoubt = this.inDoubt;
      if (waiting.length === 0) continue;
      (part.onSettled ??= []).push(() => {
        if (--left === 0) for (const fn of waiting) fn();
      });
    }
    queue.splice(queue.indexOf(this), 1, ...this.parts);
  }
}
const joinable = (b: OutBatch): boolean =>
  b.state === "waiting" &&
  !b.everSent &&
  !b.alone &&
  !b.repeatable &&
  b.sequence < 0 &&
  b.expectedBaseOffset === undefined &&
  b.fenceToken === undefined;

/** Gives each batch of a run its part of the offsets. */
class RunSettlement implements Settlement {
  readonly #parts: readonly OutBatch[];
  constructor(parts: readonly OutBatch[]) {
    this.#parts = parts;
  }
  stored(partition: number, baseOffset: number, _lastOffset: number, appendTimeMs: number): void {
    let offset = baseOffset;
    for (const { records, settlement } of this.#parts) {
      if (offset < 0) settlement.stored(partition, -1, -1, appendTimeMs);
      else settlement.stored(partition, offset, offset + records - 1, appendTimeMs);
      if (offset >= 0) offset += records;
    }
  }
  failed(error: SluiceError): void {
    for (const { settlement } of this.#parts) settlement.failed(error);
  }
}
