import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { KafkaFrameReader } from "../../src/kafka/frame-reader.ts";
import { kafkaLimits } from "../../src/kafka/limits.ts";

const frameOf = (key: number, bytes: number): Buffer => {
  const frame = Buffer.alloc(4 + bytes, 7);
  frame.writeInt32BE(bytes, 0);
  frame.writeInt16BE(key, 4);
  return frame;
};
const codeOf = (fn: () => void): string | undefined => {
  try {
    fn();
    return undefined;
  } catch (error) {
    return (error as { code: string }).code;
  }
};

describe("frames of a connection", () => {
  test("come out whole and in order, however the bytes are cut", () => {
    const sizes = fc.array(fc.oneof(fc.integer({ min: 8, max: 40 }), fc.integer({ min: 4_000, max: 9_000 })), {
      minLength: 1,
      maxLength: 8,
    });
    fc.assert(
      fc.property(sizes, fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 1, maxLength: 30 }), (lengths, cuts) => {
        const frames = lengths.map((bytes, i) => frameOf(i % 3, bytes));
        const stream = Buffer.concat(frames);
        const got: Buffer[] = [];
        const reader = new KafkaFrameReader(
          (frame) => got.push(Buffer.from(frame)),
          () => undefined,
        );
        for (let at = 0, i = 0; at < stream.length; i += 1) {
          const next = Math.min(stream.length, at + (cuts[i % cuts.length] as number));
          reader.push(stream.subarray(at, next));
          at = next;
        }
        expect(got.map((frame) => frame.toString("hex"))).toEqual(frames.map((frame) => frame.subarray(4).toString("hex")));
        expect(reader.begun).toBe(false);
      }),
    );
  });

  test("what came out is a copy: the chunk may be written again at once", () => {
    const got: Uint8Array[] = [];
    const reader = new KafkaFrameReader(
      (frame) => got.push(frame),
      () => undefined,
    );
    const chunk = Buffer.concat([frameOf(0, 10_000), frameOf(3, 20), frameOf(0, 100).subarray(0, 60)]);
    reader.push(chunk);
    chunk.fill(9);
    reader.push(Buffer.alloc(44, 7));
    expect(got.map((frame) => [...new Set(frame.subarray(2))])).toEqual([[7], [7], [7]]);
  });

  test("only Produce may be large, and no frame is shorter than its header", () => {
    const push = (bytes: number, key: number) => () => {
      const head = Buffer.alloc(6);
      head.writeInt32BE(bytes, 0);
      head.writeInt16BE(key, 4);
      new KafkaFrameReader(
        () => undefined,
        () => undefined,
      ).push(head);
    };
    expect(codeOf(push(kafkaLimits.produceRequestBytesMax, 0))).toBeUndefined();
    expect(codeOf(push(kafkaLimits.produceRequestBytesMax + 1, 0))).toBe("FRAME_TOO_LARGE");
    expect(codeOf(push(kafkaLimits.requestBytesMax, 3))).toBeUndefined();
    expect(codeOf(push(kafkaLimits.requestBytesMax + 1, 3))).toBe("FRAME_TOO_LARGE");
    expect(codeOf(push(-1, 0))).toBe("MALFORMED_FRAME");
    expect(codeOf(push(7, 0))).toBe("MALFORMED_FRAME");
  });

  test("a frame that only announces its size gets little memory, and is told as large once", () => {
    const large: number[] = [];
    const reader = new KafkaFrameReader(
      () => undefined,
      (bytes) => large.push(bytes),
    );
    const before = process.memoryUsage().arrayBuffers;
    const head = Buffer.alloc(6);
    head.writeInt32BE(90 * 1024 * 1024, 0);
    reader.push(head);
    reader.push(Buffer.alloc(1_000));
    expect(large).toEqual([90 * 1024 * 1024 + 4]);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1024 * 1024);
  });
});
