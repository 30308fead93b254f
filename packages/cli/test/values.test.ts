import { describe, expect, test } from "@jest/globals";
import { readFileSync } from "node:fs";
import { VERSION as SERVICE_VERSION } from "@sluice/service";
import { formatTable } from "../src/output.ts";
import { parseFrom, parseUntil } from "../src/position.ts";
import { byteSize, endpointList, pair, uniquePairs, wholeNumber } from "../src/values.ts";
import { VERSION } from "../src/version.ts";

describe("positions", () => {
  test.each([
    ["earliest", { at: "earliest" }],
    ["latest", { at: "latest" }],
    ["0", { at: "offset", offset: 0 }],
    ["9007199254740991", { at: "offset", offset: Number.MAX_SAFE_INTEGER }],
    ["@1764437000000", { at: "time", timestampMs: 1_764_437_000_000 }],
    ["@2026-01-31", { at: "time", timestampMs: Date.UTC(2026, 0, 31) }],
    ["@2026-01-31T12:00", { at: "time", timestampMs: Date.UTC(2026, 0, 31, 12) }],
    ["@2026-01-31 12:00:01.5Z", { at: "time", timestampMs: Date.UTC(2026, 0, 31, 12, 0, 1, 500) }],
    ["@2026-01-31T12:00:00+02:00", { at: "time", timestampMs: Date.UTC(2026, 0, 31, 10) }],
  ])("--from %s", (text, expected) => expect(parseFrom(text)).toEqual(expected));
  test.each(["", "-1", "1.5", "end", "first", "@", "@yesterday", "@2026-13-01", "9007199254740993", "@1969-01-01"])(
    "--from %j is refused",
    (text) => {
      expect(() => parseFrom(text)).toThrow("--from is");
    },
  );
  test("--until end, and neither earliest nor latest", () => {
    expect(parseUntil("end")).toEqual({ at: "end" });
    expect(parseUntil("7")).toEqual({ at: "offset", offset: 7 });
    expect(() => parseUntil("latest")).toThrow("--until is");
  });
});

describe("values", () => {
  test("whole numbers keep their bounds", () => {
    const parse = wholeNumber("--n", 1, 10);
    expect([parse("1"), parse("10")]).toEqual([1, 10]);
    for (const text of ["0", "11", "1e1", "x", "", " 3", "99999999999999999999"]) expect(() => parse(text)).toThrow("--n is");
  });
  test("sizes", () => {
    const parse = byteSize("--size", 0, 8 * 1024 * 1024);
    expect([parse("0"), parse("1KiB"), parse("8MiB")]).toEqual([0, 1_024, 8_388_608]);
    for (const text of ["9MiB", "1k", "-1", "1.5KiB"]) expect(() => parse(text)).toThrow("--size is");
  });
  test("pairs: the name ends at the first equals sign, a name comes once", () => {
    const parse = pair("--config");
    expect(parse("b=", parse("a=b=c"))).toEqual([
      ["a", "b=c"],
      ["b", ""],
    ]);
    expect(() => parse("=x")).toThrow("name=value");
    expect(() => parse("x")).toThrow("name=value");
    expect(uniquePairs("--config", [["__proto__", "x"]])).toEqual(Object.fromEntries([["__proto__", "x"]]));
    expect(() =>
      uniquePairs("--config", [
        ["a", "1"],
        ["a", "2"],
      ]),
    ).toThrow("a is given twice");
  });
  test("endpoints", () => {
    expect(endpointList("a:1, [::1]:2,")).toEqual(["a:1", "[::1]:2"]);
    for (const text of ["", ",", "a", "a:", "a:99999", "http://a:1"]) expect(() => endpointList(text)).toThrow("HOST:PORT");
  });
});

test("a table pads all columns but the last and shows no control characters", () => {
  const columns = [
    { title: "name", text: (row: { name: string }) => row.name },
    { title: "size", text: (row: { name: string }) => (row.name === "" ? null : row.name.length) },
  ];
  expect(formatTable([{ name: "ab" }, { name: "" }, { name: "a\u001b[2J" }], columns)).toBe("NAME   SIZE\nab     2\n-      -\na?[2J  5\n");
});

test("one version", () => {
  const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string };
  expect(VERSION).toBe(manifest.version);
  expect(VERSION).toBe(SERVICE_VERSION);
});
