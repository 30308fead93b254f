import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { describe, expect, test } from "@jest/globals";
import { crc32c, nativeCodecs } from "@sluice/codec";
import { BatchBuilder, codecs, traceParentBytes } from "@sluice/core/log";
import { ConsumeResponseSchema, FetchResponseSchema } from "@sluice/proto/v1/consume";
import { ProduceStreamRequestSchema, ProduceStreamResponseSchema } from "@sluice/proto/v1/produce";
import { RecordSetSchema } from "@sluice/proto/v1/records";
import type { Gathered } from "@sluice/rpc";
import * as fc from "fast-check";
import { recordPages, withoutControl } from "../src/record-set.ts";
import { encodeConsumed, encodeFetched } from "../src/wire/consume-codec.ts";
import { decodeStreamProduce, encodeStreamProduced } from "../src/wire/produce-codec.ts";

const offset = fc.maxSafeInteger();
const natural = fc.maxSafeNat();
const uint32 = fc.nat({ max: 0xffff_ffff });
const int32 = fc.integer({ min: -0x8000_0000, max: 0x7fff_ffff });
const bytes = fc.uint8Array({ maxLength: 300 });
const text = fc.string({ maxLength: 40, unit: "binary" }).map((s) => s.toWellFormed());

function joined(encoded: Uint8Array | Gathered): Uint8Array {
  if (encoded instanceof Uint8Array) return encoded;
  const out = new Uint8Array(encoded.length);
  encoded.copy(out, 0);
  return out;
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

describe("wire codecs agree with the generated code", () => {
  test("ProduceStreamRequest", () => {
    fc.assert(
      fc.property(
        fc.record({
          id: uint32,
          topic: text,
          partition: int32,
          batch: bytes,
          expected: fc.option(natural),
          token: fc.option(natural),
          traceparent: fc.constantFrom("", traceparent, `${traceparent.slice(0, -1)}0`, "no context"),
        }),
        ({ id, topic, partition, batch, expected, token, traceparent: given }) => {
          const message = create(ProduceStreamRequestSchema, {
            id,
            topic,
            partition,
            data: { case: "batch", value: batch },
            traceparent: given,
            ...(expected === null ? {} : { expectedBaseOffset: BigInt(expected) }),
            ...(token === null ? {} : { fenceToken: BigInt(token) }),
          });
          const got = decodeStreamProduce(toBinary(ProduceStreamRequestSchema, message));
          expect({ ...got, batch: Uint8Array.from(got.batch ?? []) }).toEqual({
            id,
            topic,
            partition,
            batch,
            records: undefined,
            expectedBaseOffset: expected ?? -1,
            fenceToken: token ?? -1,
            // Only what asks to be recorded goes on.
            trace: given === traceparent ? traceParentBytes(traceparent) : undefined,
          });
        },
      ),
    );
  });

  test("ProduceStreamRequest: random bytes are refused or read, never a crash", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (garbage) => {
        try {
          decodeStreamProduce(garbage);
        } catch (error) {
          expect(Error.isError(error) || typeof (error as { code?: unknown }).code === "string").toBe(true);
        }
      }),
    );
  });

  test("ProduceStreamResponse", () => {
    const answer = fc.record({
      id: uint32,
      error: uint32,
      errorMessage: text,
      partition: int32,
      baseOffset: offset,
      lastOffset: offset,
      appendTimeMs: offset,
      logStartOffset: offset,
      throttleMs: uint32,
      throttleReason: text,
    });
    fc.assert(
      fc.property(answer, (m) => {
        const got = fromBinary(ProduceStreamResponseSchema, encodeStreamProduced(m));
        expect(got).toMatchObject({
          ...m,
          baseOffset: BigInt(m.baseOffset),
          lastOffset: BigInt(m.lastOffset),
          appendTimeMs: BigInt(m.appendTimeMs),
          logStartOffset: BigInt(m.logStartOffset),
        });
      }),
    );
  });

  test("ConsumeResponse and FetchResponse", () => {
    const marks = { nextOffset: offset, highWatermark: offset, lastStableOffset: offset, logStartOffset: offset };
    const consumed = fc.record({
      topic: text,
      partition: int32,
      runs: fc.array(bytes, { maxLength: 3 }),
      ...marks,
      endReached: fc.boolean(),
      seekNumber: uint32,
      error: uint32,
      errorMessage: text,
      traceparent: text,
      throttleMs: uint32,
    });
    fc.assert(
      fc.property(consumed, (m) => {
        const batches = Buffer.concat(m.runs);
        const same = {
          nextOffset: BigInt(m.nextOffset),
          highWatermark: BigInt(m.highWatermark),
          lastStableOffset: BigInt(m.lastStableOffset),
          logStartOffset: BigInt(m.logStartOffset),
        };
        const got = fromBinary(ConsumeResponseSchema, joined(encodeConsumed({ ...m, records: undefined })));
        expect(got).toMatchObject({ topic: m.topic, partition: m.partition, ...same, endReached: m.endReached, seekNumber: m.seekNumber });
        expect(got.traceparent).toBe(m.traceparent);
        expect([got.error, got.errorMessage, Buffer.compare(got.batches, batches)]).toEqual([m.error, m.errorMessage, 0]);
        const fetched = fromBinary(FetchResponseSchema, joined(encodeFetched({ ...m, records: undefined })));
        expect(fetched).toMatchObject({ ...same, throttleMs: m.throttleMs });
        expect(Buffer.compare(fetched.batches, batches)).toBe(0);
      }),
    );
  });

  test("records of stored batches, in pages", () => {
    const record = fc.record({
      key: fc.option(bytes, { nil: null }),
      value: fc.option(fc.uint8Array({ maxLength: 2_000 }), { nil: null }),
      timestampMs: fc.nat({ max: 2_000_000_000_000 }),
      headers: fc.array(fc.record({ key: text, value: fc.option(bytes, { nil: null }) }), { maxLength: 3 }),
    });
    const utf8 = new TextEncoder();
    fc.assert(
      fc.property(
        fc.array(fc.array(record, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 4 }),
        fc.nat({ max: 6 }),
        fc.integer({ min: 1, max: 4_000 }),
        fc.constantFrom(codecs.none, codecs.zstd),
        (batches, from, pageBytes, codec) => {
          let next = 0;
          const expected: unknown[] = [];
          const runs = batches.map((records) => {
            const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs, codec });
            const baseOffset = next;
            for (const r of records) {
              builder.tryAppend(
                r.timestampMs,
                r.key,
                r.value,
                r.headers.map((h) => ({ key: utf8.encode(h.key), value: h.value })),
              );
              if (next >= from) expected.push({ ...r, offset: next });
              next += 1;
            }
            return builder.close({ baseOffset });
          });
          const got: unknown[] = [];
          let end = from;
          for (const page of recordPages(runs, from, pageBytes, nativeCodecs)) {
            const { records } = fromBinary(RecordSetSchema, page.bytes);
            expect(records.length).toBe(page.count);
            if (records.length > 1) expect(page.bytes.length).toBeLessThanOrEqual(pageBytes);
            for (const r of records)
              got.push({
                key: r.key === undefined ? null : Uint8Array.from(r.key),
                value: r.value === undefined ? null : Uint8Array.from(r.value),
                timestampMs: Number(r.timestampMs),
                headers: r.headers.map((h) => ({ key: h.name, value: h.value === undefined ? null : Uint8Array.from(h.value) })),
                offset: Number(r.offset),
              });
            end = page.nextOffset;
          }
          expect(got).toEqual(expected);
          expect(end).toBe(Math.max(next, from));
        },
      ),
      { numRuns: 60 },
    );
  });

  test("control batches are hidden from both formats", () => {
    const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs });
    const make = (baseOffset: number, isControl: boolean): Uint8Array => {
      builder.tryAppend(1, new Uint8Array(4), new Uint8Array(6));
      return builder.close({ baseOffset, isControl });
    };
    const run = Buffer.concat([make(0, false), make(1, true), make(2, false), make(3, true)]);
    const pages = [...recordPages([run], 0, 1_000_000, nativeCodecs)];
    expect(fromBinary(RecordSetSchema, pages[0]?.bytes ?? new Uint8Array(0)).records.map((r) => Number(r.offset))).toEqual([0, 2]);
    expect(pages[0]?.nextOffset).toBe(4);
    expect(Buffer.concat(withoutControl([run]))).toEqual(Buffer.concat([make(0, false), make(2, false)]));
    const clean = [make(0, false)];
    expect(withoutControl(clean)).toBe(clean);
  });
});
