import { allocateBuffer } from "@sluice/runtime/buffer-gc";
import { limits } from "@sluice/core/model";
import { EMPTY, encodeFrameHead, FRAME_HEAD_BYTES, inPieces, payloadLength, type Payload } from "./frame.ts";
import type { Codec } from "./messages/codec.ts";
import type { Hold } from "./slab.ts";

/** Headers and small payloads of a turn are written one after the other into one piece of memory. */
const ARENA_BYTES = 32 * 1024;
/** Payloads up to this are copied behind their header: cheaper than one more buffer in the write. */
const COPY_BYTES_MAX = 1024;

/**
 * The frames of a turn as a list of buffers for one `writev`:
 *
 *   [head h head h head h] [payload] [head h] [payload] ...
 *    one run of the arena
 *
 * The arena's memory is never written twice: the socket may still hold it.
 */
export class Outbox {
  #arena = Buffer.allocUnsafeSlow(ARENA_BYTES);
  #view = new DataView(this.#arena.buffer);
  #at = 0;
  #runStart = 0;
  readonly chunks: Uint8Array[] = [];
  /** What the socket must be done with before it is released. */
  holds: Hold[] = [];
  bytes = 0;
  frames = 0;

  /** Bytes that the frame takes on the wire. */
  put<T>(codec: Codec<T>, flags: number, correlation: number, message: Readonly<T>, headerBytes: number, payload: Payload): void {
    const payloadBytes = payloadLength(payload);
    this.#room(FRAME_HEAD_BYTES + headerBytes + (payloadBytes <= COPY_BYTES_MAX ? payloadBytes : 0));
    const at = this.#at;
    encodeFrameHead(this.#view, at, codec.type, flags, headerBytes, payloadBytes, correlation);
    codec.encode(message, this.#view, at + FRAME_HEAD_BYTES);
    this.#finish(FRAME_HEAD_BYTES + headerBytes, payload, payloadBytes);
  }
  /** A frame whose head and header were encoded before. */
  putEncoded(head: Uint8Array, payload: Payload): void {
    const payloadBytes = payloadLength(payload);
    this.#room(head.length + (payloadBytes <= COPY_BYTES_MAX ? payloadBytes : 0));
    this.#arena.set(head, this.#at);
    this.#finish(head.length, payload, payloadBytes);
  }
  /** The frame that was put last has its payload in memory that waits for the socket. */
  holdUntilWritten(hold: Hold): void {
    hold.retain();
    this.holds.push(hold);
  }
  /** Closes the open run; `chunks` is complete then. */
  seal(): void {
    if (this.#at === this.#runStart) return;
    this.chunks.push(this.#arena.subarray(this.#runStart, this.#at));
    this.#runStart = this.#at;
  }
  clear(): void {
    this.chunks.length = 0;
    this.bytes = 0;
    this.frames = 0;
    this.holds = [];
  }

  #finish(headBytes: number, payload: Payload, payloadBytes: number): void {
    this.#at += headBytes;
    const copies = payloadBytes <= COPY_BYTES_MAX;
    if (!copies) this.seal();
    if (!inPieces(payload)) this.#add(payload, copies);
    else for (const piece of payload) this.#add(piece, copies);
    this.bytes += headBytes + payloadBytes;
    this.frames++;
  }
  #add(piece: Uint8Array, copies: boolean): void {
    if (!copies) {
      this.chunks.push(piece);
      return;
    }
    this.#arena.set(piece, this.#at);
    this.#at += piece.length;
  }
  #room(bytes: number): void {
    if (this.#at + bytes <= this.#arena.length) return;
    this.seal();
    this.#arena = allocateBuffer(ARENA_BYTES);
    this.#view = new DataView(this.#arena.buffer);
    this.#at = 0;
    this.#runStart = 0;
  }
}

/** Encodes head and header of one frame into memory of its own, for a frame that waits. */
export function encodeHead<T>(codec: Codec<T>, flags: number, correlation: number, message: Readonly<T>, payloadBytes: number): Uint8Array {
  const headerBytes = codec.size(message);
  const head = Buffer.allocUnsafe(FRAME_HEAD_BYTES + headerBytes);
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  encodeFrameHead(view, 0, codec.type, flags, headerBytes, payloadBytes, correlation);
  codec.encode(message, view, FRAME_HEAD_BYTES);
  return head;
}
/** One whole frame in one buffer: for tests and tools. */
export function encodeFrame<T>(codec: Codec<T>, message: Readonly<T>, correlation = 0, payload: Uint8Array = EMPTY, flags = 0): Uint8Array {
  const head = encodeHead(codec, flags, correlation, message, payload.length);
  const out = new Uint8Array(head.length + payload.length);
  out.set(head);
  out.set(payload, head.length);
  return out;
}
export const frameFits = (headerBytes: number, payloadBytes: number): boolean =>
  headerBytes <= limits.linkHeaderBytesMax && FRAME_HEAD_BYTES + headerBytes + payloadBytes <= limits.linkFrameBytesMax;
