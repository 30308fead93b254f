import type { Duplex, Readable, Writable } from "node:stream";
import { SluiceError } from "@sluice/core/model";
import { decodeFailure, failureCause } from "./codec.ts";
import type { ServerCallContext } from "./context.ts";
import type { DuplexStream, ResponseStream } from "./implement.ts";
import { MessageReader } from "./message-reader.ts";

/** A message as the handler gets it; throws INVALID_ARGUMENT when it could not be decoded. */
export function decoded<T>(message: T, path: string): T {
  const failure = decodeFailure(message);
  if (failure === undefined) return message;
  throw new SluiceError("INVALID_ARGUMENT", `${path}: the request is not a valid message`, { cause: failureCause(failure) });
}

/**
 * Requests of a stream, one by one, with back-pressure. Ends by a throw of the call's end when the client cancels: a handler cannot
 * mistake half of a stream for all of it. Leaving the loop early does not destroy the call.
 */
export async function* requests<T>(call: Readable, context: ServerCallContext): AsyncGenerator<T, void, undefined> {
  const reader = new MessageReader<T>(call);
  context.onEnd((reason) => reader.fail(reason));
  for (;;) {
    const next = await reader.next();
    if (context.ended !== undefined) throw context.ended;
    if (next.done === true) return;
    yield decoded(next.value, context.path);
  }
}

/** The writing side: no write after the end of the call, waits that end with it. */
export class ServerResponseStream<Out> implements ResponseStream<Out> {
  readonly #call: Writable;
  readonly #context: ServerCallContext;
  #draining: Promise<void> | undefined;
  constructor(call: Writable, context: ServerCallContext) {
    this.#call = call;
    this.#context = context;
  }
  get pendingMessages(): number {
    return this.#call.writableLength;
  }
  write(message: Out): boolean {
    if (this.#context.ended !== undefined || this.#call.writableEnded || this.#call.destroyed) return true;
    return this.#call.write(message);
  }
  drained(): Promise<void> {
    const call = this.#call;
    if (!call.writableNeedDrain || this.#context.ended !== undefined || call.destroyed) return Promise.resolve();
    // One wait for all who ask: a consumer of many partitions asks for each.
    this.#draining ??= new Promise((resolve) => {
      const done = (): void => {
        this.#draining = undefined;
        for (const event of ["drain", "cancelled", "close", "error"]) call.off(event, done);
        this.#context.signal.removeEventListener("abort", done);
        resolve();
      };
      for (const event of ["drain", "cancelled", "close", "error"]) call.once(event, done);
      this.#context.signal.addEventListener("abort", done, { once: true });
    });
    return this.#draining;
  }
}

export class ServerDuplexStream<In, Out> extends ServerResponseStream<Out> implements DuplexStream<In, Out> {
  readonly #call: Duplex;
  readonly #context: ServerCallContext;
  readonly #fail: (error: unknown) => void;
  constructor(call: Duplex, context: ServerCallContext, fail: (error: unknown) => void) {
    super(call, context);
    this.#call = call;
    this.#context = context;
    this.#fail = fail;
  }
  [Symbol.asyncIterator](): AsyncIterator<In> {
    return requests<In>(this.#call, this.#context);
  }
  listen(onMessage: (message: In) => void, onEnd: () => void): void {
    this.#call.on("data", (message: In) => {
      if (this.#context.ended !== undefined) return;
      try {
        onMessage(decoded(message, this.#context.path));
      } catch (error) {
        this.#call.pause();
        this.#fail(error);
      }
    });
    this.#call.on("end", () => {
      if (this.#context.ended !== undefined) return;
      try {
        onEnd();
      } catch (error) {
        this.#fail(error);
      }
    });
  }
  pause(): void {
    this.#call.pause();
  }
  resume(): void {
    this.#call.resume();
  }
}

/** Writes an iterable with back-pressure until it ends or the call does; the iterable's `return` runs in both cases. */
export async function writeAll<Out>(source: AsyncIterable<Out>, out: ServerResponseStream<Out>, context: ServerCallContext): Promise<void> {
  const iterator = source[Symbol.asyncIterator]();
  let giveUp: ((reason: unknown) => void) | undefined;
  context.onEnd((reason) => giveUp?.(reason));
  // A promise of its own for each message: one shared "ended" promise would collect a reaction per message.
  const take = (): Promise<IteratorResult<Out, unknown>> =>
    new Promise((resolve, reject) => {
      giveUp = reject;
      iterator.next().then(resolve, reject);
    });
  try {
    for (;;) {
      if (context.ended !== undefined) throw context.ended;
      const next = await take();
      if (next.done === true) return;
      if (!out.write(next.value)) await out.drained();
    }
  } catch (error) {
    // Not awaited: a generator that hangs in its own wait must not keep the call.
    iterator.return?.()?.then(undefined, () => undefined);
    throw error;
  }
}
