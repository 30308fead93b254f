import { crc32c, nativeCodecs } from "@sluice/codec";
import { BatchBuilder, codecs, parseBatchHeader } from "@sluice/core/log";
import { asSluiceError, limits, SluiceError } from "@sluice/core/model";
import { createRecordBuffer, type RecordBuffer } from "./record-buffer.ts";
import type { Connection } from "./connection.ts";
import type { Call } from "./admin.ts";
import { ManyRecords, OneBatch, OneRecord, OutBatch, type RecordSink, type Settlement } from "./out-batch.ts";
import { checkPartition, prepareRecord, type PreparedRecord, toBytes } from "./records.ts";
import { type ProducerSettings, ProducerCore } from "./producer-core.ts";
import { clientLimits, clientTimers } from "./timing.ts";
import { type ClientSpan, sampled, TracedSettlement, TracedSink } from "./tracing.ts";
import type { BatchMetadata, BatchToSend, Producer, ProducerOptions, ProducerRecord, RecordMetadata } from "./types.ts";

/** Throws INVALID_ARGUMENT. */
function producerSettings(options: ProducerOptions): ProducerSettings {
  const idempotent = options.idempotent ?? true;
  const compression = options.compression ?? "none";
  if (!Object.hasOwn(codecs, compression)) throw new SluiceError("INVALID_ARGUMENT", `compression is ${compression}`);
  const max = idempotent ? clientLimits.inFlightBatchesMax : clientLimits.inFlightPlainMax;
  return {
    idempotent,
    codec: codecs[compression],
    lingerMs: within("lingerMs", options.lingerMs ?? clientLimits.lingerMsDefault, 0, clientLimits.lingerMsMax),
    batchBytes: within(
      "batchBytes",
      options.batchBytes ?? clientLimits.batchBytesDefault,
      clientLimits.batchBytesMin,
      limits.messageBytesCap,
    ),
    bufferBytes: within("bufferBytes", options.bufferBytes ?? clientLimits.bufferBytesDefault, clientLimits.batchBytesMin, 2 ** 40),
    maxInFlight: within("maxInFlight", options.maxInFlight ?? (idempotent ? max : 1), 1, max),
    deliveryTimeoutMs: within("deliveryTimeoutMs", options.deliveryTimeoutMs ?? clientTimers.deliveryTimeoutMs, 1, 2 ** 31 - 1),
    partitioner: options.partitioner,
  };
}
export function within(name: string, value: number, min: number, max: number): number {
  if (!(value >= min && value <= max)) throw new SluiceError("INVALID_ARGUMENT", `${name} is ${value}; it is ${min} to ${max}`);
  return value;
}

/** See `Producer`. Takes calls, checks them, waits for room; what is admitted goes to the core. */
export class SluiceProducer implements Producer {
  readonly #connection: Connection;
  readonly #settings: ProducerSettings;
  readonly #topic: string | undefined;
  readonly #traceparent: () => string | undefined;
  readonly #buffer: RecordBuffer;
  readonly #core: ProducerCore;
  readonly #onClosed: (producer: SluiceProducer) => void;
  #closing: Promise<void> | undefined;
  #over: SluiceError | undefined;

  constructor(
    connection: Connection,
    call: Call,
    options: ProducerOptions,
    hooks: {
      readonly traceparent: () => string | undefined;
      readonly onClosed: (producer: SluiceProducer) => void;
      readonly onNewIdentity: (topic: string, partition: number, error: Error) => void;
    },
  ) {
    this.#connection = connection;
    this.#settings = producerSettings(options);
    this.#topic = options.topic;
    this.#traceparent = hooks.traceparent;
    this.#onClosed = hooks.onClosed;
    this.#buffer = createRecordBuffer(this.#settings.bufferBytes);
    this.#core = new ProducerCore(connection, call, this.#settings, this.#buffer, hooks.onNewIdentity);
  }
  get bufferedBytes(): number {
    return this.#buffer.bytes;
  }

