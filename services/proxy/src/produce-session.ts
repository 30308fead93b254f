import { asSluiceError, errorNumber, SluiceError, type TopicRecord } from "@sluice/core/model";
import type { ProduceOutcome } from "@sluice/partition-client";
import type { CallContext, DuplexStream } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";
import { proxyLimits } from "./limits.ts";
import { produceErrorMessage, throttleReason, type ProducePath } from "./produce-path.ts";
import type { Topics } from "./topics.ts";
import type { StreamProduce, StreamProduced } from "./wire/produce-codec.ts";

export interface ProduceSessionOptions {
  readonly clock: Clock;
  readonly topics: Topics;
  readonly path: ProducePath;
  /** How long a batch is held while its partition moves. */
  readonly holdMs: number;
}

/**
 * One produce stream. Requests go to the router in the order in which they came; a topic that has to be looked up holds those behind it.
 * The stream is read only while its own bytes and messages in flight, the proxy's held bytes and the answers that the client has not taken
 * are within their limits.
 *
 *   stream ─► backlog (only behind a look-up) ─► router ─► answers by id
 */
export class ProduceSession {
  readonly #options: ProduceSessionOptions;
  readonly #call: DuplexStream<StreamProduce, StreamProduced>;
  readonly #context: CallContext;
  readonly #finished = Promise.withResolvers<void>();
  readonly #backlog: StreamProduce[] = [];
  #looking = false;
  /** Of the previous message. */
  #name = "";
  /** Last name that the client was found to have the right to. */
  #allowed = "";
  #inFlightBytes = 0;
  #inFlightMessages = 0;
  #paused = false;
  #draining = false;
  #clientEnded = false;
  #over = false;
  readonly #onRoom = (): void => this.#flow();

  constructor(options: ProduceSessionOptions, call: DuplexStream<StreamProduce, StreamProduced>, context: CallContext) {
    this.#options = options;
    this.#call = call;
    this.#context = context;
  }

