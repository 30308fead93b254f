import { traceParentText, type Codecs } from "@sluice/core/log";
import { asSluiceError, codeOf, errorNumber, SluiceError, type Timers, type TopicRecord } from "@sluice/core/model";
import { DataFormat, type ConsumeRequest, type ConsumeSeek, type ConsumeStart, type Position } from "@sluice/proto/v1/consume";
import type { CallContext, DuplexStream } from "@sluice/rpc";
import { spanAttributes, type Clock, type Span, type Tracer } from "@sluice/runtime";
import { ConsumeCredit } from "./credit.ts";
import { proxyLimits, replyBytesMax } from "./limits.ts";
import type { Positions } from "./positions.ts";
import { readCanRetry, type ReadAnswer, type Reader, type ReadPath } from "./read-path.ts";
import { atPartition, checkFormat, recordPages, withoutControl } from "./record-set.ts";
import { partitionOf, refuseReserved, type Topics } from "./topics.ts";
import type { Consumed } from "./wire/consume-codec.ts";

export interface ConsumeSessionOptions {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly codecs: Codecs;
  readonly topics: Topics;
  readonly positions: Positions;
  readonly reads: ReadPath;
  readonly onSent: (bytes: number) => void;
  readonly tracer?: Tracer | undefined;
}
/** One partition of the stream. A seek replaces `turn`, and with it whatever was going on. */
interface Lane {
  readonly partition: number;
  position: Position | undefined;
  seekNumber: number;
  turn: AbortController;
  /** All that was committed has been sent, and said so. */
  ended: boolean;
}

/**
 * One consume stream: a task for each partition, all drawing on the one credit.
 *
 *   position ─► credit ─► read (tail, storage) ─► answer ─┐
 *                 ▲         nothing: give the credit back, wait for the tail
 *                 └───────────────────────────────────────┘
 *
 * A read is begun only with credit reserved, so a client that stops reading costs its credit and one batch. Without credit a partition
 * waits and holds nothing.
 */
export class ConsumeSession {
  readonly #options: ConsumeSessionOptions;
  readonly #call: DuplexStream<ConsumeRequest, Consumed>;
  readonly #context: CallContext;
  readonly #over = Promise.withResolvers<void>();
  readonly #lanes = new Map<number, Lane>();
  readonly #tasks = new Set<Promise<void>>();
  #credit: ConsumeCredit | undefined;
  #start: ConsumeStart | undefined;
  #topic: TopicRecord | undefined;
  #clientEnded = false;
  #closed = false;

  constructor(options: ConsumeSessionOptions, call: DuplexStream<ConsumeRequest, Consumed>, context: CallContext) {
    this.#options = options;
    this.#call = call;
    this.#context = context;
  }

