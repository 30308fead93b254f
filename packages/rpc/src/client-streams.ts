import type { ClientDuplexStream, ClientReadableStream } from "@grpc/grpc-js";
import type { Readable, Writable } from "node:stream";
import { SluiceError } from "@sluice/core/model";
import { decodeFailure, failureCause } from "./codec.ts";
import { fromGrpcError } from "./errors.ts";

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

class Responses<Out> implements ClientResponses<Out> {
  readonly #call: GrpcReadable;
  readonly #path: string;
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#abort();
  protected ended = false;
  #error: SluiceError | undefined;
  #onError: ((error: SluiceError) => void) | undefined;

  constructor(call: GrpcReadable, path: string, signal: AbortSignal | undefined) {
    this.#call = call;
    this.#path = path;
    this.#signal = signal;
    // Without this listener a cancelled stream would end the process.
    call.on("error", (error) => this.#fail(fromGrpcError(error)));
    call.on("end", () => this.#finish());
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    if (signal?.aborted === true) this.#abort();
  }
  listen(onMessage: (message: Out) => void, onEnd: (error: SluiceError | undefined) => void): void {
    if (this.#error !== undefined) {
      onEnd(this.#error);
      return;
    }
    let over = false;
    const end = (error?: SluiceError): void => {
      if (over) return;
      over = true;
      onEnd(error);
    };
    this.#onError = end;
    this.#call.on("data", (message: Out) => {
      if (over) return;
      const failure = decodeFailure(message);
      if (failure === undefined) onMessage(message);
      else this.#malformed(failureCause(failure));
    });
    // The status follows the last message; "end" alone does not say whether the call went well.
    this.#call.on("status", (status) => {
      if (status.code === 0) end();
    });
  }
  async *[Symbol.asyncIterator](): AsyncGenerator<Out, void, undefined> {
    if (this.#error !== undefined) throw this.#error;
    const failed = Promise.withResolvers<never>();
    failed.promise.catch(() => undefined);
    this.#onError = failed.reject;
    const iterator = (this.#call as unknown as Readable).iterator({ destroyOnReturn: false }) as AsyncIterator<Out, void>;
    try {
      for (;;) {
        const next = await Promise.race([iterator.next(), failed.promise]);
        if (next.done === true) return;
        const failure = decodeFailure(next.value);
        if (failure !== undefined) this.#malformed(failureCause(failure));
        if (this.#error !== undefined) throw this.#error;
        yield next.value;
      }
    } catch (error) {
      throw this.#error ?? fromGrpcError(error);
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
    this.#fail(new SluiceError("CANCELLED", `${this.#path}: given up by the caller`));
    this.#call.cancel();
  }
  #abort(): void {
    const reason: unknown = this.#signal?.reason;
    const late = typeof reason === "object" && reason !== null && "code" in reason && reason.code === "TIMED_OUT";
    this.#fail(new SluiceError(late ? "TIMED_OUT" : "CANCELLED", `${this.#path}: given up by the caller`, { cause: reason }));
    this.#call.cancel();
  }
  #malformed(cause: unknown): void {
    this.#fail(new SluiceError("VERSION_MISMATCH", `${this.#path}: the reply is not a valid message`, { cause }));
    this.#call.cancel();
  }
  #fail(error: SluiceError): void {
    if (this.#error !== undefined || this.ended) return;
    this.#error = error;
    this.#finish();
    this.#onError?.(error);
  }
  #finish(): void {
    this.ended = true;
    this.#signal?.removeEventListener("abort", this.#onAbort);
  }
}

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
