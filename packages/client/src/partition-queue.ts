import { crc32c, nativeCodecs } from "@sluice/codec";
import { BatchBuilder, stampProducer } from "@sluice/core/log";
import { asSluiceError, errorCodeOf, limits, SluiceError, type ErrorCode } from "@sluice/core/model";
import { isEarlier, lastSequenceOf, nextSequence } from "@sluice/core/producer";
import type { Timer } from "@sluice/runtime";
import { Backoff } from "./backoff.ts";
import { outcomeUnknown } from "./connection.ts";
import type { ProduceAnswer } from "./messages.ts";
import { type BatchOwner, OutBatch, OutRun, type ProducerIdentity, RecordSettlement, type RecordSink } from "./out-batch.ts";
import { neverSent, type QueueContext } from "./queue-context.ts";
import type { PreparedRecord } from "./records.ts";

/** Refusals of one batch, before anything of its run is stored. Others are about the topic, the caller or the server, or say nothing of what is stored. */
const JUDGES_A_BATCH: ReadonlySet<ErrorCode> = new Set([
  "CORRUPT_BATCH",
  "INVALID_ARGUMENT",
  "INVALID_RECORD",
  "INVALID_TIMESTAMP",
  "MESSAGE_TOO_LARGE",
  "UNSUPPORTED_CODEC",
  "UNSUPPORTED_FORMAT",
]);
/** A sequence refused under so many identities is refused for good. */
const SEQUENCE_REFUSALS_MAX = 3;

/**
 * One partition of one producer: keeps order, sequences and retries.
 *
 *   records ► [builder] ► queue: | in flight, at most maxInFlight | waiting ... | ► answers
 *
 * After a refusal that may be tried again nothing more is sent until all in flight have been answered; then the refused ones go out again
 * in the old order and under the old sequences, so that the server can tell repetitions.
 *
 * Sequences. A batch refused for good leaves a hole. When nothing after it can have been stored, its sequence is given to the next one. When
 * the server has lost the thread (OUT_OF_ORDER_SEQUENCE, UNKNOWN_PRODUCER), the rest goes out under a new producer id, except batches with
 * an earlier attempt whose outcome is unknown: these fail with OUTCOME_UNKNOWN, because under a new id they could be stored twice.
 */
export class PartitionQueue implements BatchOwner {
  readonly topic: string;
  readonly partition: number;
  /** Before compression; lowered to the topic's limit. */
  batchBytes: number;
  readonly #context: QueueContext;
  readonly #queue: OutBatch[] = [];
  readonly #backoff: Backoff;
  readonly #builder: BatchBuilder;
  #settlement = new RecordSettlement();
  #builderBytes = 0;
  #builderSinceMs = 0;
  #builderDeadlineMs = 0;
  #builderTrace: string | undefined;
  #inFlight = 0;
  /** A retry is due: nothing is sent until it is. */
  #held = false;
  #retryAfterMs = 0;
  /** Sequence of a batch that was refused for good: the server still waits for it. */
  #hole: number | undefined;
  #identity: ProducerIdentity | undefined;
  #nextSequence = 0;
  #renewing = false;
  #nextOrdinal = 0;
  #linger: Timer | undefined;
  #retry: Timer | undefined;

  constructor(topic: string, partition: number, batchBytes: number, context: QueueContext) {
    this.topic = topic;
    this.partition = partition;
    this.batchBytes = batchBytes;
    this.#context = context;
    this.#backoff = new Backoff(context.random);
    this.#builder = new BatchBuilder({ crc32c, codecs: nativeCodecs, codec: context.codec, bytesMax: limits.messageBytesCap });
  }
  get isEmpty(): boolean {
    return this.#queue.length === 0 && this.#builder.isEmpty;
  }