  async run(): Promise<void> {
    const { signal, draining } = this.#context;
    const end = (): void => this.#over.resolve();
    const drain = (): void => this.#over.reject(new SluiceError("SHUTTING_DOWN", "the proxy is going away; go on at another one"));
    signal.addEventListener("abort", end, { once: true });
    draining.addEventListener("abort", drain, { once: true });
    if (draining.aborted) drain();
    this.#call.listen(
      (message) => this.#take(message),
      () => {
        this.#clientEnded = true;
        this.#settle();
      },
    );
    try {
      await this.#over.promise;
    } finally {
      this.#closed = true;
      signal.removeEventListener("abort", end);
      draining.removeEventListener("abort", drain);
      this.#credit?.close();
      for (const lane of this.#lanes.values()) lane.turn.abort();
      await Promise.all(this.#tasks);
    }
  }

  #take(message: ConsumeRequest): void {
    if (this.#closed) return;
    const { request } = message;
    switch (request.case) {
      case "start":
        if (this.#start !== undefined) throw new SluiceError("INVALID_ARGUMENT", "a stream starts once");
        this.#start = request.value;
        this.#credit = new ConsumeCredit(request.value.creditBytes, proxyLimits.consumeCreditBytesMax);
        this.#run(this.#begin(request.value).catch((error: unknown) => this.#over.reject(error)));
        return;
      case "creditBytes":
        if (this.#credit === undefined) throw new SluiceError("INVALID_ARGUMENT", "the first message of a stream is its start");
        this.#credit.grant(request.value);
        return;
      case "seek":
        this.#seek(request.value);
        return;
      default:
        throw new SluiceError("INVALID_ARGUMENT", "a message is one of start, credit_bytes, seek");
    }
  }

  #run(task: Promise<void>): void {
    const tracked = task.finally(() => this.#tasks.delete(tracked));
    this.#tasks.add(tracked);
  }

  async #begin(start: ConsumeStart): Promise<void> {
    await this.#context.authorize(start.topic);
    refuseReserved(start.topic);
    checkFormat(start.format);
    const topic = await this.#options.topics.find(this.#context.principal.tenant, start.topic);
    this.#topic = topic;
    const wanted =
      start.partitions.length > 0
        ? start.partitions
        : Array.from({ length: topic.partitions }, (_, partition) => ({ partition, position: undefined }));
    if (wanted.length > proxyLimits.consumePartitionsMax)
      throw new SluiceError("INVALID_ARGUMENT", `a stream reads at most ${proxyLimits.consumePartitionsMax} partitions`);
    for (const { partition, position } of wanted) {
      partitionOf(topic, partition);
      if (this.#lanes.has(partition)) throw new SluiceError("INVALID_ARGUMENT", `partition ${partition} is named twice`);
      const at = position ?? start.position;
      if (at?.at.case === undefined) throw new SluiceError("INVALID_ARGUMENT", `partition ${partition} has no position`);
      this.#lanes.set(partition, { partition, position: at, seekNumber: 0, turn: new AbortController(), ended: false });
    }
    if (this.#closed) return;
    for (const lane of this.#lanes.values()) this.#run(this.#follow(topic, lane, lane.turn.signal));
  }

  #seek(seek: ConsumeSeek): void {
    const topic = this.#topic;
    const lane = this.#lanes.get(seek.partition);
    if (topic === undefined || lane === undefined)
      throw new SluiceError("INVALID_ARGUMENT", `partition ${seek.partition} is not in this stream, or it has not begun`);
    lane.turn.abort();
    lane.turn = new AbortController();
    lane.position = seek.position;
    lane.seekNumber = seek.seekNumber;
    lane.ended = false;
    this.#run(this.#follow(topic, lane, lane.turn.signal));
  }

  /** Until the next seek, an error of the partition, or the end of the stream. Never rejects. */
  async #follow(topic: TopicRecord, lane: Lane, signal: AbortSignal): Promise<void> {
    const { reads } = this.#options;
    const partition = partitionOf(topic, lane.partition);
    const reader = reads.open(topic, partition, 0);
    const { seekNumber } = lane;
    try {
      await this.#locate(reader, lane, signal);
      while (!signal.aborted) await this.#step(reader, lane, signal);
    } catch (error) {
      if (!signal.aborted) this.#fail(lane, seekNumber, error);
    } finally {
      reads.close(reader);
    }
  }
  async #locate(reader: Reader, lane: Lane, signal: AbortSignal): Promise<void> {
    const { positions, clock, timers } = this.#options;
    for (;;) {
      try {
        const { offset, end } = await positions.find(
          reader.partition,
          lane.position,
          clock.monotonicMs() + timers.controlCallTimeoutMs,
          signal,
        );
        // No record so late yet: go on with what comes.
        reader.offset = offset < 0 ? end : offset;
        return;
      } catch (error) {
        if (signal.aborted || !readCanRetry(error)) throw error;
        await clock.sleep(proxyLimits.readRetryMs, signal);
      }
    }
  }

  async #step(reader: Reader, lane: Lane, signal: AbortSignal): Promise<void> {
    const { reads, clock } = this.#options;
    const credit = this.#credit as ConsumeCredit;
    const reserved = await credit.reserve(proxyLimits.consumeChunkBytes, signal);
    if (reserved === 0) return;
    let used = 0;
    let failure: unknown;
    let empty = false;
    try {
      const nowMs = clock.monotonicMs();
      const answer = await reads.read(reader, { maxBytes: reserved, waitUntilMs: nowMs, giveUpMs: nowMs, signal });
      if (signal.aborted) return;
      empty = answer.runs.length === 0;
      if (!empty) used = await this.#send(reader, lane, answer, reserved, signal);
    } catch (error) {
      failure = error;
    } finally {
      credit.settle(reserved, used);
      this.#settle();
    }
    if (failure !== undefined) {
      if (signal.aborted || !readCanRetry(failure)) throw failure;
      await clock.sleep(proxyLimits.readRetryMs, signal).catch(() => undefined);
    } else if (empty) {
      if (this.#start?.reportEnd === true && !lane.ended) await this.#reportEnd(reader, lane, signal);
      if (!signal.aborted) await reads.wait(reader, proxyLimits.tailQuietMs, signal);
    }
  }

  /** Sends what was read and moves the reader on. Returns the bytes of data that were sent. */
  async #send(reader: Reader, lane: Lane, answer: ReadAnswer, reserved: number, signal: AbortSignal): Promise<number> {
    const { codecs, onSent } = this.#options;
    const span = answer.trace === undefined ? undefined : this.#span(reader, lane, answer, answer.trace);
    const context = span?.context ?? answer.trace;
    let traceparent = context === undefined ? "" : traceParentText(context);
    let sent = 0;
    const write = async (
      records: Uint8Array | undefined,
      runs: readonly Uint8Array[],
      bytes: number,
      nextOffset: number,
    ): Promise<void> => {
      reader.offset = nextOffset;
      sent += bytes;
      lane.ended = false;
      if (bytes === 0) return;
      const message = this.#message(reader, lane, answer, { records, runs, traceparent });
      // Told once, with the first of its messages.
      traceparent = "";
      if (!this.#call.write(message)) await this.#call.drained();
    };
    try {
      if (this.#start?.format === DataFormat.BATCHES) {
        const runs = withoutControl(answer.runs);
        let bytes = 0;
        for (const run of runs) bytes += run.length;
        await write(undefined, runs, bytes, answer.nextOffset);
      } else {
        for (const page of recordPages(answer.runs, reader.offset, replyBytesMax, codecs, reserved)) {
          if (signal.aborted) break;
          await write(page.bytes, [], page.bytes.length, page.nextOffset);
        }
      }
    } catch (error) {
      span?.end(codeOf(error));
      throw error;
    }
    onSent(sent);
    span?.end();
    return sent;
  }
  #span(reader: Reader, lane: Lane, answer: ReadAnswer, parent: Uint8Array): Span | undefined {
    return this.#options.tracer?.begin(`deliver ${reader.topic.name}`, parent, {
      [spanAttributes.operation]: "deliver",
      [spanAttributes.destination]: reader.topic.name,
      [spanAttributes.partition]: String(lane.partition),
      [spanAttributes.bytes]: answer.bytes,
    });
  }

  /** The end is confirmed by the owner: a mark that was pushed may be an old owner's. */
  async #reportEnd(reader: Reader, lane: Lane, signal: AbortSignal): Promise<void> {
    const { reads, clock } = this.#options;
    if (reader.marks !== undefined && reader.offset < reader.marks.highWatermark) return;
    try {
      const marks = await reads.end(reader, clock.monotonicMs() + proxyLimits.tailQuietMs, signal);
      if (signal.aborted || reader.offset < marks.highWatermark) return;
      lane.ended = true;
      const at = { ...marks, logStart: marks.logStart };
      this.#call.write(this.#message(reader, lane, at, { records: undefined, runs: [], traceparent: "" }, true));
      this.#settle();
    } catch (error) {
      if (!readCanRetry(error)) throw error;
    }
  }

  #message(
    reader: Reader,
    lane: Lane,
    marks: Pick<ReadAnswer, "highWatermark" | "lastStableOffset" | "logStart">,
    data: Pick<Consumed, "records" | "runs" | "traceparent">,
    endReached = false,
  ): Consumed {
    // Without a mark of the owner, what was read is the least that is committed.
    const highWatermark = Math.max(marks.highWatermark, reader.offset);
    return {
      topic: reader.topic.name,
      partition: lane.partition,
      ...data,
      nextOffset: reader.offset,
      highWatermark,
      lastStableOffset: marks.lastStableOffset < 0 ? highWatermark : marks.lastStableOffset,
      logStartOffset: marks.logStart,
      endReached,
      seekNumber: lane.seekNumber,
      error: 0,
      errorMessage: "",
    };
  }
  /** The partition is paused until a seek. */
  #fail(lane: Lane, seekNumber: number, reason: unknown): void {
    const error = asSluiceError(atPartition(this.#topic?.name ?? "", lane.partition, reason));
    if (this.#closed) return;
    this.#call.write({
      topic: this.#topic?.name ?? "",
      partition: lane.partition,
      records: undefined,
      runs: [],
      // Known when the partition can go on behind what failed.
      nextOffset: Number(error.details["nextOffset"] ?? -1),
      highWatermark: -1,
      lastStableOffset: -1,
      logStartOffset: -1,
      endReached: false,
      seekNumber,
      error: errorNumber(error.code),
      errorMessage: error.code === "INTERNAL" ? "internal error; the server's log has the cause" : error.message,
      traceparent: "",
    });
  }

  /** A client that has ended its side grants no more credit: the stream ends with it, or with the end of every partition if those were asked for. */
  #settle(): void {
    if (!this.#clientEnded || this.#closed) return;
    if (this.#start === undefined || (this.#credit?.left ?? 0) <= 0) this.#over.resolve();
    else if (this.#start.reportEnd && this.#lanes.size > 0 && [...this.#lanes.values()].every((lane) => lane.ended)) this.#over.resolve();
  }
}
