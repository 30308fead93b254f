import type { ServerHttp2Stream } from "node:http2";

/** Streams that hold less are not looked at: a stream that is being read holds next to nothing. */
const NOTED_BYTES = 256 * 1024;

/**
 * Bytes that have arrived and that no handler has read. A stream that is not read takes in its whole flow-control window, which is large, and
 * there may be many streams; Node's HTTP/2 closes no window of a connection. So their sum has a limit, and the stream that holds the most is
 * given up when it is reached.
 */
export class UnreadBytes {
  readonly #bytesMax: number;
  readonly #giveUp: (stream: ServerHttp2Stream) => void;
  readonly #noted = new Map<ServerHttp2Stream, number>();
  #bytes = 0;

  constructor(bytesMax: number, giveUp: (stream: ServerHttp2Stream) => void) {
    this.#bytesMax = bytesMax;
    this.#giveUp = giveUp;
  }
  /** As of the last arrivals; may have been read since. */
  get bytes(): number {
    return this.#measure();
  }
  /** After bytes were added to the stream. */
  arrived(stream: ServerHttp2Stream): void {
    const length = stream.readableLength;
    if (length < NOTED_BYTES) return;
    this.#bytes += length - (this.#noted.get(stream) ?? 0);
    this.#noted.set(stream, length);
    while (this.#bytes > this.#bytesMax && this.#measure() > this.#bytesMax) {
      let largest: ServerHttp2Stream | undefined;
      for (const [one, held] of this.#noted) if (largest === undefined || held > (this.#noted.get(largest) as number)) largest = one;
      if (largest === undefined) return;
      this.closed(largest);
      this.#giveUp(largest);
    }
  }
  closed(stream: ServerHttp2Stream): void {
    this.#bytes -= this.#noted.get(stream) ?? 0;
    this.#noted.delete(stream);
  }

  #measure(): number {
    for (const [stream, held] of this.#noted) {
      const length = stream.readableLength;
      this.#bytes += length - held;
      if (length < NOTED_BYTES) {
        this.#bytes -= length;
        this.#noted.delete(stream);
      } else this.#noted.set(stream, length);
    }
    return this.#bytes;
  }
}
