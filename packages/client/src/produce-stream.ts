import { asSluiceError, SluiceError } from "@sluice/core/model";
import type { ClientDuplex } from "@sluice/rpc";
import type { Timer } from "@sluice/runtime";
import { Backoff } from "./backoff.ts";
import { type Connection, leavesProxy, type ProxyLink } from "./connection.ts";
import type { ProduceAnswer, ProduceCall } from "./messages.ts";
import { type OutBatch, OutRun } from "./out-batch.ts";
import { clientTimers } from "./timing.ts";

export interface ProduceStreamOwner {
  answered(batch: OutBatch, answer: ProduceAnswer): void;
  /** The stream broke before their answers; `sent` false = nothing ever left this process. Called once for all, in the order sent. */
  lost(batches: readonly OutBatch[], error: SluiceError, sent: boolean): void;
  /** There is room again. */
  writable(): void;
  /** Something waits to be sent. */
  readonly hasWork: boolean;
}
const ID_MAX = 0xffff_ffff;

/**
 * The producer's stream to whatever proxy serves:
 *
 *   idle ──something to send──► opening ──► open ──broken──► (wait) ──► opening
 *
 * Batches written and not answered are kept in order; at a break they go back to the owner, who decides which are sent again.
 */
export class ProduceStream {
  readonly #connection: Connection;
  readonly #owner: ProduceStreamOwner;
  readonly #traceless = { timeoutMs: Number.POSITIVE_INFINITY };
  readonly #backoff: Backoff;
  readonly #unanswered = new Map<number, OutBatch>();
  #call: ClientDuplex<ProduceCall, ProduceAnswer> | undefined;
  #link: ProxyLink | undefined;
  #opening = false;
  #full = false;
  #closed = false;
  #pausedUntilMs = 0;
  #nextId = 1;
  #failure: SluiceError | undefined;
  #lastTopic = "";
  #timer: Timer | undefined;
  #watch: Timer | undefined;

  constructor(connection: Connection, owner: ProduceStreamOwner) {
    this.#connection = connection;
    this.#owner = owner;
    this.#backoff = new Backoff(connection.random);
  }
  /** Opens the stream when it is not. */
  get writable(): boolean {
    if (this.#closed) return false;
    if (this.#call === undefined) {
      this.#open();
      return false;
    }
    return !this.#full && this.#connection.clock.monotonicMs() >= this.#pausedUntilMs;
  }
  get failure(): SluiceError | undefined {
    return this.#failure;
  }
  /** Only while `writable`. */
  write(batch: OutBatch): void {
    const call = this.#call as ClientDuplex<ProduceCall, ProduceAnswer>;
    batch.id = this.#nextId;
    this.#nextId = this.#nextId === ID_MAX ? 1 : this.#nextId + 1;
    batch.sentMs = this.#connection.clock.monotonicMs();
    batch.everSent = true;
    this.#unanswered.set(batch.id, batch);
    const topic = batch.topic === this.#lastTopic ? "" : batch.topic;
    this.#lastTopic = batch.topic;
    const { id, partition, expectedBaseOffset, fenceToken, trace } = batch;
    const batches = batch instanceof OutRun ? batch.parts.map((b) => b.bytes) : [batch.bytes];
    if (!call.write({ id, topic, partition, batches, expectedBaseOffset, fenceToken, trace })) {
      this.#full = true;
      void call.drained().then(() => {
        if (this.#call !== call) return;
        this.#full = false;
        this.#owner.writable();
      });
    }
    this.#watch ??= this.#connection.clock.setTimer(clientTimers.answerTimeoutMs, () => this.#checkAnswers(), { unref: true });
  }
  /** Gives the stream up; what is unanswered is `lost`, and a new stream is opened when there is work. */
  abandon(reason: SluiceError): void {
    const call = this.#call;
    if (call === undefined) return;
    this.#broken(call, reason, true);
    call.cancel();
  }
  /** No more is written; the stream ends once its answers are there. */
  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#watch?.cancel();
    this.#call?.end();
    this.#call = undefined;
  }

  #open(): void {
    if (this.#opening || this.#timer !== undefined || this.#closed) return;
    this.#opening = true;
    void this.#connect();
  }
  async #connect(): Promise<void> {
    let link: ProxyLink | undefined;
    try {
      link = await this.#connection.link();
      if (this.#closed) return;
      const call = link.produce.produceStream(this.#traceless);
      this.#call = call;
      this.#link = link;
      this.#lastTopic = "";
      this.#full = false;
      this.#failure = undefined;
      call.listen(
        (answer) => this.#answer(call, answer),
        (error) =>
          this.#broken(call, error ?? new SluiceError("SHUTTING_DOWN", "the proxy ended the stream"), error?.code !== "UNREACHABLE"),
      );
    } catch (thrown) {
      const error = asSluiceError(thrown);
      this.#failure = error;
      if (link !== undefined) this.#connection.failed(link, error);
      if (this.#connection.closed === undefined) this.#later(this.#backoff.nextMs());
      return;
    } finally {
      this.#opening = false;
    }
    this.#owner.writable();
  }
  #answer(call: ClientDuplex<ProduceCall, ProduceAnswer>, answer: ProduceAnswer): void {
    if (this.#call !== call && !this.#closed) return;
    const batch = this.#unanswered.get(answer.id);
    if (batch === undefined) return;
    this.#unanswered.delete(answer.id);
    this.#backoff.reset();
    if (answer.throttleMs > 0) this.#pause(answer.throttleMs);
    this.#owner.answered(batch, answer);
  }
  #broken(call: ClientDuplex<ProduceCall, ProduceAnswer>, error: SluiceError, sent: boolean): void {
    if (this.#call !== call) return;
    this.#call = undefined;
    if (this.#link !== undefined && leavesProxy(error)) this.#connection.failed(this.#link, error);
    this.#link = undefined;
    this.#failure = error;
    const lost = [...this.#unanswered.values()];
    this.#unanswered.clear();
    // Set first: the owner asks at once whether it may write. A stream that answered before is opened again at once.
    const fresh = this.#backoff.failures === 0;
    const waitMs = this.#backoff.nextMs();
    this.#later(Math.max(error.throttleMs, fresh ? 0 : waitMs));
    this.#owner.lost(lost, error, sent);
  }
  #later(delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#connection.clock.setTimer(delayMs, () => {
      this.#timer = undefined;
      if (this.#owner.hasWork) this.#open();
    });
  }
  #pause(throttleMs: number): void {
    const { clock } = this.#connection;
    const untilMs = clock.monotonicMs() + throttleMs;
    if (untilMs <= this.#pausedUntilMs) return;
    this.#pausedUntilMs = untilMs;
    clock.setTimer(throttleMs, () => this.#owner.writable());
  }
  /** Silence beyond the longest time that a proxy may hold a write: the connection is dead, whatever its socket says. */
  #checkAnswers(): void {
    this.#watch = undefined;
    const oldest = this.#unanswered.values().next().value;
    if (oldest === undefined) return;
    const { clock } = this.#connection;
    const leftMs = oldest.sentMs + clientTimers.answerTimeoutMs - clock.monotonicMs();
    if (leftMs <= 0) this.abandon(new SluiceError("OUTCOME_UNKNOWN", `no answer within ${clientTimers.answerTimeoutMs} ms`));
    else this.#watch = clock.setTimer(leftMs, () => this.#checkAnswers(), { unref: true });
  }
}
