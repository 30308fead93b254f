import { FrameType } from "../frame.ts";
import { malformed, need, readEpoch, readOffset, type Codec } from "./codec.ts";
import { uuidCache, writeUuid } from "./uuid.ts";

/**
 * read: proxy to storage node, bulk link; answered by `data` with the same correlation. Values as `ReadRequest` of core/replica.
 *
 *   0   16   topic id
 *   16  u32  partition
 *   20  u32  segment epoch
 *   24  u32  segment k
 *   28  u32  most bytes of payload wanted (one larger batch may come alone)
 *   32  f64  from offset
 *   40  f64  last committed offset (inclusive) known to the reader, -1 none
 *   48  i32  epoch of the segment that it was published for, -1 none
 *   52       tagged fields, none yet
 */
export interface ReadMessage {
  topicId: string;
  partition: number;
  segmentEpoch: number;
  segmentK: number;
  maxBytes: number;
  from: number;
  highWatermark: number;
  highWatermarkEpoch: number;
}
const READ_FIXED = 52;
const NIL = "00000000-0000-0000-0000-000000000000";

export const readCodec: Codec<ReadMessage> = {
  type: FrameType.read,
  create: () => ({
    topicId: NIL,
    partition: 0,
    segmentEpoch: 0,
    segmentK: 0,
    maxBytes: 0,
    from: 0,
    highWatermark: -1,
    highWatermarkEpoch: -1,
  }),
  size: () => READ_FIXED,
  encode(m, view, at) {
    writeUuid(view, at, m.topicId);
    view.setUint32(at + 16, m.partition, true);
    view.setUint32(at + 20, m.segmentEpoch, true);
    view.setUint32(at + 24, m.segmentK, true);
    view.setUint32(at + 28, m.maxBytes, true);
    view.setFloat64(at + 32, m.from, true);
    view.setFloat64(at + 40, m.highWatermark, true);
    view.setInt32(at + 48, m.highWatermarkEpoch, true);
  },
  decode(frame, into) {
    need(frame, READ_FIXED, "read");
    const { view, headerAt: at } = frame;
    into.topicId = uuidCache.read(view, at);
    into.partition = view.getUint32(at + 16, true);
    into.segmentEpoch = readEpoch(view, at + 20, "read.segmentEpoch");
    into.segmentK = view.getUint32(at + 24, true);
    into.maxBytes = view.getUint32(at + 28, true);
    into.from = readOffset(view, at + 32, "read.from");
    into.highWatermark = readOffset(view, at + 40, "read.highWatermark");
    into.highWatermarkEpoch = view.getInt32(at + 48, true);
    if (into.from < 0 || into.highWatermarkEpoch < -1) throw malformed("read: negative offset or epoch");
    return into;
  },
};

/**
 * data: the answer to read; the batches are the payload. Values as `ReadAnswer` of core/replica.
 *
 *   0   u16  code
 *   2   u8   1 = `limit` is the end of the sealed segment
 *   3   u8   0
 *   4   f64  limit: highest offset that the node may serve now; base - 1 when none
 *   12       tagged fields, none yet
 */
export interface DataMessage {
  code: number;
  sealed: boolean;
  limit: number;
}
const DATA_FIXED = 12;

export const dataCodec: Codec<DataMessage> = {
  type: FrameType.data,
  create: () => ({ code: 0, sealed: false, limit: -1 }),
  size: () => DATA_FIXED,
  encode(m, view, at) {
    view.setUint16(at, m.code, true);
    view.setUint8(at + 2, m.sealed ? 1 : 0);
    view.setUint8(at + 3, 0);
    view.setFloat64(at + 4, m.limit, true);
  },
  decode(frame, into) {
    need(frame, DATA_FIXED, "data");
    const { view, headerAt: at } = frame;
    into.code = view.getUint16(at, true);
    into.sealed = (view.getUint8(at + 2) & 1) === 1;
    into.limit = readOffset(view, at + 4, "data.limit");
    return into;
  },
};
