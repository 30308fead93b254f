import { SluiceError } from "@sluice/core/model";
import { FRAME_LENGTH_BYTES, REQUEST_PREFIX_BYTES } from "@sluice/kafka-wire";
import { allocateBuffer } from "@sluice/runtime/buffer-gc";
import { kafkaLimits } from "./limits.ts";

const PRODUCE_KEY = 0;
const GROWTH = 2;

/**
 * Requests out of the chunks of a socket: [int32 length][request]. Each comes out as a copy, so that the chunk is free again when `push` returns; one
 * that spans chunks is put together in a buffer that grows with what has really come:
 *
 *   chunk    [.. request ][ request ][ start of a large one ]
 *                                      └─ copied ─► [ ............      ]  length known, memory at most twice what came
 *
 * The length is checked as soon as the API is known: only Produce may be large.
 */
export class KafkaFrameReader {
  readonly #onFrame: (frame: Uint8Array) => void;
  readonly #onLarge: (bytes: number) => void;
  readonly #mayGoOn: () => boolean;
  /** Of the frame under way, its length field included. */
  #partial: Buffer = Buffer.alloc(0);
  #filled = 0;
  #needed = 0;
  #announced = false;

  /**
   * `onLarge`: a frame over `smallFrameBytesMax` has begun; the reader goes on all the same, it is for the caller to stop reading.
   * `mayGoOn`, asked before each frame after the first of a chunk: false = the rest of the chunk is left to the caller.
   */
  constructor(onFrame: (frame: Uint8Array) => void, onLarge: (bytes: number) => void, mayGoOn: () => boolean = () => true) {
    this.#mayGoOn = mayGoOn;
    this.#onFrame = onFrame;
    this.#onLarge = onLarge;
  }
  /** Part of a frame is here. */
  get begun(): boolean {
    return this.#filled > 0;
  }

  /**
   * Returns how many bytes were taken: all, unless `mayGoOn` said no; the others come with the next call. Throws FRAME_TOO_LARGE,
   * MALFORMED_FRAME; nothing more comes out then.
   */
  push(chunk: Buffer): number {
    let at = 0;
    if (this.#filled > 0) at = this.#fill(chunk);
    while (this.#filled === 0 && at < chunk.length) {
      if (at > 0 && !this.#mayGoOn()) return at;
      const have = chunk.length - at;
      const length = have < FRAME_LENGTH_BYTES ? 0 : checkLength(chunk, at, have);
      if (length === 0 || have < length) {
        this.#begin(chunk, at, length);
        return chunk.length;
      }
      this.#emit(chunk.subarray(at + FRAME_LENGTH_BYTES, at + length));
      at += length;
    }
    return at;
  }

  #begin(chunk: Buffer, at: number, length: number): void {
    const have = chunk.length - at;
    this.#needed = length;
    this.#announced = false;
    this.#partial = allocateBuffer(Math.max(have, Math.min(length, kafkaLimits.unprovenFrameBytes), REQUEST_PREFIX_BYTES));
    chunk.copy(this.#partial, 0, at);
    this.#filled = have;
    this.#announce();
  }
  /** Adds to the frame under way; returns how much of the chunk it took. */
  #fill(chunk: Buffer): number {
    let at = 0;
    while (at < chunk.length) {
      // Only the length field, or the API with it, tells how long the frame is and may be.
      const target = this.#filled < REQUEST_PREFIX_BYTES && this.#needed === 0 ? FRAME_LENGTH_BYTES : this.#needed;
      const take = Math.min(chunk.length - at, target - this.#filled);
      this.#reserve(this.#filled + take);
      chunk.copy(this.#partial, this.#filled, at, at + take);
      this.#filled += take;
      at += take;
      if (this.#filled >= FRAME_LENGTH_BYTES) this.#needed = checkLength(this.#partial, 0, this.#filled);
      this.#announce();
      if (this.#needed > 0 && this.#filled === this.#needed) {
        const frame = this.#partial.subarray(FRAME_LENGTH_BYTES, this.#needed);
        this.#partial = Buffer.alloc(0);
        this.#filled = 0;
        this.#onFrame(frame);
        return at;
      }
    }
    return at;
  }
  #announce(): void {
    if (this.#announced || this.#needed <= kafkaLimits.smallFrameBytesMax) return;
    this.#announced = true;
    this.#onLarge(this.#needed);
  }
  #reserve(bytes: number): void {
    if (bytes <= this.#partial.length) return;
    const grown = allocateBuffer(Math.max(bytes, Math.min(this.#needed, this.#partial.length * GROWTH)));
    this.#partial.copy(grown, 0, 0, this.#filled);
    this.#partial = grown;
  }
  #emit(frame: Buffer): void {
    // Small ones out of the pool of Node.js, large ones in memory of their own: they may live for as long as the request.
    const copy = frame.length < kafkaLimits.pooledBytesMax ? Buffer.allocUnsafe(frame.length) : allocateBuffer(frame.length);
    frame.copy(copy);
    this.#onFrame(copy);
  }
}

/** Length of the frame at `at` with its length field, as far as `have` bytes tell what it may be. */
function checkLength(bytes: Buffer, at: number, have: number): number {
  const length = bytes.readInt32BE(at);
  const isProduce = have < FRAME_LENGTH_BYTES + 2 || bytes.readInt16BE(at + FRAME_LENGTH_BYTES) === PRODUCE_KEY;
  const limit = isProduce ? kafkaLimits.produceRequestBytesMax : kafkaLimits.requestBytesMax;
  if (length > limit) throw new SluiceError("FRAME_TOO_LARGE", `a request of ${length} bytes, limit ${limit}`);
  if (length < REQUEST_PREFIX_BYTES) throw new SluiceError("MALFORMED_FRAME", `a request of ${length} bytes has no header`);
  return length + FRAME_LENGTH_BYTES;
}
