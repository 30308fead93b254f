import { setMaxListeners } from "node:events";
import { asSluiceError, errorCodeOf, SluiceError } from "@sluice/core/model";
import type { Call } from "./admin.ts";
import { decodeRun } from "./batch-decoder.ts";
import { cancelled, type Connection } from "./connection.ts";
import { ConsumeStream, type ConsumeStreamOwner, type Starts } from "./consume-stream.ts";
import { Fifo } from "./fifo.ts";
import { isOver, Iteration, nextRecord, positionIn, restOf, type Step } from "./iteration.ts";
import type { ConsumeAnswer } from "./messages.ts";
import { within } from "./producer.ts";
import { type PartitionCursor, resolvePosition, startPositions } from "./start-positions.ts";
import { clientLimits } from "./timing.ts";
import type { ConsumedRecord, Consumer, ConsumerOptions, Position, RecordBatch } from "./types.ts";

/** What was received of one partition and waits for the iteration. */
interface Chunk {
  readonly cursor: PartitionCursor;
  readonly bytes: Uint8Array;
  /** What was asked for; the first batch may begin before it. */
  readonly fromOffset: number;
  readonly nextOffset: number;
  readonly highWatermark: number;
  readonly error: SluiceError | undefined;
  /** Trace that the batches came by, and when; "" = told already, or none. */
  traceparent: string;
  readonly receivedMs: number;
  /** Where decoding goes on. */
  at: number;
}

/**
 * See `Consumer`.
 *
 *   stream ► chunks (bounded by the credit) ► decoded step ► iteration
 *            receivedNext                      position
 *
 * A stream that breaks is opened again at `receivedNext` of each partition: what waits here is still given, nothing twice.
 */
export class SluiceConsumer implements Consumer, ConsumeStreamOwner {
  readonly #connection: Connection;
  readonly #call: Call;
  readonly #options: ConsumerOptions;
  readonly #stream: ConsumeStream;
  readonly #cursors = new Map<number, PartitionCursor>();
  readonly #chunks = new Fifo<Chunk>();
  readonly #closing = new AbortController();
  readonly #onClosed: (consumer: SluiceConsumer) => void;
  readonly #onAbort = (): void => this.abort(cancelled(this.#options.signal as AbortSignal));
  readonly #ready: Promise<void>;
  readonly #iteration = new Iteration(() => this.#isEnded());
  #step: Step<PartitionCursor> | undefined;
  #seekNumber = 0;
  #failure: SluiceError | undefined;
  #closed = false;

