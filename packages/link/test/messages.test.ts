import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import {
  addAppended,
  APPENDED_ENTRIES_MAX,
  appendCodec,
  appendedCodec,
  type Codec,
  creditCodec,
  dataCodec,
  encodeFrame,
  errorCodec,
  type Frame,
  FrameReader,
  helloCodec,
  produceCodec,
  producedCodec,
  producedRetriable,
  readCodec,
  readTagged,
  subscribeCodec,
  tailCodec,
} from "../src/index.ts";

const u16 = fc.integer({ min: 0, max: 0xffff });
const u32 = fc.integer({ min: 0, max: 0xffff_ffff });
const epoch = fc.integer({ min: 0, max: 0x7fff_ffff });
const offset = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const mark = fc.integer({ min: -1, max: Number.MAX_SAFE_INTEGER });
const annotations = fc.uint8Array({ minLength: 0, maxLength: 256 }).map((a) => new Uint8Array(a));
const payload = fc.uint8Array({ minLength: 1, maxLength: 9000 });
const name = fc.string({ minLength: 0, maxLength: 40, unit: "binary" });
const topicId = fc.uuid();

/** Encodes, reads through the frame reader, decodes into a used object. */
function roundTrip<T>(
  codec: Codec<T>,
  message: T,
  body: Uint8Array = new Uint8Array(0),
  correlation = 7,
): { message: T; payload: Uint8Array } {
  const got: { message: T; payload: Uint8Array }[] = [];
  const reader = new FrameReader((frame: Frame) => {
    expect(frame.type).toBe(codec.type);
    expect(frame.correlation).toBe(correlation);
    got.push({ message: codec.decode(frame, codec.create()), payload: frame.payload });
  });
  reader.push(encodeFrame(codec, message, correlation, body));
  expect(got).toHaveLength(1);
  return got[0] as { message: T; payload: Uint8Array };
}
const check = <T>(codec: Codec<T>, values: fc.Arbitrary<T>): void =>
  fc.assert(
    fc.property(values, (message) => {
      expect(roundTrip(codec, message).message).toEqual(message);
    }),
    { numRuns: 60 },
  );