  /** Throws MESSAGE_TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP; then the record was not taken. */
  append(record: PreparedRecord, deadlineMs: number, sink: RecordSink, index: number): void {
    const { timestampMs, key, value, headers } = record;
    if (this.#builder.count > 0 && this.#builder.estimatedBytes + record.bytes > this.batchBytes) this.#seal();
    if (!this.#builder.tryAppend(timestampMs, key, value, headers)) {
      this.#seal();
      this.#builder.tryAppend(timestampMs, key, value, headers);
    }
    if (this.#builder.count === 1) {
      this.#builderSinceMs = this.#context.clock.monotonicMs();
      this.#builderDeadlineMs = deadlineMs;
    }
    if (record.trace !== undefined) this.#trace(record.trace, record.span);
    this.#settlement.add(sink, index, timestampMs);
    this.#builderBytes += record.bytes;
    this.#context.pumpLater(this);
  }
  /** The first trace goes with the batch; the spans of others say where they went. */
  #trace(trace: string, span: PreparedRecord["span"]): void {
    if (this.#builderTrace === undefined) this.#builderTrace = trace;
    else if (this.#builderTrace !== trace) span?.link(this.#builderTrace);
  }
  add(batch: OutBatch): void {
    this.#seal();
    this.#push(batch);
    this.#context.pumpLater(this);
  }

  /** Sends what may be sent now. */
  pump(): void {
    const { stream, idempotent, maxInFlight } = this.#context;
    while (!this.#held && this.#inFlight < maxInFlight) {
      if (this.isEmpty || !stream.writable) break;
      if (this.#queue[this.#inFlight] === undefined) {
        if (!this.#due()) break;
        this.#seal();
      }
      const batch = this.#queue[this.#inFlight];
      if (batch === undefined || (idempotent && !batch.raw && !this.#stamp(batch))) break;
      if (!batch.everSent) {
        if (this.#tooFarAhead()) break;
        batch.ordinal = this.#nextOrdinal++;
      }
      batch.state = "inFlight";
      this.#inFlight++;
      stream.write(batch);
    }
    this.#armLinger();
  }
  answered(batch: OutBatch, answer: ProduceAnswer): void {
    if (batch.state !== "inFlight") return;
    this.#inFlight--;
    const code = answer.error === 0 ? undefined : errorCodeOf(answer.error);
    if (code === undefined || (code === "DUPLICATE_SEQUENCE" && batch.inDoubt)) {
      this.#backoff.reset();
      this.#settle(batch, undefined, answer);
    } else {
      this.#refused(batch, new SluiceError(code, this.#where(answer.errorMessage), { throttleMs: answer.throttleMs }));
    }
    this.#goOn();
  }
  lost(batch: OutBatch, error: SluiceError, sent: boolean): void {
    if (batch.state !== "inFlight") return;
    this.#inFlight--;
    batch.state = "refused";
    if (sent) batch.inDoubt = true;
    this.#held = true;
    if (batch.settled) this.#remove(batch);
    else if (batch.inDoubt && !batch.repeatable) this.#fail(batch, unknownOutcome(error));
    else batch.refusal = error;
  }
  lostAll(): void {
    this.#goOn();
  }
  /** Fails what is past its deadline. True = a batch in flight was among them: the stream that owes its answer is of no use. */
  expire(nowMs: number): boolean {
    if (!this.#builder.isEmpty && this.#builderDeadlineMs <= nowMs) this.#seal();
    for (const run of this.#queue.filter((b) => b instanceof OutRun && b.deadlineMs <= nowMs && b.state !== "inFlight"))
      (run as OutRun).split(this.#queue, run.state, run.refusal);
    let abandon = false;
    for (const batch of this.#queue.filter((b) => b.deadlineMs <= nowMs && !b.settled)) {
      if (batch.state === "inFlight") {
        this.#settle(batch, unknownOutcome(batch.refusal));
        abandon = true;
        continue;
      }
      this.#fail(batch, batch.inDoubt ? unknownOutcome(batch.refusal) : this.#tooLate(batch));
    }
    this.#goOn();
    return abandon;
  }
  /** All fail with `error`, those that were sent with OUTCOME_UNKNOWN. */
  abort(error: SluiceError): void {
    this.#seal();
    this.#linger?.cancel();
    this.#retry?.cancel();
    this.#linger = undefined;
    this.#retry = undefined;
    this.#inFlight = 0;
    this.#held = false;
    this.#renewing = false;
    this.#hole = undefined;
    this.#identity = undefined;
    this.#nextSequence = 0;
    for (const batch of this.#queue.splice(0)) {
      const doubt = batch.inDoubt || batch.state === "inFlight";
      batch.state = "refused";
      if (!batch.settled) this.#settle(batch, doubt ? unknownOutcome(error) : error);
    }
  }
  /** Resolves when all that is here now has been settled. */
  settled(): Promise<void> {
    this.#seal();
    let left = 0;
    return new Promise((resolve) => {
      for (const batch of this.#queue) {
        if (batch.settled) continue;
        left++;
        (batch.onSettled ??= []).push(() => {
          if (--left === 0) resolve();
        });
      }
      if (left === 0) resolve();
      else this.pump();
    });
  }

  /**
   * The server remembers the last five batches. One whose answer was lost must stay among them until it is answered, even when those sent
   * after it have been: the window counts from the oldest unanswered, not by the number in flight.
   */
  #tooFarAhead(): boolean {
    const oldest = this.#queue[0];
    return oldest?.everSent === true && this.#nextOrdinal - oldest.ordinal >= this.#context.maxInFlight;
  }
  #due(): boolean {
    if (this.#builder.isEmpty) return false;
    if (this.#inFlight === 0 || this.#context.lingerMs === 0 || this.#context.flushing) return true;
    return this.#context.clock.monotonicMs() - this.#builderSinceMs >= this.#context.lingerMs;
  }
  #armLinger(): void {
    if (this.#linger !== undefined || this.#builder.isEmpty || this.#inFlight === 0) return;
    this.#linger = this.#context.clock.setTimer(this.#context.lingerMs, () => {
      this.#linger = undefined;
      if (this.#inFlight < this.#context.maxInFlight) this.pump();
    });
  }
  /** Closes the builder, if there is something in it. */
  #seal(): void {
    if (this.#builder.isEmpty) return;
    const records = this.#builder.count;
    const repeatable = this.#context.idempotent;
    const identity = this.#identityForNew();
    const batch = new OutBatch({
      topic: this.topic,
      partition: this.partition,
      bytes: this.#builder.close(identity === undefined ? {} : { ...identity, baseSequence: this.#nextSequence }),
      records,
      bufferBytes: this.#builderBytes,
      deadlineMs: this.#builderDeadlineMs,
      settlement: this.#settlement,
      repeatable,
      trace: this.#builderTrace,
    });
    this.#builderTrace = undefined;
    if (identity !== undefined) this.#number(batch, identity);
    this.#settlement = new RecordSettlement();
    this.#builderBytes = 0;
    this.#push(batch);
  }
  #push(batch: OutBatch): void {
    batch.owner = this;
    OutRun.enqueue(this.#queue, batch);
  }
  /** Numbered at once when all before it are: saves a second checksum. */
  #identityForNew(): ProducerIdentity | undefined {
    if (!this.#context.idempotent || this.#renewing) return undefined;
    const last = this.#queue.findLast((b) => !b.raw);
    if (last !== undefined && last.sequence < 0) return undefined;
    return (this.#identity ??= this.#context.identity());
  }
  /** Gives the batch its identity and sequence in the bytes as well. False = there is no identity yet. */
  #stamp(batch: OutBatch): boolean {
    const identity = (this.#identity ??= this.#context.identity());
    if (identity === undefined) return false;
    if (batch.sequence >= 0 && batch.identity === identity) return true;
    // The bytes of an earlier attempt may still be on their way out.
    if (batch.everSent) batch.bytes = new Uint8Array(batch.bytes);
    stampProducer(batch.bytes, 0, identity.producerId, identity.producerEpoch, this.#nextSequence, crc32c);
    this.#number(batch, identity);
    return true;
  }
  #number(batch: OutBatch, identity: ProducerIdentity): void {
    batch.identity = identity;
    batch.sequence = this.#nextSequence;
    this.#nextSequence = nextSequence(lastSequenceOf(this.#nextSequence, batch.records));
  }

  #refused(batch: OutBatch, error: SluiceError): void {
    const { code } = error;
    batch.state = "refused";
    if (outcomeUnknown(error)) batch.inDoubt = true;
    const outOfSequence = code === "OUT_OF_ORDER_SEQUENCE" || code === "UNKNOWN_PRODUCER" || code === "DUPLICATE_SEQUENCE";
    const unknown = code === "UNKNOWN_TOPIC" || code === "UNKNOWN_PARTITION";
    const again = error.retriable || (outOfSequence && batch.sequence >= 0) || (unknown && this.#context.topicUnknown(this.topic));
    if (batch.settled) this.#remove(batch);
    else if (batch instanceof OutRun && JUDGES_A_BATCH.has(code)) {
      // One of them is refused, and nothing is stored: each is told on its own.
      batch.split(this.#queue, "refused", error);
      this.#held = true;
    }
    // A refusal for good speaks of this attempt; an earlier one whose answer was lost may be stored.
    else if (batch.inDoubt && !(again && batch.repeatable)) this.#fail(batch, unknownOutcome(error));
    else if (!again) this.#fail(batch, error);
    else {
      batch.refusal = error;
      this.#held = true;
      if (!outOfSequence) this.#retryAfterMs = Math.max(this.#retryAfterMs, error.throttleMs, this.#backoff.nextMs());
    }
  }
  /** Out of the queue; a sequence that it leaves unused is remembered. */
  #fail(batch: OutBatch, error: SluiceError): void {
    const at = this.#queue.indexOf(batch);
    this.#settle(batch, error);
    if (batch.sequence < 0 || batch.identity !== this.#identity) return;
    if (!batch.everSent) this.#renumber(at, batch.sequence);
    else if (!batch.inDoubt) {
      if (this.#hole === undefined || isEarlier(batch.sequence, this.#hole)) this.#hole = batch.sequence;
      this.#held = true;
    }
  }
  /** The next to be sent from `at` on gets `sequence`. */
  #renumber(at: number, sequence: number): void {
    for (const batch of this.#queue.slice(at)) if (!batch.raw) batch.sequence = -1;
    this.#nextSequence = sequence;
  }
  /** Once nothing is in flight: repairs the sequence and sends again. */
  #goOn(): void {
    if (!this.#held) {
      this.pump();
      return;
    }
    if (this.#inFlight > 0 || this.#retry !== undefined || this.#renewing) return;
    const first = this.#queue[0];
    const refusal = this.#queue.find((b) => b.state === "refused")?.refusal;
    const hole = this.#hole;
    this.#hole = undefined;
    const doubtful = this.#queue.some((b) => b.inDoubt);
    const lostThread = first?.state === "refused" && first.sequence >= 0 && first.refusal !== undefined && !first.refusal.retriable;
    for (const batch of this.#queue) batch.state = "waiting";
    if (hole !== undefined && !doubtful) this.#renumber(0, startOf(first, hole));
    else if (lostThread && isSequenceError(first.refusal as SluiceError)) {
      this.#renew(first.refusal as SluiceError);
      return;
    }
    const waitMs = refusal === undefined ? 0 : this.#retryAfterMs;
    this.#retryAfterMs = 0;
    if (waitMs > 0) this.#retry = this.#context.clock.setTimer(waitMs, () => this.#resume());
    else this.#resume();
  }
  #resume(): void {
    this.#retry = undefined;
    this.#held = false;
    this.pump();
  }
  #renew(cause: SluiceError): void {
    // First: room that a failed batch leaves is taken at once by records that wait for it.
    this.#identity = undefined;
    this.#renewing = true;
    this.#nextSequence = 0;
    for (const batch of this.#queue.slice()) {
      if (batch.raw) continue;
      batch.sequenceRefusals++;
      if (batch.inDoubt) this.#settle(batch, unknownOutcome(cause));
      else if (batch.sequenceRefusals > SEQUENCE_REFUSALS_MAX) this.#settle(batch, cause);
      batch.sequence = -1;
    }
    void this.#context.renewIdentity(this, cause).then(
      (identity) => {
        this.#identity = identity;
        this.#renewing = false;
        this.#resume();
      },
      (error: unknown) => this.abort(asSluiceError(error)),
    );
  }

  /** Tells the result. A batch in flight stays in the queue until its answer: its place in the order is taken. */
  #settle(batch: OutBatch, error: SluiceError | undefined, answer?: ProduceAnswer): void {
    if (batch.state !== "inFlight" || answer !== undefined) this.#remove(batch);
    if (batch.settled) return;
    batch.settled = true;
    this.#context.released(batch);
    if (error !== undefined) batch.settlement.failed(error);
    else if (answer !== undefined) {
      const known = answer.error === 0;
      batch.settlement.stored(this.partition, known ? answer.baseOffset : -1, known ? answer.lastOffset : -1, answer.appendTimeMs);
    }
    for (const fn of batch.onSettled ?? []) fn();
  }
  #remove(batch: OutBatch): void {
    const at = this.#queue.indexOf(batch);
    if (at >= 0) this.#queue.splice(at, 1);
  }
  #tooLate(batch: OutBatch): SluiceError {
    const last = batch.refusal;
    if (last === undefined) return neverSent((text) => this.#where(text), this.#context);
    return new SluiceError(last.code, this.#where(`given up after deliveryTimeoutMs: ${last.message}`), { cause: last });
  }
  #where(text: string): string {
    return `${this.topic}/${this.partition}: ${text}`;
  }
}

/** Sequence to go on with: batches before the hole keep theirs. */
const startOf = (first: OutBatch | undefined, hole: number): number =>
  first !== undefined && first.sequence >= 0 && isEarlier(first.sequence, hole) ? first.sequence : hole;
const isSequenceError = (error: SluiceError): boolean =>
  error.code === "OUT_OF_ORDER_SEQUENCE" || error.code === "UNKNOWN_PRODUCER" || error.code === "DUPLICATE_SEQUENCE";
const unknownOutcome = (cause: SluiceError | undefined): SluiceError =>
  new SluiceError("OUTCOME_UNKNOWN", `the write may or may not be stored${cause === undefined ? "" : `: ${cause.message}`}`, { cause });
