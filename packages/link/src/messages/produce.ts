import { errorCatalogue, errorCodeOf } from "@sluice/core/model";
import { EMPTY, FrameType } from "../frame.ts";
import { need, readOffset, type Codec } from "./codec.ts";
import { readAnnotations, readTagged, writeBytes } from "./tagged.ts";
import { uuidCache, writeUuid } from "./uuid.ts";

/**
 * produce: proxy to broker, log link. Payload: one whole batch, or several without producer ids
 * (core/log `validateRun`), which are taken or refused together.
 * Answered by `produced` with the same correlation.
 *
 *   0   16   topic id
 *   16  u32  partition
 *   20  f64  expected base offset, -1 none (conditional append)
 *   28  f64  fence token, -1 none
 *   36  u32  milliseconds that the caller still waits; 0 = no deadline given
 *   40  u32  flags, none yet: 0
 *   44       annotations
 */
export interface ProduceMessage {
  topicId: string;
  partition: number;
  expectedBaseOffset: number;
  fenceToken: number;
  deadlineMs: number;
  flags: number;
  annotations: Uint8Array;
}
const PRODUCE_FIXED = 44;

export const produceCodec: Codec<ProduceMessage> = {
  type: FrameType.produce,
  create: () => ({
    topicId: "00000000-0000-0000-0000-000000000000",
    partition: 0,
    expectedBaseOffset: -1,
    fenceToken: -1,
    deadlineMs: 0,
    flags: 0,
    annotations: EMPTY,
  }),
  size: (m) => PRODUCE_FIXED + m.annotations.length,
  encode(m, view, at) {
    writeUuid(view, at, m.topicId);
    view.setUint32(at + 16, m.partition, true);
    view.setFloat64(at + 20, m.expectedBaseOffset, true);
    view.setFloat64(at + 28, m.fenceToken, true);
    view.setUint32(at + 36, m.deadlineMs, true);
    view.setUint32(at + 40, m.flags, true);
    writeBytes(view, at + PRODUCE_FIXED, m.annotations);
  },
  decode(frame, into) {
    need(frame, PRODUCE_FIXED, "produce");
    const { view, headerAt: at } = frame;
    into.topicId = uuidCache.read(view, at);
    into.partition = view.getUint32(at + 16, true);
    into.expectedBaseOffset = readOffset(view, at + 20, "produce.expectedBaseOffset");
    into.fenceToken = readOffset(view, at + 28, "produce.fenceToken");
    into.deadlineMs = view.getUint32(at + 36, true);
    into.flags = view.getUint32(at + 40, true);
    into.annotations = readAnnotations(frame, PRODUCE_FIXED, "produce");
    return into;
  },
};

/**
 * produced: the answer.
 *
 *   0   u16  code: 0 = durable on two nodes; else a number of the catalogue, which also says whether a retry helps
 *   2   u16  0
 *   4   u32  throttle, milliseconds
 *   8   f64  base offset, -1 when refused
 *   16  f64  last offset, -1 when refused
 *   24  f64  log append time, ms since 1970; -1 when the topic keeps create time
 *   32  f64  log start offset, -1 unknown
 *   40       tagged fields: 1 = owner hint (member id, UTF-8, at most 64 bytes) with NOT_OWNER;
 *            2 = u16 code of what a batch waited for, with TIMED_OUT
 */
export interface ProducedMessage {
  code: number;
  throttleMs: number;
  baseOffset: number;
  lastOffset: number;
  logAppendTimeMs: number;
  logStart: number;
  /** "" = none. */
  ownerHint: string;
  /** 0 = none. */
  cause: number;
}
const PRODUCED_FIXED = 40;
const TAG_OWNER_HINT = 1;
const TAG_CAUSE = 2;
const CAUSE_BYTES = 4;
const OWNER_HINT_BYTES_MAX = 64;
const utf8 = new TextEncoder();
const utf8In = new TextDecoder();

/** Whether a `produced.code` says that a retry can help. */
export const producedRetriable = (code: number): boolean => code !== 0 && errorCatalogue[errorCodeOf(code)].retriable;

const hintBytes = (hint: string): Uint8Array => (hint === "" ? EMPTY : utf8.encode(hint).subarray(0, OWNER_HINT_BYTES_MAX));

export const producedCodec: Codec<ProducedMessage> = {
  type: FrameType.produced,
  create: () => ({ code: 0, throttleMs: 0, baseOffset: -1, lastOffset: -1, logAppendTimeMs: -1, logStart: -1, ownerHint: "", cause: 0 }),
  size: (m) => PRODUCED_FIXED + (m.cause === 0 ? 0 : CAUSE_BYTES) + (m.ownerHint === "" ? 0 : 2 + hintBytes(m.ownerHint).length),
  encode(m, view, at) {
    view.setUint16(at, m.code, true);
    view.setUint16(at + 2, 0, true);
    view.setUint32(at + 4, m.throttleMs, true);
    view.setFloat64(at + 8, m.baseOffset, true);
    view.setFloat64(at + 16, m.lastOffset, true);
    view.setFloat64(at + 24, m.logAppendTimeMs, true);
    view.setFloat64(at + 32, m.logStart, true);
    let pos = at + PRODUCED_FIXED;
    if (m.cause !== 0) {
      view.setUint8(pos, TAG_CAUSE);
      view.setUint8(pos + 1, 2);
      view.setUint16(pos + 2, m.cause, true);
      pos += CAUSE_BYTES;
    }
    if (m.ownerHint === "") return;
    const hint = hintBytes(m.ownerHint);
    view.setUint8(pos, TAG_OWNER_HINT);
    view.setUint8(pos + 1, hint.length);
    writeBytes(view, pos + 2, hint);
  },
  decode(frame, into) {
    need(frame, PRODUCED_FIXED, "produced");
    const { view, headerAt: at } = frame;
    into.code = view.getUint16(at, true);
    into.throttleMs = view.getUint32(at + 4, true);
    into.baseOffset = readOffset(view, at + 8, "produced.baseOffset");
    into.lastOffset = readOffset(view, at + 16, "produced.lastOffset");
    into.logAppendTimeMs = readOffset(view, at + 24, "produced.logAppendTime");
    into.logStart = readOffset(view, at + 32, "produced.logStart");
    into.ownerHint = "";
    into.cause = 0;
    if (frame.headerEnd > at + PRODUCED_FIXED)
      readTagged(view, at + PRODUCED_FIXED, frame.headerEnd, "produced", (tag, from, end) => {
        if (tag === TAG_CAUSE && end - from === 2) into.cause = view.getUint16(from, true);
        if (tag !== TAG_OWNER_HINT) return;
        into.ownerHint = utf8In.decode(new Uint8Array(view.buffer, view.byteOffset + from, end - from));
      });
    return into;
  },
};
