import { FrameType } from "../frame.ts";
import { emptyCodec, malformed, need, readOffset, type Codec } from "./codec.ts";

/**
 * credit: how far the sender of credited frames may go. Cumulative, so that a lost count cannot be.
 *
 *   0   f64  released: bytes of credited frames that the receiver has released since the link began;
 *            the peer may have sent `released + window` of its hello
 */
export interface CreditMessage {
  released: number;
}
export const creditCodec: Codec<CreditMessage> = {
  type: FrameType.credit,
  create: () => ({ released: 0 }),
  size: () => 8,
  encode(m, view, at) {
    view.setFloat64(at, m.released, true);
  },
  decode(frame, into) {
    need(frame, 8, "credit");
    into.released = readOffset(frame.view, frame.headerAt, "credit.released");
    if (into.released < 0) throw malformed("credit: negative");
    return into;
  },
};

/**
 * error: about the frame with the same correlation, or (flag 1) about the link, which closes. The layout is the same in every version.
 *
 *   0   u16  code: a number of the error catalogue
 *   2   u8   type of the frame that it answers; 0 = none
 *   3   u8   0
 *   payload  message, UTF-8, at most ERROR_MESSAGE_BYTES_MAX
 */
export interface ErrorMessage {
  code: number;
  aboutType: number;
}
export const ERROR_FLAG_CLOSING = 1;
export const ERROR_MESSAGE_BYTES_MAX = 1024;
export const errorCodec: Codec<ErrorMessage> = {
  type: FrameType.error,
  create: () => ({ code: 99, aboutType: 0 }),
  size: () => 4,
  encode(m, view, at) {
    view.setUint16(at, m.code, true);
    view.setUint8(at + 2, m.aboutType);
    view.setUint8(at + 3, 0);
  },
  decode(frame, into) {
    need(frame, 4, "error");
    into.code = frame.view.getUint16(frame.headerAt, true);
    into.aboutType = frame.view.getUint8(frame.headerAt + 2);
    return into;
  },
};

/** ping and pong: no fields. Ping with flag 1 asks the peer to send withheld credit at once; a pong answers a ping without it. */
export const PING_FLAG_WANT_CREDIT = 1;
export const pingCodec = emptyCodec(FrameType.ping);
export const pongCodec = emptyCodec(FrameType.pong);