  send(record: ProducerRecord): Promise<RecordMetadata> {
    return new Promise((resolve, reject) => {
      const sink = new OneRecord(resolve, reject);
      const span = this.#connection.tracing?.send(record.topic ?? this.#topic ?? "", 1);
      this.#submit(record, span === undefined ? sink : new TracedSink(sink, span, 1), 0, span);
    });
  }
  trySend(record: ProducerRecord): Promise<RecordMetadata> | undefined {
    if (this.#over === undefined && !this.#buffer.hasRoom) return undefined;
    return this.send(record);
  }
  sendMany(records: readonly ProducerRecord[]): Promise<readonly RecordMetadata[]> {
    if (records.length === 0) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      const all = new ManyRecords(records.length, resolve, reject);
      const span = this.#connection.tracing?.send(records[0]?.topic ?? this.#topic ?? "", records.length);
      const sink = span === undefined ? all : new TracedSink(all, span, records.length);
      for (let i = 0; i < records.length; i++) this.#submit(records[i] as ProducerRecord, sink, i, span);
    });
  }
  sendBatch(batch: BatchToSend): Promise<BatchMetadata> {
    return new Promise((resolve, reject) => {
      const { expectedBaseOffset, fenceToken, records } = batch;
      const topic = this.#topicOf(batch.topic);
      checkPartition(batch.partition);
      checkInt64("expectedBaseOffset", expectedBaseOffset);
      checkInt64("fenceToken", fenceToken);
      const span = this.#connection.tracing?.send(topic, records.length);
      const { bytes, trace } = this.#encode(records, topic, span);
      const settlement = traced(new OneBatch(resolve, reject), span);
      const key = toBytes(records[0]?.key, "key");
      this.#submitBatch(
        topic,
        batch.partition,
        key,
        bytes.length,
        (partition) => {
          return new OutBatch({
            topic,
            partition,
            bytes,
            records: records.length,
            bufferBytes: bytes.length,
            deadlineMs: this.#connection.clock.monotonicMs() + this.#settings.deliveryTimeoutMs,
            settlement,
            trace,
            // A conditional batch that was stored and answered nobody would meet its own offset at the second try, but for its sequence.
            repeatable: this.#settings.idempotent,
            expectedBaseOffset,
            fenceToken,
          });
        },
        (error) => settlement.failed(error),
      );
    });
  }
  sendEncoded(topic: string, partition: number, batch: Uint8Array): Promise<BatchMetadata> {
    return new Promise((resolve, reject) => {
      checkPartition(partition);
      const header = parseBatchHeader(batch);
      if (header.totalBytes !== batch.length)
        throw new SluiceError("CORRUPT_BATCH", `${batch.length - header.totalBytes} bytes follow the batch; send one at a time`);
      const span = this.#connection.tracing?.send(topic, header.recordsCount);
      const settlement = traced(new OneBatch(resolve, reject), span);
      this.#submitBatch(
        topic,
        partition,
        null,
        batch.length,
        () => {
          return new OutBatch({
            topic,
            partition,
            bytes: batch,
            records: header.recordsCount,
            bufferBytes: batch.length,
            deadlineMs: this.#connection.clock.monotonicMs() + this.#settings.deliveryTimeoutMs,
            settlement,
            trace: span?.traceparent ?? sampled(this.#traceparent()),
            raw: true,
            repeatable: header.producerId >= 0,
          });
        },
        (error) => settlement.failed(error),
      );
    });
  }
  ready(): Promise<void> {
    return this.#buffer.room();
  }
  async flush(): Promise<void> {
    await this.#core.flush();
  }
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
  /** Everything fails, now. */
  abort(error: SluiceError): void {
    this.#over ??= error;
    this.#core.abort(error);
    this.#onClosed(this);
  }

  async #close(): Promise<void> {
    this.#over ??= new SluiceError("SHUTTING_DOWN", "the producer is closed");
    await this.#core.flush();
    this.#core.abort(this.#over);
    this.#onClosed(this);
  }
  #topicOf(topic: string | undefined): string {
    const name = topic ?? this.#topic;
    if (name === undefined || name === "") throw new SluiceError("INVALID_ARGUMENT", "the batch names no topic, nor does the producer");
    return name;
  }
  #submit(record: ProducerRecord, sink: RecordSink, index: number, span: ClientSpan | undefined): void {
    let prepared: PreparedRecord;
    try {
      if (this.#over !== undefined) throw this.#over;
      const { clock } = this.#connection;
      prepared = prepareRecord(record, this.#topic, clock.wallMs(), this.#traceparent, span);
      const deadlineMs = clock.monotonicMs() + this.#settings.deliveryTimeoutMs;
      if (this.#buffer.take(prepared.bytes)) {
        this.#core.admitRecord(prepared, deadlineMs, sink, index);
        return;
      }
      this.#buffer.wait({
        bytes: prepared.bytes,
        deadlineMs,
        admit: () => this.#core.admitRecord(prepared, deadlineMs, sink, index),
        fail: (error) => sink.failed(index, error),
      });
      this.#core.watchDeadlines();
    } catch (error) {
      sink.failed(index, asSluiceError(error));
    }
  }
  #submitBatch(
    topic: string,
    partition: number | undefined,
    key: Uint8Array | null,
    bytes: number,
    make: (partition: number) => OutBatch,
    reject: (error: SluiceError) => void,
  ): void {
    if (this.#over !== undefined) return reject(this.#over);
    const deadlineMs = this.#connection.clock.monotonicMs() + this.#settings.deliveryTimeoutMs;
    const admit = (): void => this.#core.admitBatch({ topic, partition, key, bytes, deadlineMs, make, fail: reject });
    if (this.#buffer.take(bytes)) admit();
    else {
      this.#buffer.wait({ bytes, deadlineMs, admit, fail: reject });
      this.#core.watchDeadlines();
    }
  }
  #encode(
    records: readonly ProducerRecord[],
    topic: string,
    span: ClientSpan | undefined,
  ): { readonly bytes: Uint8Array; readonly trace: string | undefined } {
    let trace: string | undefined;
    const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs, codec: this.#settings.codec, bytesMax: limits.messageBytesCap });
    for (const record of records) {
      const r = prepareRecord({ ...record, topic }, undefined, this.#connection.clock.wallMs(), this.#traceparent, span);
      trace ??= r.trace;
      if (!builder.tryAppend(r.timestampMs, r.key, r.value, r.headers))
        throw new SluiceError("MESSAGE_TOO_LARGE", `${records.length} records do not fit a batch of ${limits.messageBytesCap} bytes`);
    }
    return { bytes: builder.close(), trace };
  }
}

const traced = (settlement: Settlement, span: ClientSpan | undefined): Settlement =>
  span === undefined ? settlement : new TracedSettlement(settlement, span);

function checkInt64(name: string, value: number | undefined): void {
  if (value !== undefined && (!Number.isSafeInteger(value) || value < 0))
    throw new SluiceError("INVALID_ARGUMENT", `${name} is ${value}; it is an integer from 0 up`);
}
