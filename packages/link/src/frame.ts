import { limits } from "@sluice/core/model";
import { PayloadHold, type Slab } from "./slab.ts";

/**
 * The frame of the data link. Little-endian. Numbers below are on the wire for ever.
 *
 *   bytes  field
 *   4      length         of the rest (8 + header + payload); checked before anything is allocated
 *   1      type           FrameType
 *   1      flags          per type
 *   2      header length  h, at most linkHeaderBytesMax
 *   4      correlation    request or subscription number; 0 = none
 *   h      header         fixed struct of the type, then optional tagged fields
 *   n      payload        opaque batches
 */
export const FRAME_HEAD_BYTES = 12;
/** What `length` counts besides header and payload. */
export const FRAME_REST_BYTES = 8;

export const FrameType = {
  hello: 1,
  append: 2,
  appended: 3,
  read: 4,
  data: 5,
  subscribe: 6,
  unsubscribe: 7,
  tail: 8,
  produce: 9,
  produced: 10,
  credit: 11,
  error: 12,
  ping: 13,
  pong: 14,
  proof: 15,
} as const;
export type FrameTypeNumber = (typeof FrameType)[keyof typeof FrameType];
export const FRAME_TYPE_MAX = 15;

/** Names by number, for messages and metrics. */
export const frameTypeName = (type: number): string => {
  for (const [name, number] of Object.entries(FrameType)) if (number === type) return name;
  return `type ${type}`;
};

/**
 * Frames that need the receiver's credit. The others are answers bounded by their requests, or a few bytes of control:
 * they pass a queue that waits for credit.
 */
const needsCredit = new Uint8Array(256);
for (const type of [
  FrameType.append,
  FrameType.read,
  FrameType.data,
  FrameType.subscribe,
  FrameType.unsubscribe,
  FrameType.tail,
  FrameType.produce,
])
  needsCredit[type] = 1;
export const isCredited = (type: number): boolean => needsCredit[type] === 1;

/**
 * A received frame. The object is reused for the next frame: read it during the callback. `payload` stays valid (it is a view of a slab
 * or an own copy), and is never written again by the link, unless it was claimed (`claimPayload`).
 */
export interface Frame {
  type: number;
  flags: number;
  correlation: number;
  /** Header bytes: `view` from `headerAt` to `headerEnd`. */
  view: DataView;
  headerAt: number;
  headerEnd: number;
  payload: Uint8Array;
  /** Bytes to give back with `link.release` once the frame's payload is done with; 0 for frames that need no credit. */
  creditBytes: number;
  /** Where the payload lies; undefined = an own copy, or none. Of the link. */
  slab: Slab | undefined;
  claimed: boolean;
}

/**
 * The receiver's promise to say when it is done with the payload: the link then reads other frames into the same memory. Once a frame, during its
 * callback. Only for receivers that know every place where the payload goes.
 */
export function claimPayload(frame: Frame): PayloadHold {
  frame.claimed = true;
  return frame.slab === undefined ? new PayloadHold(undefined) : frame.slab.claim();
}

/** What a frame carries behind its header: one piece, or several that follow each other. */
export type Payload = Uint8Array | readonly Uint8Array[];
export const inPieces = (payload: Payload): payload is readonly Uint8Array[] => Array.isArray(payload);
export function payloadLength(payload: Payload): number {
  if (!inPieces(payload)) return payload.length;
  let sum = 0;
  for (const piece of payload) sum += piece.length;
  return sum;
}

export const EMPTY = new Uint8Array(0);
const emptyView = new DataView(new ArrayBuffer(0));
export const newFrame = (): Frame => ({
  type: 0,
  flags: 0,
  correlation: 0,
  view: emptyView,
  headerAt: 0,
  headerEnd: 0,
  payload: EMPTY,
  creditBytes: 0,
  slab: undefined,
  claimed: false,
});

/** Writes the 12 bytes at `at`. */
export function encodeFrameHead(
  view: DataView,
  at: number,
  type: number,
  flags: number,
  headerBytes: number,
  payloadBytes: number,
  correlation: number,
): void {
  view.setUint32(at, FRAME_REST_BYTES + headerBytes + payloadBytes, true);
  view.setUint8(at + 4, type);
  view.setUint8(at + 5, flags);
  view.setUint16(at + 6, headerBytes, true);
  view.setUint32(at + 8, correlation, true);
}

/** The payload bytes that fit in one frame whatever its header. */
export const framePayloadBytesMax = limits.linkFrameBytesMax - FRAME_HEAD_BYTES - limits.linkHeaderBytesMax;
