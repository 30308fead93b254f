import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { bytesToJson, formatRecordLine, parseRecordLine, type ConsumedLine } from "../src/record-line.ts";

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 64 }),
  fc.string({ unit: "grapheme", maxLength: 16 }).map((s) => new TextEncoder().encode(s)),
);
const field = fc.option(bytes);
const record: fc.Arbitrary<ConsumedLine> = fc.record({
  topic: fc.stringMatching(/^[A-Za-z0-9._-]{1,20}$/),
  partition: fc.nat(1_000),
  offset: fc.nat(Number.MAX_SAFE_INTEGER),
  timestampMs: fc.oneof(fc.constant(-1), fc.nat(Number.MAX_SAFE_INTEGER)),
  key: field,
  value: field,
  headers: fc.array(fc.tuple(fc.string({ unit: "grapheme", maxLength: 10 }), field), { maxLength: 4 }),
});
const plain = (data: Uint8Array | null): number[] | null => (data === null ? null : [...data]);

describe("a record as a line", () => {
  test("the form that other tools read", () => {
    const line = formatRecordLine({
      topic: "t",
      partition: 0,
      offset: 12,
      timestampMs: 1_764_437_000_000,
      key: Buffer.from("k"),
      value: Buffer.from("v"),
      headers: [["h", Buffer.from("x")]],
    });
    expect(line).toBe('{"topic":"t","partition":0,"offset":12,"timestamp":1764437000000,"key":"k","value":"v","headers":[["h","x"]]}\n');
  });
  test("bytes that are no UTF-8 are base64, absent is null", () => {
    expect(bytesToJson(Uint8Array.of(0xff, 0x00))).toEqual({ base64: "/wA=" });
    expect(bytesToJson(null)).toBeNull();
    expect(bytesToJson(new Uint8Array(0))).toBe("");
    // A byte order mark is data.
    expect(bytesToJson(Uint8Array.of(0xef, 0xbb, 0xbf, 0x61))).toBe("\ufeffa");
    // Surrogates in UTF-8 are no UTF-8.
    expect(bytesToJson(Uint8Array.of(0xed, 0xa0, 0x80))).toEqual({ base64: "7aCA" });
  });
  test("every record survives the way there and back, on one line", () => {
    fc.assert(
      fc.property(record, (given) => {
        const line = formatRecordLine(given);
        expect(line.indexOf("\n")).toBe(line.length - 1);
        const back = parseRecordLine(line);
        expect(plain(back.key)).toEqual(plain(given.key));
        expect(plain(back.value)).toEqual(plain(given.value));
        expect(back.headers.map(([name, value]) => [name, plain(value)])).toEqual(
          given.headers.map(([name, value]) => [name, plain(value)]),
        );
        expect(back.partition).toBe(given.partition);
        expect(back.timestampMs).toBe(given.timestampMs);
      }),
    );
  });
  test("what is left out is absent", () => {
    expect(parseRecordLine('{"value":"v"}')).toEqual({
      key: null,
      value: new TextEncoder().encode("v"),
      headers: [],
      partition: undefined,
      timestampMs: undefined,
    });
  });
  test.each([
    ["", "not JSON"],
    ["[]", "not a JSON object"],
    ['{"vaule":"x"}', '"vaule" is unknown'],
    ['{"value":5}', "value must be"],
    ['{"value":{"base64":"*"}}', "value must be"],
    ['{"value":{"base64":"YQ==","x":1}}', "value must be"],
    ['{"value":"\\ud800"}', "surrogate"],
    ['{"headers":[["a"]]}', "headers must be"],
    ['{"headers":{"a":"b"}}', "headers must be"],
    ['{"headers":[["a",1]]}', 'header "a" must be'],
    ['{"partition":-1}', "partition must be"],
    ['{"partition":1.5}', "partition must be"],
    ['{"timestamp":"now"}', "timestamp must be"],
    ['{"timestamp":-2}', "timestamp must be -1 (none) or"],
  ])("%s is refused", (line, reason) => {
    expect(() => parseRecordLine(line)).toThrow(reason);
  });
});