describe("message codecs", () => {
  test("append keeps its fields and its payload", () =>
    fc.assert(
      fc.property(
        fc.record({ segmentNumber: u32, epoch, base: offset, firstOffset: offset, lac: mark, barrier: u32, annotations }),
        payload,
        (fields, body) => {
          const message = { ...fields, lastOffset: fields.firstOffset };
          const got = roundTrip(appendCodec, message, body);
          expect(got.message).toEqual(message);
          expect(Buffer.compare(got.payload, body)).toBe(0);
        },
      ),
      { numRuns: 60 },
    ));
  test("an empty append ends before its first offset", () => {
    const message = { ...appendCodec.create(), firstOffset: 5, lastOffset: 4, barrier: 9 };
    expect(roundTrip(appendCodec, message).message).toEqual(message);
    expect(() => roundTrip(appendCodec, { ...message, lastOffset: 5 })).toThrow(expect.objectContaining({ code: "MALFORMED_FRAME" }));
  });
  test("appended keeps all entries and reuses its objects", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(u32, u16, mark, u32), { maxLength: APPENDED_ENTRIES_MAX }), (entries) => {
        const message = appendedCodec.create();
        for (const e of entries) addAppended(message, ...e);
        const got = roundTrip(appendedCodec, message).message;
        expect(got.count).toBe(entries.length);
        expect(got.entries.slice(0, got.count).map((e) => [e.segmentNumber, e.code, e.durable, e.barrier])).toEqual(entries);
      }),
      { numRuns: 30 },
    );
  });
  test("read", () =>
    check(
      readCodec,
      fc.record({
        topicId,
        partition: u32,
        segmentEpoch: epoch,
        segmentK: u32,
        maxBytes: u32,
        from: offset,
        highWatermark: mark,
        highWatermarkEpoch: fc.integer({ min: -1, max: 0x7fff_ffff }),
      }),
    ));
  test("data", () => check(dataCodec, fc.record({ code: u16, sealed: fc.boolean(), limit: mark })));
  test("subscribe", () => check(subscribeCodec, fc.record({ topicId, partition: u32, fromOffset: mark })));
  test("tail", () =>
    check(
      tailCodec,
      fc.record({
        epoch,
        segmentK: u32,
        segmentBase: mark,
        firstOffset: mark,
        highWatermark: mark,
        lastStableOffset: mark,
        logStart: mark,
        code: u16,
        annotations,
      }),
    ));
  test("produce", () =>
    check(
      produceCodec,
      fc.record({ topicId, partition: u32, expectedBaseOffset: mark, fenceToken: mark, deadlineMs: u32, flags: u32, annotations }),
    ));
  test("produced, with and without an owner hint and a cause", () =>
    check(
      producedCodec,
      fc.record({
        code: u16,
        throttleMs: u32,
        baseOffset: mark,
        lastOffset: mark,
        logAppendTimeMs: mark,
        logStart: mark,
        cause: u16,
        ownerHint: fc.constantFrom("", "broker-1", "x".repeat(64)),
      }),
    ));
  test("hello", () =>
    check(
      helloCodec,
      fc.record({
        versionMin: u16,
        versionMax: u16,
        features: u32,
        featuresHigh: u32,
        generation: u32,
        windowBytes: u32,
        purpose: fc.constantFrom("log" as const, "bulk" as const),
        service: fc.constantFrom("proxy" as const, "broker" as const, "segment-store" as const),
        wantsProof: fc.boolean(),
        nonce: fc.uint8Array({ minLength: 16, maxLength: 16 }).map((n) => new Uint8Array(n)),
        clusterId: name,
        memberId: name,
        instance: name,
        incarnation: name,
        zone: name,
      }),
    ));
  test("credit and error", () => {
    check(creditCodec, fc.record({ released: offset }));
    check(errorCodec, fc.record({ code: u16, aboutType: fc.integer({ min: 0, max: 255 }) }));
  });

  test("a produced frame with an unknown tagged field is read, the field is skipped", () => {
    const bytes = encodeFrame(producedCodec, { ...producedCodec.create(), ownerHint: "b" }, 7);
    // tag 9, two bytes, in front of the hint
    const grown = Buffer.concat([bytes.subarray(0, 52), Buffer.from([9, 2, 0xaa, 0xbb]), bytes.subarray(52)]);
    grown.writeUInt32LE(grown.length - 4, 0);
    grown.writeUInt16LE(grown.length - 12, 6);
    let hint = "";
    new FrameReader((frame) => {
      hint = producedCodec.decode(frame, producedCodec.create()).ownerHint;
    }).push(grown);
    expect(hint).toBe("b");
  });
  test("tagged fields that are cut are malformed", () => {
    const view = new DataView(Uint8Array.from([1, 5, 1, 2]).buffer);
    expect(() => readTagged(view, 0, 4, "x", () => {})).toThrow(expect.objectContaining({ code: "MALFORMED_FRAME" }));
    const long = new DataView(Uint8Array.from([0xff, 0xff, 0xff, 0xff, 0xff]).buffer);
    expect(() => readTagged(long, 0, 5, "x", () => {})).toThrow(expect.objectContaining({ code: "MALFORMED_FRAME" }));
  });
  test("numbers that are no offsets are malformed", () => {
    for (const bad of [Number.NaN, 1.5, -2, 2 ** 53, Number.POSITIVE_INFINITY])
      expect(() => roundTrip(produceCodec, { ...produceCodec.create(), fenceToken: bad })).toThrow(
        expect.objectContaining({ code: "MALFORMED_FRAME" }),
      );
  });
  test("a code says whether a retry helps", () => {
    expect(producedRetriable(0)).toBe(false);
    expect(producedRetriable(40)).toBe(true);
    expect(producedRetriable(13)).toBe(false);
  });
});
