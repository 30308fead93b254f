import { EMPTY, FrameType } from "../frame.ts";
import { emptyCodec, malformed, need, readEpoch, readOffset, type Codec } from "./codec.ts";
import { readAnnotations, writeBytes } from "./tagged.ts";
import { uuidCache, writeUuid } from "./uuid.ts";

/**
 * subscribe: proxy to broker, log link. The frame's correlation is the subscription number, chosen by the proxy, unique on its link.
 *
 *   0   16   topic id
 *   16  u32  partition
 *   20  f64  from offset: the first that the proxy lacks; -1 = the high watermark of now
 *   28       tagged fields, none yet
 */
export interface SubscribeMessage {
  topicId: string;
  partition: number;
  fromOffset: number;
}
const SUBSCRIBE_FIXED = 28;

export const subscribeCodec: Codec<SubscribeMessage> = {
  type: FrameType.subscribe,
  create: () => ({ topicId: "00000000-0000-0000-0000-000000000000", partition: 0, fromOffset: -1 }),
  size: () => SUBSCRIBE_FIXED,
  encode(m, view, at) {
    writeUuid(view, at, m.topicId);
    view.setUint32(at + 16, m.partition, true);
    view.setFloat64(at + 20, m.fromOffset, true);
  },
  decode(frame, into) {
    need(frame, SUBSCRIBE_FIXED, "subscribe");
    if (frame.correlation === 0) throw malformed("subscribe: no subscription number");
    const { view, headerAt: at } = frame;
    into.topicId = uuidCache.read(view, at);
    into.partition = view.getUint32(at + 16, true);
    into.fromOffset = readOffset(view, at + 20, "subscribe.fromOffset");
    return into;
  },
};

/** unsubscribe: no fields; the correlation is the subscription number. Tail frames on their way may still arrive. */
export const unsubscribeCodec = emptyCodec(FrameType.unsubscribe);

/**
 * tail: broker to proxy. Correlation = subscription number. Payload: committed batches from `firstOffset` on; empty when only marks moved.
 *
 *   0   u32  epoch of the owner, of the segment
 *   4   u32  k of the segment
 *   8   f64  base of the segment
 *   16  f64  first offset of the payload (the next one expected when empty)
 *   24  f64  high watermark: the next offset after the last committed record
 *   32  f64  last stable offset
 *   40  f64  log start offset
 *   48  u16  code: 0, or why the subscription ended here (a number of the catalogue; NOT_OWNER = moved, SHUTTING_DOWN,
 *                OFFSET_OUT_OF_RANGE ...)
 *   50  u16  0
 *   52       annotations
 */
export interface TailMessage {
  epoch: number;
  segmentK: number;
  segmentBase: number;
  firstOffset: number;
  highWatermark: number;
  lastStableOffset: number;
  logStart: number;
  code: number;
  annotations: Uint8Array;
}
const TAIL_FIXED = 52;

export const tailCodec: Codec<TailMessage> = {
  type: FrameType.tail,
  create: () => ({
    epoch: 0,
    segmentK: 0,
    segmentBase: 0,
    firstOffset: 0,
    highWatermark: 0,
    lastStableOffset: 0,
    logStart: 0,
    code: 0,
    annotations: EMPTY,
  }),
  size: (m) => TAIL_FIXED + m.annotations.length,
  encode(m, view, at) {
    view.setUint32(at, m.epoch, true);
    view.setUint32(at + 4, m.segmentK, true);
    view.setFloat64(at + 8, m.segmentBase, true);
    view.setFloat64(at + 16, m.firstOffset, true);
    view.setFloat64(at + 24, m.highWatermark, true);
    view.setFloat64(at + 32, m.lastStableOffset, true);
    view.setFloat64(at + 40, m.logStart, true);
    view.setUint16(at + 48, m.code, true);
    view.setUint16(at + 50, 0, true);
    writeBytes(view, at + TAIL_FIXED, m.annotations);
  },
  decode(frame, into) {
    need(frame, TAIL_FIXED, "tail");
    const { view, headerAt: at } = frame;
    into.epoch = readEpoch(view, at, "tail.epoch");
    into.segmentK = view.getUint32(at + 4, true);
    into.segmentBase = readOffset(view, at + 8, "tail.segmentBase");
    into.firstOffset = readOffset(view, at + 16, "tail.firstOffset");
    into.highWatermark = readOffset(view, at + 24, "tail.highWatermark");
    into.lastStableOffset = readOffset(view, at + 32, "tail.lastStableOffset");
    into.logStart = readOffset(view, at + 40, "tail.logStart");
    into.code = view.getUint16(at + 48, true);
    into.annotations = readAnnotations(frame, TAIL_FIXED, "tail");
    return into;
  },
};
