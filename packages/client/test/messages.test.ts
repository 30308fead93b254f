import { describe, expect, test } from "@jest/globals";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { codeOf } from "@sluice/core/model";
import { ConsumeResponseSchema } from "@sluice/proto/v1/consume";
import { ProduceStreamRequestSchema, ProduceStreamResponseSchema } from "@sluice/proto/v1/produce";
import * as fc from "fast-check";
import { decodeConsumeAnswer, decodeProduceAnswer, encodeProduceCall } from "../src/messages.ts";

const uint32 = fc.integer({ min: 0, max: 0xffff_ffff });
const offset = fc.maxSafeInteger().filter((n) => n >= -1);

/** The lean codecs against the generated ones. */
describe("messages by hand", () => {
  test("ProduceStreamRequest", () => {
    const call = fc.record({
      id: uint32,
      topic: fc.string({ unit: "grapheme" }),
      partition: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
      batches: fc.array(fc.uint8Array({ maxLength: 400 }), { maxLength: 3 }),
      expectedBaseOffset: fc.option(fc.maxSafeNat(), { nil: undefined }),
      fenceToken: fc.option(fc.maxSafeNat(), { nil: undefined }),
      trace: fc.option(fc.constant("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), { nil: undefined }),
    });
    fc.assert(
      fc.property(call, (c) => {
        const gathered = encodeProduceCall(c);
        const bytes = new Uint8Array(gathered.length);
        gathered.copy(bytes, 0);
        const decoded = fromBinary(ProduceStreamRequestSchema, bytes);
        expect({ id: decoded.id, topic: decoded.topic, partition: decoded.partition }).toEqual({
          id: c.id,
          topic: c.topic,
          partition: c.partition,
        });
        expect(Buffer.from(decoded.data.value as Uint8Array).equals(Buffer.concat(c.batches))).toBe(true);
        expect(decoded.expectedBaseOffset).toBe(c.expectedBaseOffset === undefined ? undefined : BigInt(c.expectedBaseOffset));
        expect(decoded.traceparent).toBe(c.trace ?? "");
        expect(decoded.fenceToken).toBe(c.fenceToken === undefined ? undefined : BigInt(c.fenceToken));
      }),
    );
  });

  test("ProduceStreamResponse and ConsumeResponse", () => {
    const answer = fc.record({
      id: uint32,
      error: uint32,
      errorMessage: fc.string(),
      baseOffset: offset,
      appendTimeMs: offset,
      throttleMs: uint32,
    });
    fc.assert(
      fc.property(answer, fc.uint8Array(), (a, batches) => {
        const wire = {
          ...a,
          baseOffset: BigInt(a.baseOffset),
          appendTimeMs: BigInt(a.appendTimeMs),
          throttleReason: "why",
          lastOffset: -1n,
        };
        expect(decodeProduceAnswer(toBinary(ProduceStreamResponseSchema, create(ProduceStreamResponseSchema, wire)))).toMatchObject({
          ...a,
          lastOffset: -1,
        });
        const consumed = create(ConsumeResponseSchema, {
          topic: "t",
          partition: 3,
          batches,
          nextOffset: BigInt(a.baseOffset),
          records: { records: [{ offset: 1n }] },
          endReached: true,
          seekNumber: a.id,
          error: a.error,
        });
        const decoded = decodeConsumeAnswer(toBinary(ConsumeResponseSchema, consumed));
        expect(decoded).toMatchObject({ partition: 3, nextOffset: a.baseOffset, endReached: true, seekNumber: a.id, error: a.error });
        expect(Buffer.from(decoded.batches).equals(batches)).toBe(true);
      }),
    );
  });

  test("any bytes give a message or MALFORMED_FRAME", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        for (const decode of [decodeProduceAnswer, decodeConsumeAnswer]) {
          try {
            decode(bytes);
          } catch (error) {
            expect(codeOf(error)).toBe("MALFORMED_FRAME");
          }
        }
      }),
    );
  });
});