  /** Resolves when the client has ended its side and all is answered; rejects with SHUTTING_DOWN when the proxy drains. */
  async run(): Promise<void> {
    const { draining, signal } = this.#context;
    const onDrain = (): void => {
      this.#draining = true;
      this.#settle();
    };
    const onAbort = (): void => this.#finished.resolve();
    draining.addEventListener("abort", onDrain, { once: true });
    signal.addEventListener("abort", onAbort, { once: true });
    if (draining.aborted) onDrain();
    this.#call.listen(
      (message) => this.#take(message),
      () => {
        this.#clientEnded = true;
        this.#settle();
      },
    );
    try {
      await this.#finished.promise;
    } finally {
      this.#over = true;
      this.#backlog.length = 0;
      this.#options.path.offRoom(this.#onRoom);
      draining.removeEventListener("abort", onDrain);
      signal.removeEventListener("abort", onAbort);
    }
  }

  #take(message: StreamProduce): void {
    if (this.#over) return;
    if (this.#looking) {
      this.#backlog.push(message);
      return;
    }
    this.#handle(message);
    this.#flow();
  }

  #handle(message: StreamProduce): void {
    if (this.#draining) return this.#refuse(message, new SluiceError("SHUTTING_DOWN", "the proxy is going away"));
    const name = message.topic === "" ? this.#name : message.topic;
    const tenant = this.#context.principal.tenant;
    let topic: TopicRecord | undefined;
    try {
      if (name === "") throw new SluiceError("INVALID_ARGUMENT", "the first message of a stream names its topic");
      this.#name = name;
      const allowed = name === this.#allowed ? undefined : this.#context.authorize(name);
      if (allowed === undefined) this.#allowed = name;
      // Looked up each time: the record changes with the topic's configuration, and goes with the topic.
      topic = this.#options.topics.known(tenant, name);
      if (topic === undefined || allowed !== undefined) return this.#lookUp(message, name, allowed);
    } catch (error) {
      return this.#refuse(message, error);
    }
    this.#submit(message, topic);
  }

  #lookUp(message: StreamProduce, name: string, allowed: Promise<void> | void): void {
    this.#looking = true;
    this.#flow();
    const found = Promise.resolve(allowed).then(() => {
      this.#allowed = name;
      return this.#options.topics.find(this.#context.principal.tenant, name);
    });
    void found
      .then(
        (topic) => this.#submit(message, topic),
        (error: unknown) => this.#refuse(message, error),
      )
      .finally(() => {
        this.#looking = false;
        while (!this.#looking) {
          const next = this.#backlog.shift();
          if (next === undefined) break;
          this.#handle(next);
        }
        this.#flow();
        this.#settle();
      });
  }

  #submit(message: StreamProduce, topic: TopicRecord): void {
    if (this.#over) return;
    const { path, clock, holdMs } = this.#options;
    // A stream may have no deadline of its own.
    const deadlineMs = Math.min(clock.monotonicMs() + holdMs, this.#context.deadlineMs);
    let counted = 0;
    let answered = false;
    try {
      const bytes = path.produce(topic, message, deadlineMs, (partition, outcome) => {
        answered = true;
        this.#inFlightBytes -= counted;
        if (counted > 0) this.#inFlightMessages -= 1;
        this.#answer(message.id, partition, outcome);
        if (counted > 0) {
          this.#flow();
          this.#settle();
        }
      });
      if (answered) return;
      counted = bytes;
      this.#inFlightBytes += bytes;
      this.#inFlightMessages += 1;
    } catch (error) {
      this.#refuse(message, error);
    }
  }

  #answer(id: number, partition: number, outcome: ProduceOutcome): void {
    this.#write({
      id,
      error: outcome.code,
      errorMessage: outcome.code === 0 ? "" : produceErrorMessage(outcome),
      partition,
      baseOffset: outcome.baseOffset,
      lastOffset: outcome.lastOffset,
      appendTimeMs: outcome.appendTimeMs,
      logStartOffset: outcome.logStart,
      throttleMs: outcome.throttleMs,
      throttleReason: throttleReason(outcome),
    });
  }
  #refuse(message: StreamProduce, reason: unknown): void {
    const error = asSluiceError(reason);
    this.#write({
      id: message.id,
      error: errorNumber(error.code),
      errorMessage: error.code === "INTERNAL" ? "internal error; the server's log has the cause" : error.message,
      partition: message.partition,
      baseOffset: -1,
      lastOffset: -1,
      appendTimeMs: -1,
      logStartOffset: -1,
      throttleMs: error.throttleMs,
      throttleReason: "",
    });
  }
  #write(answer: StreamProduced): void {
    if (this.#over) return;
    this.#blocked = !this.#call.write(answer);
    if (this.#blocked && !this.#awaitingDrain) {
      this.#awaitingDrain = true;
      void this.#call.drained().then(() => {
        this.#awaitingDrain = false;
        this.#blocked = false;
        this.#flow();
        this.#settle();
      });
    }
  }
  #blocked = false;
  #awaitingDrain = false;

  /** Stops or resumes the reading of the stream. */
  #flow(): void {
    if (this.#over) return;
    const { path } = this.#options;
    const full =
      this.#looking ||
      this.#blocked ||
      path.full ||
      this.#inFlightBytes >= proxyLimits.streamInFlightBytesMax ||
      this.#inFlightMessages >= proxyLimits.streamInFlightMessagesMax;
    if (full === this.#paused) {
      if (full && path.full) path.onRoom(this.#onRoom);
      return;
    }
    this.#paused = full;
    if (!full) return this.#call.resume();
    this.#call.pause();
    if (path.full) path.onRoom(this.#onRoom);
  }

  /** Ends the call when nothing is in flight and nothing more comes. */
  #settle(): void {
    if (this.#inFlightMessages > 0 || this.#looking || this.#backlog.length > 0) return;
    if (this.#draining && !this.#clientEnded) this.#finished.reject(new SluiceError("SHUTTING_DOWN", "the proxy is going away"));
    else if (this.#clientEnded) this.#finished.resolve();
  }
}