  constructor(connection: Connection, call: Call, options: ConsumerOptions, onClosed: (consumer: SluiceConsumer) => void) {
    this.#connection = connection;
    this.#call = call;
    this.#options = options;
    this.#onClosed = onClosed;
    setMaxListeners(0, this.#closing.signal);
    const { creditBytesMin, creditBytesMax, creditBytesDefault } = clientLimits;
    const creditBytes = within("creditBytes", options.creditBytes ?? creditBytesDefault, creditBytesMin, creditBytesMax);
    this.#stream = new ConsumeStream(connection, this, options.topic, creditBytes, options.untilEnd === true);
    options.signal?.addEventListener("abort", this.#onAbort, { once: true });
    this.#ready = this.#start();
    this.#ready.catch(() => undefined);
    if (options.signal?.aborted === true) this.#onAbort();
  }
  ready(): Promise<void> {
    return this.#ready;
  }
  positions(): ReadonlyMap<number, number> {
    return new Map([...this.#cursors.values()].map((c) => [c.partition, c.position]));
  }
  async seek(partition: number, position: Position): Promise<void> {
    await this.#ready;
    const cursor = this.#cursors.get(partition);
    if (cursor === undefined) throw new SluiceError("UNKNOWN_PARTITION", `${this.#options.topic}/${partition} is not consumed here`);
    const offset = await resolvePosition(this.#call, this.#options.topic, partition, position, this.#closing.signal);
    this.#moveTo(cursor, offset);
  }
  batches(): AsyncIterableIterator<RecordBatch> {
    return this.#iteration.iterator(() => this.#takeBatch());
  }
  [Symbol.asyncIterator](): AsyncIterableIterator<ConsumedRecord> {
    return this.#iteration.iterator(() => this.#takeRecord());
  }
  close(): Promise<void> {
    this.#end();
    return Promise.resolve();
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
  /** Iterations fail with `error`. */
  abort(error: SluiceError): void {
    if (this.#closed) return;
    this.#failure = error;
    for (let c = this.#chunks.shift(); c !== undefined; c = this.#chunks.shift());
    this.#step = undefined;
    this.#end();
  }

  // For the stream.
  starts(): Starts {
    return [...this.#cursors.values()]
      .filter((c) => !c.paused && c.receivedNext < c.end)
      .map((c) => {
        // Seek numbers start anew with the stream.
        c.streamSeekNumber = 0;
        return { partition: c.partition, offset: c.receivedNext };
      });
  }
  received(answer: ConsumeAnswer): void {
    const cursor = this.#cursors.get(answer.partition);
    const bytes = answer.batches.length;
    if (cursor === undefined || answer.seekNumber < cursor.streamSeekNumber || cursor.paused || cursor.receivedNext >= cursor.end) {
      this.#stream.giveBack(bytes);
      return;
    }
    const error = answer.error === 0 ? undefined : this.#partitionError(cursor, answer);
    if (answer.error !== 0 && error === undefined) {
      this.#stream.giveBack(bytes);
      return;
    }
    const fromOffset = cursor.receivedNext;
    if (error === undefined) {
      if (bytes === 0 && answer.nextOffset <= cursor.receivedNext) return;
      cursor.receivedNext = Math.max(cursor.receivedNext, answer.nextOffset);
    }
    this.#chunks.push({
      cursor,
      bytes: answer.batches,
      fromOffset,
      nextOffset: answer.nextOffset,
      highWatermark: answer.highWatermark,
      error,
      traceparent: answer.traceparent,
      receivedMs: answer.traceparent === "" ? 0 : this.#connection.clock.wallMs(),
      at: 0,
    });
    if (this.#allReceived()) this.#stream.park();
    this.#iteration.wake();
  }
  failed(error: SluiceError): void {
    this.#failure ??= error;
    this.#stream.close();
    this.#iteration.wake();
  }

  async #start(): Promise<void> {
    try {
      const { topic, untilEnd } = this.#options;
      if (typeof topic !== "string" || topic === "") throw new SluiceError("INVALID_ARGUMENT", "a consumer needs a topic");
      for (const cursor of await startPositions(this.#connection, this.#call, this.#options, untilEnd === true, this.#closing.signal))
        this.#cursors.set(cursor.partition, cursor);
      if (this.#finished()) this.#iteration.wake();
      else this.#stream.open();
    } catch (thrown) {
      const error = asSluiceError(thrown);
      this.failed(error);
      throw error;
    }
  }
  /** The error to tell; undefined = handled here. */
  #partitionError(cursor: PartitionCursor, answer: ConsumeAnswer): SluiceError | undefined {
    const { topic, onOutOfRange = "error" } = this.#options;
    const code = errorCodeOf(answer.error);
    const error = new SluiceError(code, `${topic}/${cursor.partition}: ${answer.errorMessage}`);
    cursor.paused = true;
    const policy = cursor.fromEarliest ? "earliest" : onOutOfRange;
    if (code === "OFFSET_OUT_OF_RANGE" && policy !== "error") void this.#recover(cursor, policy, 0);
    else if (error.retriable) void this.#recover(cursor, { offset: cursor.receivedNext }, cursor.backoff.nextMs());
    else return error;
    return undefined;
  }
  async #recover(cursor: PartitionCursor, position: Position, waitMs: number): Promise<void> {
    const { seekNumber } = cursor;
    try {
      if (waitMs > 0) await this.#connection.clock.sleep(waitMs, this.#closing.signal);
      const offset = await resolvePosition(this.#call, this.#options.topic, cursor.partition, position, this.#closing.signal);
      if (this.#closed || cursor.seekNumber !== seekNumber) return;
      cursor.paused = false;
      cursor.receivedNext = offset;
      this.#seekStream(cursor, offset);
    } catch (error) {
      if (!this.#closed) this.failed(asSluiceError(error));
    }
  }
  #moveTo(cursor: PartitionCursor, offset: number): void {
    cursor.seekNumber++;
    cursor.paused = false;
    cursor.fromEarliest = false;
    cursor.position = offset;
    cursor.receivedNext = offset;
    if (this.#step?.of === cursor) this.#step = undefined;
    // Chunks of before are dropped, and their credit given back, now: they may be all that the credit allows.
    for (let left = this.#chunks.length; left > 0; left--) {
      const chunk = this.#chunks.shift() as Chunk;
      if (chunk.cursor === cursor) this.#stream.giveBack(chunk.bytes.length);
      else this.#chunks.push(chunk);
    }
    this.#seekStream(cursor, offset);
    this.#iteration.wake();
  }
  #seekStream(cursor: PartitionCursor, offset: number): void {
    if (this.#stream.isOpen) cursor.streamSeekNumber = ++this.#seekNumber;
    this.#stream.seek(cursor.partition, offset, cursor.streamSeekNumber);
  }
  #finished(): boolean {
    for (const cursor of this.#cursors.values()) if (cursor.position < cursor.end) return false;
    return this.#cursors.size > 0;
  }
  #allReceived(): boolean {
    for (const cursor of this.#cursors.values()) if (cursor.receivedNext < cursor.end) return false;
    return true;
  }
  #end(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
    this.#closing.abort(this.#failure ?? new SluiceError("SHUTTING_DOWN", "the consumer is closed"));
    this.#stream.close();
    this.#iteration.wake();
    this.#onClosed(this);
  }

  /** Throws why it failed. */
  #isEnded(): boolean {
    if (this.#failure !== undefined) throw this.#failure;
    return this.#closed || this.#finished();
  }
  #takeRecord(): ConsumedRecord | undefined {
    const step = this.#nextStep();
    if (step === undefined) return undefined;
    const record = nextRecord(step);
    step.of.position = positionIn(step);
    if (isOver(step)) this.#step = undefined;
    return record;
  }
  #takeBatch(): RecordBatch | undefined {
    const step = this.#nextStep();
    if (step === undefined) return undefined;
    this.#step = undefined;
    step.of.position = step.batch.nextOffset;
    return restOf(step);
  }
  /** Decodes on until there are records. Throws a partition's error once, and a decoder's until somebody seeks past it. */
  #nextStep(): Step<PartitionCursor> | undefined {
    if (this.#closed) return undefined;
    while (this.#step === undefined) {
      const chunk = this.#chunks.first;
      if (chunk === undefined) return undefined;
      if (chunk.error !== undefined) {
        this.#chunks.shift();
        throw chunk.error;
      }
      this.#decode(chunk);
    }
    return this.#step;
  }
  #decode(chunk: Chunk): void {
    const { cursor } = chunk;
    const { topic, checkCrc = true } = this.#options;
    const { partition, position, end } = cursor;
    const { records, at, nextOffset } = decodeRun(chunk.bytes, chunk.at, {
      topic,
      partition,
      fromOffset: Math.max(position, chunk.fromOffset),
      endOffset: end,
      checkCrc,
    });
    chunk.at = at;
    const over = at >= chunk.bytes.length;
    const next = over ? Math.max(nextOffset, chunk.nextOffset) : nextOffset;
    if (over) {
      this.#chunks.shift();
      this.#stream.giveBack(chunk.bytes.length);
    }
    cursor.fromEarliest = false;
    cursor.backoff.reset();
    if (records.length === 0) cursor.position = Math.max(cursor.position, next);
    else {
      const batch = { topic, partition, records, nextOffset: Math.min(next, Math.max(end, position)), highWatermark: chunk.highWatermark };
      this.#step = { of: cursor, batch, given: 0 };
      if (chunk.traceparent !== "") {
        this.#connection.tracing?.received(topic, partition, records.length, chunk.traceparent, chunk.receivedMs);
        chunk.traceparent = "";
      }
    }
  }
}
