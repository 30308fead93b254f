import type { SluiceError } from "@sluice/core/model";
import type { ProduceAnswer } from "./messages.ts";
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
  readonly records: number;
  /** What it counts for in the buffer. */
  readonly bufferBytes: number;
  readonly deadlineMs: number;
  readonly settlement: Settlement;
  /** Encoded by the caller: never stamped. */
  readonly raw: boolean;
  /** A repetition cannot be stored twice. */
  readonly repeatable: boolean;
  readonly expectedBaseOffset: number | undefined;
  readonly fenceToken: number | undefined;
  bytes: Uint8Array;
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
  }
}
