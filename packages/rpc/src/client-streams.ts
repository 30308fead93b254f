import type { ClientDuplexStream, ClientReadableStream } from "@grpc/grpc-js";
import type { Readable, Writable } from "node:stream";
import { SluiceError } from "@sluice/core/model";
import { decodeFailure, failureCause } from "./codec.ts";
import { fromGrpcError } from "./errors.ts";
import { MessageReader } from "./message-reader.ts";

/** Responses of a server stream: iterate once, or `listen`. Leaving the loop early cancels the call. */
export interface ClientResponses<Out> extends AsyncIterable<Out> {
  /** Event style: `onMessage` for each, `onEnd` once, with the error when the call failed. */
  listen(onMessage: (message: Out) => void, onEnd: (error: SluiceError | undefined) => void): void;
  pause(): void;
  resume(): void;
  cancel(): void;
}
export interface ClientDuplex<In, Out> extends ClientResponses<Out> {
  /** false = the buffer is full (16 messages and the HTTP/2 window): wait for `drained()`. Ignored once the call has ended. */
  write(message: In): boolean;
  /** Resolves when there is room again or the call has ended. */
  drained(): Promise<void>;
  /** Says that no further message comes; responses still do. */
  end(): void;
  readonly pendingMessages: number;
}

type GrpcReadable = ClientReadableStream<unknown>;

/**
 * grpc-js tells the status (and emits "error") as soon as it arrives, while messages before it may still be buffered. They are delivered
 * first; only what this side gives up itself ends at once.
 */
class Responses<Out> implements ClientResponses<Out> {
  readonly #call: GrpcReadable;
  readonly #path: string;
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#giveUp(this.#signal?.reason);
  /** The status is known: nothing more is sent. */
  protected ended = false;
  #error: SluiceError | undefined;
  #onGiveUp: ((error: SluiceError) => void) | undefined;

  constructor(call: GrpcReadable, path: string, signal: AbortSignal | undefined) {
    this.#call = call;
    this.#path = path;
    this.#signal = signal;
    // Without this listener a cancelled stream would end the process.
    call.on("error", (error) => {
      this.#error ??= fromGrpcError(error);
      this.#finish();
    });
    call.on("status", () => this.#finish());
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    if (signal?.aborted === true) this.#onAbort();
  }
  listen(onMessage: (message: Out) => void, onEnd: (error: SluiceError | undefined) => void): void {
    let over = false;
    const end = (error: SluiceError | undefined): void => {
      if (over) return;
      over = true;
      onEnd(error);
    };
    this.#onGiveUp = end;
    if (this.#error !== undefined) {
      end(this.#error);
      return;
    }
    this.#call.on("data", (message: Out) => {
      if (over) return;
      const failure = decodeFailure(message);
      if (failure === undefined) onMessage(message);
      else this.#fail(malformed(this.#path, failureCause(failure)));
    });
    this.#call.on("end", () => end(this.#error));
  }
  async *[Symbol.asyncIterator](): AsyncGenerator<Out, void, undefined> {
    const reader = new MessageReader<Out>(this.#call as unknown as Readable);
    this.#onGiveUp = (error) => reader.fail(error);
    try {
      for (;;) {
        const next = await reader.next();
        if (next.done === true) break;
        const failure = decodeFailure(next.value);
        if (failure !== undefined) this.#fail(malformed(this.#path, failureCause(failure)));
        else yield next.value;
      }
      if (this.#error !== undefined) throw this.#error;
    } finally {
      if (!this.ended) this.cancel();
    }
  }
  pause(): void {
    this.#call.pause();
  }
  resume(): void {
    this.#call.resume();
  }
  cancel(): void {
    this.#giveUp(undefined);
  }
  #giveUp(reason: unknown): void {
    const late = typeof reason === "object" && reason !== null && "code" in reason && reason.code === "TIMED_OUT";
    this.#fail(new SluiceError(late ? "TIMED_OUT" : "CANCELLED", `${this.#path}: given up by the caller`, { cause: reason }));
  }
  #fail(error: SluiceError): void {
    if (this.#error === undefined) {
      this.#error = error;
      this.#onGiveUp?.(error);
    }
    this.#finish();
    this.#call.cancel();
  }
  #finish(): void {
    this.ended = true;
    this.#signal?.removeEventListener("abort", this.#onAbort);
  }
}
const malformed = (path: string, cause: unknown): SluiceError =>
  new SluiceError("VERSION_MISMATCH", `${path}: the reply is not a valid message`, { cause });

class Duplex<In, Out> extends Responses<Out> implements ClientDuplex<In, Out> {
  readonly #out: Writable;
  constructor(call: ClientDuplexStream<unknown, unknown>, path: string, signal: AbortSignal | undefined) {
    super(call, path, signal);
    this.#out = call;
  }
  get pendingMessages(): number {
    return this.#out.writableLength;
  }
  write(message: In): boolean {
    if (this.ended || this.#out.writableEnded || this.#out.destroyed) return true;
    return this.#out.write(message);
  }
  drained(): Promise<void> {
    return this.ended ? Promise.resolve() : drained(this.#out);
  }
  end(): void {
    if (!this.#out.writableEnded && !this.#out.destroyed) this.#out.end();
  }
}

export const createClientResponses = <Out>(call: GrpcReadable, path: string, signal: AbortSignal | undefined): ClientResponses<Out> =>
  new Responses<Out>(call, path, signal);
export const createClientDuplex = <In, Out>(
  call: ClientDuplexStream<unknown, unknown>,
  path: string,
  signal: AbortSignal | undefined,
): ClientDuplex<In, Out> => new Duplex<In, Out>(call, path, signal);

const DRAIN_EVENTS = ["drain", "close", "error", "status", "end"];
function drained(out: Writable): Promise<void> {
  if (!out.writableNeedDrain || out.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      for (const event of DRAIN_EVENTS) out.off(event, done);
      resolve();
    };
    for (const event of DRAIN_EVENTS) out.once(event, done);
  });
}

/** Writes an iterable with back-pressure and ends the sending side; stops when the call is over. */
export async function pump(source: AsyncIterable<unknown>, out: Writable, over: () => boolean): Promise<void> {
  for await (const message of source) {
    if (over() || out.destroyed) return;
    if (!out.write(message)) await drained(out);
  }
  if (!over()) out.end();
}
