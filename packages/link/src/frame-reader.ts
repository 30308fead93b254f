import { limits, SluiceError } from "@sluice/core/model";
import { EMPTY, FRAME_HEAD_BYTES, FRAME_REST_BYTES, isCredited, newFrame, type Frame } from "./frame.ts";
import { slabPool, type Slab, type SlabPool } from "./slab.ts";

/** First slab of a connection, enough for a hello; the following are `limits.slabBytes`, more for large frames. */
const FIRST_SLAB_BYTES = limits.linkPreHelloFrameBytesMax;
/** A slab with less room than this is left: short reads cost more than its rest. */
const READ_BYTES_MIN = 64 * 1024;
/** Slabs grow to a few frames of the size seen last, up to this: a frame at the border of slabs is copied. */
const SLAB_BYTES_MAX = 4 * limits.slabBytes;
const FRAMES_PER_SLAB = 4;
/** Memory for a frame that only announced its size: this much, or GROWTH times what has really come. */
const UNPROVEN_BYTES_MAX = 2 * limits.slabBytes;
const GROWTH = 4;
/** Where the bytes of a reader that has stopped go: nobody reads them, and the slab holds payloads that others still use. */
const DISCARDED = Buffer.allocUnsafeSlow(64 * 1024);

/**
 * Reads frames out of slabs. The socket puts bytes straight into `target()` and reports them with `advance`; frames come out as views:
 *
 *   slab   [ frames given out ... | start of a frame      | free ]
 *                                 ^parseAt                ^filled
 *
 * When the frame under way does not fit in the rest of the slab, its beginning (alone) is copied to the front of another slab. Old
 * slabs live as long as views of them (slab.ts). Lengths are checked before memory is taken, and memory is at most
 * UNPROVEN_BYTES_MAX ahead of what was received.
 */
export class FrameReader {
  readonly #pool: SlabPool;
  #current: Slab;
  #slab: Buffer;
  #view: DataView;
  #parseAt = 0;
  #filled = 0;
  /** Bytes of the frame under way, head included. */
  #needed = FRAME_HEAD_BYTES;
  #lastFrameBytes = 0;
  #frameBytesMax: number = limits.linkPreHelloFrameBytesMax;
  #stopped = false;
  readonly #frame: Frame = newFrame();
  readonly #onFrame: (frame: Frame, bytes: number) => void;

