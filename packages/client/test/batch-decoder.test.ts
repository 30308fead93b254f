import { describe, expect, test } from "@jest/globals";
import { crc32c, nativeCodecs } from "@sluice/codec";
import { BatchBuilder, batchCrc, BatchCursor } from "@sluice/core/log";
import { decodeRun, type Decoded } from "../src/batch-decoder.ts";

const RECORDS_AT = 61;
const CRC_AT = 17;

/** One record a batch, at `offset`; of a bad one the payload is noise under a CRC that fits, as any producer can send it. */
function batch(offset: number, value: string, kind: "good" | "noise" | "wrong CRC" = "good"): Uint8Array {
  const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs });
  builder.tryAppend(1, null, new TextEncoder().encode(value));
  const bytes = Uint8Array.from(builder.close());
  const view = new DataView(bytes.buffer);
  view.setBigInt64(0, BigInt(offset));
  if (kind === "noise") bytes.fill(0xee, RECORDS_AT);
  if (kind === "noise") view.setUint32(CRC_AT, batchCrc(bytes, 0, bytes.length, crc32c));
  if (kind === "wrong CRC") bytes[RECORDS_AT] = (bytes[RECORDS_AT] ?? 0) ^ 1;
  return bytes;
}
const range = { topic: "t", partition: 0, fromOffset: 0, endOffset: Number.MAX_SAFE_INTEGER, checkCrc: true };
const told = ({ records, nextOffset }: Decoded) => ({ values: records.map((r) => [r.offset, r.valueText()]), nextOffset });

describe("a batch that cannot be decoded", () => {
  test.each([
    ["noise", "UNREADABLE_BATCH"],
    ["wrong CRC", "CORRUPT_BATCH"],
  ] as const)("%s: what lies before it is given first, then the error, then one can pass it", (kind, code) => {
    const run = Buffer.concat([batch(0, "a"), batch(1, "b"), batch(2, "x", kind), batch(3, "c")]);
    const first = decodeRun(run, 0, range);
    expect(told(first)).toEqual({
      values: [
        [0, "a"],
        [1, "b"],
      ],
      nextOffset: 2,
    });
    const at = new BatchCursor(run, first.at);
    expect(at.next() && at.header.baseOffset).toBe(2);
    expect(() => decodeRun(run, first.at, { ...range, fromOffset: 2 })).toThrow(expect.objectContaining({ code }));
    const after = run.subarray(first.at + at.header.totalBytes);
    expect(told(decodeRun(after, 0, { ...range, fromOffset: 3 }))).toEqual({ values: [[3, "c"]], nextOffset: 4 });
  });
  test("the same for what is no batch", () => {
    const run = Buffer.concat([batch(0, "a"), batch(1, "b").subarray(0, RECORDS_AT)]);
    const first = decodeRun(run, 0, range);
    expect(told(first)).toEqual({ values: [[0, "a"]], nextOffset: 1 });
    expect(() => decodeRun(run, first.at, { ...range, fromOffset: 1 })).toThrow(expect.objectContaining({ code: "CORRUPT_BATCH" }));
  });
});
