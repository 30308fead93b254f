import type { Readable } from "node:stream";

/**
 * Takes messages one by one from a stream of objects. No promise outlives its message: a race against "the call has ended" would add
 * one reaction to that promise for every message of a stream that may live for days.
 */
export class MessageReader<T> {
  readonly #stream: Readable;
  #wake: (() => void) | undefined;
  #error: unknown;
  #failed = false;
  #ended = false;

  constructor(stream: Readable) {
    this.#stream = stream;
    const wake = (): void => this.#wake?.();
    stream.on("readable", wake);
    stream.on("end", () => {
      this.#ended = true;
      wake();
    });
    stream.on("close", () => {
      this.#ended = true;
      wake();
    });
  }
  /** Ends the reading with an error, now: messages that are still buffered are not delivered. */
  fail(error: unknown): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#error = error;
    this.#wake?.();
  }
  /** One call at a time. */
  async next(): Promise<IteratorResult<T, void>> {
    for (;;) {
      if (this.#failed) throw this.#error;
      const message = this.#stream.read() as T | null;
      if (message !== null) return { done: false, value: message };
      if (this.#ended || this.#stream.readableEnded || this.#stream.destroyed) return { done: true, value: undefined };
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      await promise;
      this.#wake = undefined;
    }
  }
}
