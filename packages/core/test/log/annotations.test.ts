import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import {
  decodeAnnotations,
  encodeAnnotations,
  isSampled,
  NO_ANNOTATIONS,
  sampledTraceParent,
  traceParentBytes,
  traceParentText,
} from "../../src/log/index.ts";
import { codeThrown, join, utf8 } from "./support.ts";

const ms = fc.integer({ min: 0, max: 4_000_000_000_000 });
const some = fc.uint8Array({ maxLength: 30 });
const annotations = fc.record(
  {
    traceParent: fc.uint8Array({ minLength: 26, maxLength: 26 }),
    appendTimeMs: ms,
    principal: some,
    clientId: some,
    deadlineMs: fc.nat(0xffff_ffff),
    lane: fc.nat(255),
    deliverAtMs: ms,
    priority: fc.nat(255),
    anySequence: fc.constant(true),
    unknown: fc.uniqueArray(fc.record({ tag: fc.integer({ min: 10, max: 255 }), bytes: some }), {
      minLength: 1,
      maxLength: 3,
      selector: (u) => u.tag,
    }),
  },
  { requiredKeys: [] },
);

describe("annotations", () => {
  test("come back as they went in, unknown tags too, wherever they lie", () => {
    fc.assert(
      fc.property(annotations, some, some, (a, before, after) => {
        const bytes = encodeAnnotations(a);
        expect(bytes.length).toBeLessThanOrEqual(256);
        const whole = join([before, bytes, after]);
        expect(decodeAnnotations(whole, before.length, before.length + bytes.length)).toEqual(a);
      }),
    );
  });
  test("none take no bytes", () => {
    expect(encodeAnnotations({})).toHaveLength(0);
    expect(decodeAnnotations(new Uint8Array(0))).toBe(NO_ANNOTATIONS);
  });
  test("the numbers and the layout are fixed", () => {
    const a = { deadlineMs: 0x01020304, priority: 9, lane: 3, clientId: utf8("c"), unknown: [{ tag: 200, bytes: new Uint8Array(130) }] };
    expect([...encodeAnnotations(a).subarray(0, 18)]).toEqual([4, 1, 99, 5, 4, 1, 2, 3, 4, 6, 1, 3, 8, 1, 9, 200, 0x82, 1]);
  });
  test("256 bytes are the limit, on both sides", () => {
    expect(encodeAnnotations({ principal: new Uint8Array(253) })).toHaveLength(256);
    expect(codeThrown(() => encodeAnnotations({ principal: new Uint8Array(254) }))).toBe("INVALID_ARGUMENT");
    expect(codeThrown(() => decodeAnnotations(Uint8Array.from([9, 0xfe, 1, ...new Uint8Array(254)])))).toBe("MALFORMED_FRAME");
  });
  test("values that do not fit their field", () => {
    for (const a of [
      { traceParent: new Uint8Array(25) },
      { appendTimeMs: 2 ** 60 },
      { deadlineMs: -1 },
      { deadlineMs: 2 ** 32 },
      { lane: 256 },
      { priority: 0.5 },
    ])
      expect(codeThrown(() => encodeAnnotations(a))).toBe("INVALID_ARGUMENT");
  });
  test.each<[string, number[]]>([
    ["a tag alone", [3]],
    ["a length beyond the end", [3, 2, 65]],
    ["a length cut off", [3, 0x80]],
    ["a length of three bytes", [3, 0x80, 0x80, 1]],
    ["a long form of a short length", [3, 0x81, 0, 65]],
    ["a tag twice", [8, 1, 1, 8, 1, 2]],
    ["a field of the wrong size", [5, 3, 1, 2, 3]],
    ["a time over 2^53", [2, 8, 0x7f, 0, 0, 0, 0, 0, 0, 0]],
  ])("%s is malformed", (_name, bytes) => {
    expect(codeThrown(() => decodeAnnotations(Uint8Array.from(bytes)))).toBe("MALFORMED_FRAME");
  });
  test("random bytes throw nothing else", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 300 }),
        fc.integer({ min: -3, max: 310 }),
        fc.integer({ min: -3, max: 310 }),
        (bytes, from, to) => {
          expect([undefined, "MALFORMED_FRAME"]).toContain(codeThrown(() => decodeAnnotations(bytes, from, to)));
        },
      ),
      { numRuns: 500 },
    );
  });
  test("W3C trace parents", () => {
    const text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const bytes = traceParentBytes(text) as Uint8Array;
    expect(bytes).toHaveLength(26);
    expect(traceParentText(bytes)).toBe(text);
    for (const bad of ["", "00", text.toUpperCase(), `${text}-x`, text.replace("a", "g")]) expect(traceParentBytes(bad)).toBeUndefined();
  });

  test("a trace parent asks for recording when its flag does and it names a trace and a span", () => {
    const trace = "0af7651916cd43dd8448eb211c80319c";
    const span = "b7ad6b7169203331";
    for (const flags of ["01", "03", "ff"]) expect(sampledTraceParent(`00-${trace}-${span}-${flags}`)).toHaveLength(26);
    const none = [`00-${trace}-${span}-00`, `00-${trace}-${span}-02`, `ff-${trace}-${span}-01`, "", "x"];
    for (const text of [...none, `00-${"0".repeat(32)}-${span}-01`, `00-${trace}-${"0".repeat(16)}-01`])
      expect(sampledTraceParent(text)).toBeUndefined();
    expect(isSampled(new Uint8Array(3).fill(1))).toBe(false);
  });
});
