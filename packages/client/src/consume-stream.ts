import { asSluiceError, SluiceError } from "@sluice/core/model";
import { DataFormat } from "@sluice/proto/v1/consume";
import type { Timer } from "@sluice/runtime";
import { Backoff } from "./backoff.ts";
import { type Connection, leavesProxy, type ProxyLink } from "./connection.ts";
import type { ConsumeAnswer } from "./messages.ts";
import { clientTimers } from "./timing.ts";

/** Where to go on in each partition; none = there is nothing to read. */
export type Starts = readonly { readonly partition: number; readonly offset: number }[];
export interface ConsumeStreamOwner {
  /** Asked when a stream opens. */
  starts(): Starts;
  received(answer: ConsumeAnswer): void;
  /** No retry helps. */
  failed(error: SluiceError): void;
}
type Duplex = ReturnType<ProxyLink["consume"]["consume"]>;
type Request = Parameters<Duplex["write"]>[0];

/**
 * The consumer's stream to whatever proxy serves, opened again when it breaks, and its credit:
 *
 *   creditBytes = granted to the server + held here (received, not yet given back by `giveBack`)
 */
export class ConsumeStream {
  readonly #connection: Connection;
  readonly #owner: ConsumeStreamOwner;
  readonly #topic: string;
  readonly #creditBytes: number;
  /** The end is told even when what lies before it gives no data (control batches). */
  readonly #reportEnd: boolean;
  readonly #backoff: Backoff;
  #call: Duplex | undefined;
  #link: ProxyLink | undefined;
  #opening = false;
  #closed = false;
  #heldBytes = 0;
  #owedBytes = 0;
  #unknownSinceMs: number | undefined;
  #timer: Timer | undefined;

  /** Partitions that the present stream was started with, and whether it has begun: it takes seeks of those, and only then. */
  #started: ReadonlySet<number> = new Set();
  #begun = false;

  constructor(connection: Connection, owner: ConsumeStreamOwner, topic: string, creditBytes: number, reportEnd: boolean) {
    this.#connection = connection;
    this.#owner = owner;
    this.#topic = topic;
    this.#creditBytes = creditBytes;
    this.#reportEnd = reportEnd;
    this.#backoff = new Backoff(connection.random);
  }
  /** Idempotent; waits while all credit is held here. */
  open(): void {
    if (this.#call !== undefined || this.#opening || this.#timer !== undefined || this.#closed) return;
    if (this.#heldBytes >= this.#creditBytes) return;
    this.#opening = true;
    void this.#connect();
  }
  /** Bytes of an answer have been used or dropped. */
  giveBack(bytes: number): void {
    this.#heldBytes -= bytes;
    this.#owedBytes += bytes;
    if (this.#call === undefined) this.open();
    else if (this.#owedBytes > 0 && (this.#owedBytes >= this.#creditBytes / 4 || this.#heldBytes === 0)) {
      this.#write({ request: { case: "creditBytes", value: this.#owedBytes } });
      this.#owedBytes = 0;
    }
  }
  /** Told to the stream; when there is none, or it cannot take it yet, a new one starts where it should. */
  seek(partition: number, offset: number, seekNumber: number): void {
    const position = { at: { case: "offset" as const, value: BigInt(offset) } };
    if (this.#call !== undefined && this.#begun && this.#started.has(partition))
      this.#write({ request: { case: "seek", value: { partition, position, seekNumber } } });
    else {
      if (this.#call !== undefined) this.park();
      this.open();
    }
  }
  get isOpen(): boolean {
    return this.#call !== undefined;
  }
  close(): void {
    this.#closed = true;
    this.park();
  }
  /** Ends the stream until somebody seeks: nothing more is wanted. */
  park(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const call = this.#call;
    this.#call = undefined;
    if (call === undefined) return;
    call.end();
    // A turn later: grpc-js forgets a cancel that comes before the call has found its connection, and the server would keep the stream.
    this.#connection.clock.afterTurn(() => call.cancel());
  }

  #write(request: Request): void {
    this.#call?.write(request);
  }
  async #connect(): Promise<void> {
    let link: ProxyLink | undefined;
    try {
      link = await this.#connection.link();
      const partitions = this.#owner.starts();
      if (this.#closed || partitions.length === 0) return;
      const call = link.consume.consume({ timeoutMs: Number.POSITIVE_INFINITY });
      this.#call = call;
      this.#link = link;
      this.#owedBytes = 0;
      this.#begun = false;
      this.#started = new Set(partitions.map((p) => p.partition));
      call.listen(
        (answer) => this.#received(call, answer),
        (error) => this.#broken(call, error ?? new SluiceError("SHUTTING_DOWN", "the proxy ended the stream")),
      );
      this.#write({
        request: {
          case: "start",
          value: {
            topic: this.#topic,
            partitions: partitions.map((p) => ({
              partition: p.partition,
              position: { at: { case: "offset" as const, value: BigInt(p.offset) } },
            })),
            format: DataFormat.BATCHES,
            reportEnd: this.#reportEnd,
            creditBytes: this.#creditBytes - this.#heldBytes,
          },
        },
      });
    } catch (thrown) {
      const error = asSluiceError(thrown);
      if (link !== undefined) this.#connection.failed(link, error);
      if (this.#connection.closed !== undefined) this.#owner.failed(this.#connection.closed);
      else this.#later(this.#backoff.nextMs());
    } finally {
      this.#opening = false;
    }
  }
  #received(call: Duplex, answer: ConsumeAnswer): void {
    if (this.#call !== call) return;
    this.#backoff.reset();
    this.#begun = true;
    this.#unknownSinceMs = undefined;
    this.#heldBytes += answer.batches.length;
    this.#owner.received(answer);
  }
  #broken(call: Duplex, error: SluiceError): void {
    if (this.#call !== call) return;
    this.#call = undefined;
    if (!error.retriable && !this.#isNews(error)) {
      this.#owner.failed(error);
      return;
    }
    if (this.#link !== undefined && leavesProxy(error)) this.#connection.failed(this.#link, error);
    // A stream that worked before is opened again at once.
    const fresh = this.#backoff.failures === 0;
    const waitMs = this.#backoff.nextMs();
    this.#later(Math.max(error.throttleMs, fresh ? 0 : waitMs));
  }
  /** A topic made at another proxy a moment ago. */
  #isNews(error: SluiceError): boolean {
    if (error.code !== "UNKNOWN_TOPIC") return false;
    const now = this.#connection.clock.monotonicMs();
    this.#unknownSinceMs ??= now;
    return now - this.#unknownSinceMs < clientTimers.newTopicMs;
  }
  #later(delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#connection.clock.setTimer(delayMs, () => {
      this.#timer = undefined;
      this.open();
    });
  }
}
