import { EMPTY, FrameType } from "../frame.ts";
import { malformed, need, readEpoch, readOffset, type Codec } from "./codec.ts";
import { readAnnotations, writeBytes } from "./tagged.ts";

/**
 * append: broker to storage node, log link. Values as `AppendRequest` of core/replica; the batches are the payload.
 *
 *   0   u32  segment number (the node's own)
 *   4   u32  epoch
 *   8   f64  base of the segment
 *   16  f64  first offset
 *   24  f64  last offset; first - 1 when the payload is empty
 *   32  f64  lac: highest committed offset, -1 none
 *   40  u32  barrier: echoed by the answer to an empty append; 0 otherwise
 *   44       annotations
 */
export interface AppendMessage {
  segmentNumber: number;
  epoch: number;
  base: number;
  firstOffset: number;
  lastOffset: number;
  lac: number;
  barrier: number;
  annotations: Uint8Array;
}
const FIXED = 44;

export const appendCodec: Codec<AppendMessage> = {
  type: FrameType.append,
  create: () => ({ segmentNumber: 0, epoch: 0, base: 0, firstOffset: 0, lastOffset: 0, lac: -1, barrier: 0, annotations: EMPTY }),
  size: (m) => FIXED + m.annotations.length,
  encode(m, view, at) {
    view.setUint32(at, m.segmentNumber, true);
    view.setUint32(at + 4, m.epoch, true);
    view.setFloat64(at + 8, m.base, true);
    view.setFloat64(at + 16, m.firstOffset, true);
    view.setFloat64(at + 24, m.lastOffset, true);
    view.setFloat64(at + 32, m.lac, true);
    view.setUint32(at + 40, m.barrier, true);
    writeBytes(view, at + FIXED, m.annotations);
  },
  decode(frame, into) {
    need(frame, FIXED, "append");
    const { view, headerAt: at } = frame;
    into.segmentNumber = view.getUint32(at, true);
    into.epoch = readEpoch(view, at + 4, "append.epoch");
    into.base = readOffset(view, at + 8, "append.base");
    into.firstOffset = readOffset(view, at + 16, "append.firstOffset");
    into.lastOffset = readOffset(view, at + 24, "append.lastOffset");
    into.lac = readOffset(view, at + 32, "append.lac");
    into.barrier = view.getUint32(at + 40, true);
    into.annotations = readAnnotations(frame, FIXED, "append");
    if (into.base < 0 || into.firstOffset < 0) throw malformed("append: negative offset");
    if (frame.payload.length === 0 ? into.lastOffset !== into.firstOffset - 1 : into.lastOffset < into.firstOffset)
      throw malformed("append: last offset does not fit the payload");
    return into;
  },
};
