import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { limits } from "@sluice/core/model";
import { encodeFrame, FrameReader, produceCodec } from "../src/index.ts";
import { topic } from "./support/context.ts";

const produce = { ...produceCodec.create(), topicId: topic };
const frameOf = (bytes: number, fill: number): Uint8Array => encodeFrame(produceCodec, produce, fill, new Uint8Array(bytes).fill(fill));
const openReader = (onFrame: ConstructorParameters<typeof FrameReader>[0]): FrameReader => {
  const reader = new FrameReader(onFrame);
  reader.allowFullFrames();
  return reader;
};
const head = (length: number, type: number, headerBytes: number): Buffer => {
  const bytes = Buffer.alloc(12);
  bytes.writeUInt32LE(length, 0);
  bytes.writeUInt8(type, 4);
  bytes.writeUInt16LE(headerBytes, 6);
  return bytes;
};

describe("frame reader", () => {
  test("frames come out whole and in order, wherever the stream is cut", () => {
    const sizes = fc.array(fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 3000, max: 70_000 })), {
      minLength: 1,
      maxLength: 12,
    });
    fc.assert(
      fc.property(sizes, fc.array(fc.integer({ min: 1, max: 90_000 }), { minLength: 1, maxLength: 40 }), (payloads, cuts) => {
        const stream = Buffer.concat(payloads.map((n, i) => frameOf(n, i + 1)));
        const got: { payload: Uint8Array; fill: number }[] = [];
        const reader = openReader((frame, bytes) => {
          expect(produceCodec.decode(frame, produceCodec.create()).topicId).toBe(topic);
          expect(frame.creditBytes).toBe(bytes);
          got.push({ payload: frame.payload, fill: frame.correlation });
        });
        for (let at = 0, i = 0; at < stream.length; i++) {
          const n = cuts[i % cuts.length] as number;
          reader.push(stream.subarray(at, at + n));
          at += n;
        }
        // Checked at the end: earlier payloads must have stayed as they were.
        expect(got.map((g) => g.payload.length)).toEqual(payloads);
        got.forEach((g, i) => {
          expect(g.fill).toBe(i + 1);
          expect(g.payload.every((b) => b === i + 1)).toBe(true);
        });
      }),
      { numRuns: 60 },
    );
  });
  test("a large frame crosses slabs", () => {
    const size = 6 * 1024 * 1024;
    const stream = Buffer.concat([frameOf(100, 1), frameOf(size, 2), frameOf(70_000, 3)]);
    const got: number[] = [];
    const reader = openReader((frame) => {
      expect(frame.payload.every((b) => b === frame.correlation)).toBe(true);
      got.push(frame.payload.length);
    });
    for (let at = 0; at < stream.length; at += 200_000) reader.push(stream.subarray(at, at + 200_000));
    expect(got).toEqual([100, size, 70_000]);
  });
  test("a small payload does not pin its slab, a large one is a view of it", () => {
    const buffers: ArrayBufferLike[] = [];
    const reader = openReader((frame) => buffers.push(frame.payload.buffer));
    const slab = reader.target().buffer;
    reader.push(Buffer.concat([frameOf(limits.slabViewBytesMin - 1, 1), frameOf(limits.slabViewBytesMin, 2)]));
    expect(buffers[0]).not.toBe(slab);
    expect(buffers[1]).toBe(slab);
  });
  test.each([
    ["length over the limit before the hello", head(limits.linkPreHelloFrameBytesMax - 3, 9, 0), false, "FRAME_TOO_LARGE"],
    ["length over the limit", head(limits.linkFrameBytesMax - 3, 9, 0), true, "FRAME_TOO_LARGE"],
    ["length of 2^32 - 1", head(0xffff_ffff, 9, 0), true, "FRAME_TOO_LARGE"],
    ["length of 2^31 - 1", head(0x7fff_ffff, 9, 0), true, "FRAME_TOO_LARGE"],
    ["length under the fixed part", head(7, 9, 0), true, "MALFORMED_FRAME"],
    ["header over its limit", head(60_000, 9, limits.linkHeaderBytesMax + 1), true, "FRAME_TOO_LARGE"],
    ["header longer than the frame", head(100, 9, 93), true, "MALFORMED_FRAME"],
  ])("%s is refused", (_name, bytes, full, code) => {
    const reader = new FrameReader(() => {});
    if (full) reader.allowFullFrames();
    expect(() => reader.push(bytes)).toThrow(expect.objectContaining({ code }));
  });
  test("the largest frame passes", () => {
    let got = 0;
    openReader((_frame, bytes) => (got = bytes)).push(frameOf(limits.linkFrameBytesMax - 12 - 44, 1));
    expect(got).toBe(limits.linkFrameBytesMax);
  });
  test("an announced size takes no memory before its bytes come", () => {
    const reader = openReader(() => {});
    reader.push(head(limits.linkFrameBytesMax - 4, 9, 0));
    expect(reader.target().buffer.byteLength).toBeLessThanOrEqual(2 * limits.slabBytes);
    let received = 12;
    for (let i = 0; i < 60; i++) {
      reader.push(Buffer.alloc(200_000));
      received += 200_000;
      expect(reader.target().buffer.byteLength).toBeLessThanOrEqual(4 * received + 2 * limits.slabBytes);
    }
  });
  test("what comes after stop does not touch payloads that were given out", () => {
    let payload: Uint8Array | undefined;
    const reader = openReader((frame) => (payload = frame.payload));
    reader.push(frameOf(50_000, 7));
    reader.stop();
    // As the socket does it: straight into the target.
    for (let i = 0; i < 40; i++) {
      const target = reader.target();
      target.fill(0xee);
      reader.advance(target.length);
    }
    expect(payload?.every((b) => b === 7)).toBe(true);
  });
  test("after stop nothing comes out and bytes are thrown away", () => {
    let frames = 0;
    const reader = openReader(() => {
      frames++;
      reader.stop();
    });
    reader.push(Buffer.concat([frameOf(10, 1), frameOf(10, 2)]));
    reader.push(frameOf(10, 3));
    expect(frames).toBe(1);
  });
});
