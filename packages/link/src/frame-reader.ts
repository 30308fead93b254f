import { limits, SluiceError } from "@sluice/core/model";
import { noteBufferAllocated } from "@sluice/runtime/buffer-gc";
import { EMPTY, FRAME_HEAD_BYTES, FRAME_REST_BYTES, isCredited, newFrame, type Frame } from "./frame.ts";

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

/**
 * Reads frames out of slabs. The socket puts bytes straight into `target()` and reports them with `advance`; frames come out as views:
 *
 *   slab   [ frames given out ... | start of a frame      | free ]
 *                                 ^parseAt                ^filled
 *
 * When the frame under way does not fit in the rest of the slab, its beginning (alone) is copied to the front of a new slab. Old
 * slabs live as long as views of them. Lengths are checked before memory is taken, and memory is at most
 * UNPROVEN_BYTES_MAX ahead of what was received.
 */
export class FrameReader {
  #slab = Buffer.allocUnsafeSlow(FIRST_SLAB_BYTES);
  #view = viewOf(this.#slab);
  #parseAt = 0;
  #filled = 0;
  /** Bytes of the frame under way, head included. */
  #needed = FRAME_HEAD_BYTES;
  #lastFrameBytes = 0;
  #frameBytesMax: number = limits.linkPreHelloFrameBytesMax;
  #stopped = false;
  readonly #frame: Frame = newFrame();
  readonly #onFrame: (frame: Frame, bytes: number) => void;

  constructor(onFrame: (frame: Frame, bytes: number) => void) {
    this.#onFrame = onFrame;
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
    if (this.#stopped) return this.#slab;
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
    if (payloadBytes === 0) frame.payload = EMPTY;
    else if (payloadBytes >= limits.slabViewBytesMin) frame.payload = this.#slab.subarray(frame.headerEnd, end);
    else {
      const copy = Buffer.allocUnsafe(payloadBytes);
      this.#slab.copy(copy, 0, frame.headerEnd, end);
      frame.payload = copy;
    }
    this.#lastFrameBytes = bytes;
    this.#parseAt = end;
    this.#onFrame(frame, bytes);
  }
  #rotate(partial: number): void {
    const proven = Math.max(UNPROVEN_BYTES_MAX, partial * GROWTH);
    const wanted = Math.max(limits.slabBytes, Math.min(SLAB_BYTES_MAX, this.#lastFrameBytes * FRAMES_PER_SLAB));
    const slab = Buffer.allocUnsafeSlow(Math.max(wanted, Math.min(this.#needed, proven)));
    noteBufferAllocated(slab.length);
    this.#slab.copy(slab, 0, this.#parseAt, this.#filled);
    this.#slab = slab;
    this.#view = viewOf(slab);
    this.#parseAt = 0;
    this.#filled = partial;
  }
}
const viewOf = (b: Buffer): DataView => new DataView(b.buffer, b.byteOffset, b.byteLength);
