import { expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { splitLines } from "../src/lines.ts";

async function* chunksOf(data: Uint8Array, cuts: readonly number[]): AsyncGenerator<Uint8Array> {
  let from = 0;
  for (const cut of [...cuts, data.length]) {
    const to = Math.max(from, Math.min(cut, data.length));
    yield data.subarray(from, to);
    from = to;
  }
}
async function split(chunks: AsyncIterable<Uint8Array>, max?: number): Promise<string[]> {
  const lines: string[] = [];
  for await (const some of splitLines(chunks, max)) lines.push(...some.map((line) => Buffer.from(line).toString("latin1")));
  return lines;
}

test("lines are the same however the stream is cut", async () => {
  const data = fc.array(fc.constantFrom(0x0a, 0x0d, 0x61, 0xff), { maxLength: 30 }).map((bytes) => Uint8Array.from(bytes));
  const cuts = fc.array(fc.nat(30), { maxLength: 6 }).map((all) => all.toSorted((a, b) => a - b));
  await fc.assert(
    fc.asyncProperty(data, cuts, async (given, at) => {
      const expected = Buffer.from(given).toString("latin1").split("\n");
      if (expected.at(-1) === "") expected.pop();
      expect(await split(chunksOf(given, at))).toEqual(expected);
    }),
  );
});
test("a line over the limit is refused before it is all read", async () => {
  let read = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (;;) {
      read++;
      yield read === 1 ? Buffer.from("ok\nxx") : Buffer.from("xxxxxxxx");
    }
  }
  await expect(split(endless(), 16)).rejects.toThrow("line 2: MESSAGE_TOO_LARGE: over 16 bytes");
  expect(read).toBe(3);
});
