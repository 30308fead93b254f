import { describe, expect, test } from "@jest/globals";
import { objectStoreLimits } from "../limits.ts";
import { type Current, expectObject, failure, keysOf, pattern, pieces } from "./subject.ts";

const partBytes = objectStoreLimits.partBytesMin;
const MiB = 1024 * 1024;

export function describeMultipart(current: Current): void {
  describe("objects in parts", () => {
    test("20 MiB and a bit in pieces of odd sizes", async () => {
      const key = `${current.folder()}/big`;
      const bytes = pattern(20 * MiB + 12_345);
      const body = pieces(bytes, [1, 1_000_003, 7, 6 * MiB + 1, 65_536, 0, 3]);
      expect(await current.store.putMultipart(key, body, { partBytes })).toEqual({ sizeBytes: bytes.length });
      await expectObject(current.store, key, bytes);
    }, 60_000);

    test("sizes around one part and two", async () => {
      const folder = current.folder();
      const bytes = pattern(2 * partBytes + 1);
      for (const size of [0, 1, partBytes - 1, partBytes, partBytes + 1, 2 * partBytes, 2 * partBytes + 1]) {
        const body = pieces(bytes.subarray(0, size), [partBytes]);
        expect(await current.store.putMultipart(`${folder}/${size}`, body, { partBytes })).toEqual({ sizeBytes: size });
        await expectObject(current.store, `${folder}/${size}`, bytes.subarray(0, size));
      }
    }, 60_000);

    test("a body that fails: its own error, nothing visible, nothing left behind, the older object untouched", async () => {
      const folder = current.folder();
      const own = new RangeError("the body's own error");
      for (const good of [0, partBytes, 3 * partBytes]) {
        await current.store.put(`${folder}/old`, [pattern(10)]);
        for (const key of ["new", "old"]) {
          const body = failing(pattern(good), own);
          await expect(current.store.putMultipart(`${folder}/${key}`, body, { partBytes })).rejects.toBe(own);
        }
        expect(await current.store.head(`${folder}/new`)).toBeUndefined();
        expect(await keysOf(current.store, `${folder}/`)).toEqual([`${folder}/old`]);
        await expectObject(current.store, `${folder}/old`, pattern(10));
      }
      expect((await current.subject.leftovers?.()) ?? []).toEqual([]);
    }, 60_000);

    test("the body is told when nobody reads it any more", async () => {
      const { promise: closed, resolve } = Promise.withResolvers<string>();
      const controller = new AbortController();
      async function* body(): AsyncGenerator<Uint8Array> {
        try {
          for (;;) {
            yield pattern(partBytes);
            controller.abort();
          }
        } finally {
          resolve("closed");
        }
      }
      const put = current.store.putMultipart(`${current.folder()}/endless`, body(), { partBytes, signal: controller.signal });
      expect(await failure(put)).toBe("CANCELLED");
      expect(await closed).toBe("closed");
    });

    test("sizes of parts outside the limits are refused", async () => {
      for (const bad of [0, -1, partBytes - 1, partBytes + 0.5, objectStoreLimits.partBytesMax + 1, Number.NaN]) {
        const put = current.store.putMultipart(`${current.folder()}/x`, pieces(pattern(1), [1]), { partBytes: bad });
        expect(await failure(put)).toBe("INVALID_ARGUMENT");
      }
    });
  });
}

async function* failing(bytes: Uint8Array, error: Error): AsyncGenerator<Uint8Array> {
  yield* pieces(bytes, [MiB]);
  throw error;
}
