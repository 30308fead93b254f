import { SluiceError } from "@sluice/core/model";
import type { Frame } from "../frame.ts";

/**
 * A message codec: the fixed struct of one frame type. `size` bytes are written at `at`; decoding fills a reusable object, so that a frame
 * costs no allocation. Decoding bad bytes throws MALFORMED_FRAME, which closes the link when it is thrown in a frame callback.
 */
export interface Codec<T> {
  /** FrameType number. */
  readonly type: number;
  create(): T;
  size(message: Readonly<T>): number;
  encode(message: Readonly<T>, view: DataView, at: number): void;
  /** Reads the header of `frame` into `into` and returns it. */
  decode(frame: Frame, into: T): T;
}

/** A message without fields. */
export interface EmptyMessage {
  readonly none?: undefined;
}
export const NO_FIELDS: EmptyMessage = {};
export const emptyCodec = (type: number): Codec<EmptyMessage> => ({
  type,
  create: () => NO_FIELDS,
  size: () => 0,
  encode() {},
  decode: (_frame, into) => into,
});

export const malformed = (what: string): SluiceError => new SluiceError("MALFORMED_FRAME", what);

/** Checks that the header holds the fixed struct. */
export function need(frame: Frame, bytes: number, name: string): void {
  if (frame.headerEnd - frame.headerAt < bytes)
    throw malformed(`${name}: header of ${frame.headerEnd - frame.headerAt} bytes, needs ${bytes}`);
}
/** An offset, mark or count as a double: an integer from -1 to 2^53 - 1. */
export function readOffset(view: DataView, at: number, name: string): number {
  const n = view.getFloat64(at, true);
  if (!Number.isSafeInteger(n) || n < -1) throw malformed(`${name}: not an offset`);
  return n;
}
/** An epoch: unsigned 31 bits. */
export function readEpoch(view: DataView, at: number, name: string): number {
  const n = view.getUint32(at, true);
  if (n > 0x7fff_ffff) throw malformed(`${name}: not an epoch`);
  return n;
}