  constructor(onFrame: (frame: Frame, bytes: number) => void, pool: SlabPool = slabPool) {
    this.#onFrame = onFrame;
    this.#pool = pool;
    this.#current = pool.take(FIRST_SLAB_BYTES);
    this.#slab = this.#current.buffer;
    this.#view = this.#current.view;
  }
  /** After the hello: frames up to the full limit. */
  allowFullFrames(): void {
    this.#frameBytesMax = limits.linkFrameBytesMax;
  }
  /** No frame comes out any more; bytes are thrown away. */
  stop(): void {
    this.#stopped = true;
  }
  /** Where the next bytes go. Valid until the next call. */
  target(): Buffer {
    if (this.#stopped) return DISCARDED;
    const partial = this.#filled - this.#parseAt;
    const fits = this.#parseAt + this.#needed <= this.#slab.length;
    const room = this.#slab.length - this.#filled;
    if (!fits || (partial === 0 && room < READ_BYTES_MIN && this.#filled > 0) || room === 0) this.#rotate(partial);
    return this.#slab.subarray(this.#filled);
  }
  /**
   * `bytes` were put at the start of the last target. Throws SluiceError (FRAME_TOO_LARGE, MALFORMED_FRAME); the caller stops
   * reading then.
   */
  advance(bytes: number): void {
    if (this.#stopped) return;
    this.#filled += bytes;
    while (this.#filled - this.#parseAt >= FRAME_HEAD_BYTES) {
      const bytesOfFrame = this.#checkHead();
      if (this.#filled - this.#parseAt < bytesOfFrame) {
        this.#needed = bytesOfFrame;
        return;
      }
      this.#emit(bytesOfFrame);
      if (this.#stopped) return;
    }
    this.#needed = FRAME_HEAD_BYTES;
  }
  /** For sockets that bring their own buffers: copies `chunk` in. */
  push(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length && !this.#stopped;) {
      const target = this.target();
      const n = Math.min(target.length, chunk.length - at);
      target.set(n === chunk.length ? chunk : chunk.subarray(at, at + n));
      at += n;
      this.advance(n);
    }
  }

  #checkHead(): number {
    const length = this.#view.getUint32(this.#parseAt, true);
    if (length > this.#frameBytesMax - 4)
      throw new SluiceError("FRAME_TOO_LARGE", `frame of ${length + 4} bytes, limit ${this.#frameBytesMax}`);
    if (length < FRAME_REST_BYTES) throw new SluiceError("MALFORMED_FRAME", `frame length ${length} is under ${FRAME_REST_BYTES}`);
    const headerBytes = this.#view.getUint16(this.#parseAt + 6, true);
    if (headerBytes > limits.linkHeaderBytesMax)
      throw new SluiceError("FRAME_TOO_LARGE", `frame header of ${headerBytes} bytes, limit ${limits.linkHeaderBytesMax}`);
    if (headerBytes > length - FRAME_REST_BYTES) throw new SluiceError("MALFORMED_FRAME", "frame header is longer than its frame");
    return length + 4;
  }
  #emit(bytes: number): void {
    const at = this.#parseAt;
    const view = this.#view;
    const frame = this.#frame;
    frame.type = view.getUint8(at + 4);
    frame.flags = view.getUint8(at + 5);
    frame.correlation = view.getUint32(at + 8, true);
    frame.view = view;
    frame.headerAt = at + FRAME_HEAD_BYTES;
    frame.headerEnd = frame.headerAt + view.getUint16(at + 6, true);
    frame.creditBytes = isCredited(frame.type) ? bytes : 0;
    const end = at + bytes;
    const payloadBytes = end - frame.headerEnd;
    const slab = payloadBytes >= limits.slabViewBytesMin ? this.#current : undefined;
    frame.slab = slab;
    frame.claimed = false;
    if (payloadBytes === 0) frame.payload = EMPTY;
    else if (slab !== undefined) frame.payload = this.#slab.subarray(frame.headerEnd, end);
    else {
      const copy = Buffer.allocUnsafe(payloadBytes);
      this.#slab.copy(copy, 0, frame.headerEnd, end);
      frame.payload = copy;
    }
    this.#lastFrameBytes = bytes;
    this.#parseAt = end;
    try {
      this.#onFrame(frame, bytes);
    } finally {
      if (!frame.claimed) slab?.leave();
      // Nobody finds bytes here that may be written again.
      frame.payload = EMPTY;
    }
  }
  #rotate(partial: number): void {
    const proven = Math.max(UNPROVEN_BYTES_MAX, partial * GROWTH);
    const wanted = Math.max(limits.slabBytes, Math.min(SLAB_BYTES_MAX, powerOfTwo(this.#lastFrameBytes * FRAMES_PER_SLAB)));
    const before = this.#current;
    const size = Math.max(wanted, Math.min(this.#needed, proven));
    // A size that is found again, where the frame's own bytes have earned the rest.
    const next = this.#pool.take(powerOfTwo(size) <= Math.max(wanted, proven) ? powerOfTwo(size) : size);
    this.#slab.copy(next.buffer, 0, this.#parseAt, this.#filled);
    this.#current = next;
    this.#slab = next.buffer;
    this.#view = next.view;
    this.#parseAt = 0;
    this.#filled = partial;
    before.retire();
  }
}
/** The next one: few sizes, so that slabs are found again in the pool. */
const powerOfTwo = (bytes: number): number => 2 ** Math.ceil(Math.log2(bytes));
