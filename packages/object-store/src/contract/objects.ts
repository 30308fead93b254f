import { describe, expect, test } from "@jest/globals";
import { objectStoreLimits } from "../limits.ts";
import type { ObjectStore } from "../port.ts";
import { type Current, expectBytes, expectObject, failure, inParallel, keysOf, pattern, untilAnswered } from "./subject.ts";

const BAD_KEYS = [
  "",
  "/",
  "/a",
  "a/",
  "a//b",
  ".",
  "..",
  "../a",
  "a/../b",
  "a/./b",
  "a/..",
  "a b",
  "a+b",
  "a%2fb",
  "a\\b",
  "a\0b",
  "a\nb",
  "ä",
  "a?b",
  "a#b",
  "a".repeat(objectStoreLimits.keyPartCharsMax + 1),
  Array.from({ length: 8 }, () => "a".repeat(150)).join("/"),
];
const ODD_KEYS = [
  ".hidden",
  "..a",
  "a..b",
  "-",
  "_",
  "0",
  "a.b-c_D",
  "x".repeat(200),
  Array.from({ length: 40 }, (_, i) => `d${i}`).join("/"),
];

export function describeObjects(current: Current): void {
  describe("objects", () => {
    test("what was put in pieces of odd sizes is read back whole", async () => {
      const key = `${current.folder()}/object`;
      const bytes = pattern(300_007);
      const cuts = [0, 1, 1, 2, 65_537, 65_537, 200_000, 300_007];
      await current.store.put(
        key,
        cuts.slice(1).map((end, i) => bytes.subarray(cuts[i], end)),
      );
      await expectObject(current.store, key, bytes);
    });

    test("thousands of tiny pieces", async () => {
      const key = `${current.folder()}/tiny`;
      const bytes = pattern(9_001);
      await current.store.put(
        key,
        Array.from(bytes, (_, i) => bytes.subarray(i, i + 1)),
      );
      await expectObject(current.store, key, bytes);
    });

    test("ranges: every edge inside, and refused outside", async () => {
      const key = `${current.folder()}/ranges`;
      const bytes = pattern(1_000);
      await current.store.put(key, [bytes]);
      for (const [start, length] of [
        [0, 1],
        [999, 1],
        [0, 1_000],
        [1, 999],
        [0, 999],
        [500, 17],
        [0, 0],
        [1_000, 0],
      ] as const) {
        expectBytes(await current.store.getRange(key, start, length), bytes.subarray(start, start + length));
      }
      for (const [start, length] of [
        [0, 1_001],
        [999, 2],
        [1_000, 1],
        [5_000, 10],
        [1_001, 0],
      ] as const) {
        expect(await failure(current.store.getRange(key, start, length))).toBe("OBJECT_STORE_UNAVAILABLE");
      }
      for (const [start, length] of [
        [-1, 1],
        [0, -1],
        [0.5, 1],
        [0, 1.5],
        [Number.NaN, 1],
        [0, Infinity],
        [0, objectStoreLimits.bodyBytesMax + 1],
      ] as const) {
        expect(await failure(current.store.getRange(key, start, length))).toBe("INVALID_ARGUMENT");
      }
    });

    test("an object of no bytes exists", async () => {
      const folder = current.folder();
      await current.store.put(`${folder}/none`, []);
      await current.store.put(`${folder}/empty`, [new Uint8Array(0)]);
      expect((await current.store.head(`${folder}/none`))?.sizeBytes).toBe(0);
      expectBytes(await current.store.getRange(`${folder}/empty`, 0, 0), new Uint8Array(0));
      expect(await failure(current.store.getRange(`${folder}/empty`, 0, 1))).toBe("OBJECT_STORE_UNAVAILABLE");
      expect(await keysOf(current.store, `${folder}/`)).toEqual([`${folder}/empty`, `${folder}/none`]);
    });

    test("a second put replaces all of the first, also when it is shorter", async () => {
      const key = `${current.folder()}/twice`;
      await current.store.put(key, [pattern(50_000, 1)]);
      await current.store.put(key, [pattern(20_000, 2)]);
      await expectObject(current.store, key, pattern(20_000, 2));
    });

    test("bytes are the store's own: neither the caller's arrays nor its answers share memory with them", async () => {
      const key = `${current.folder()}/own`;
      const bytes = pattern(100);
      await current.store.put(key, [bytes]);
      bytes.fill(0);
      (await current.store.getRange(key, 0, 100)).fill(0);
      await expectObject(current.store, key, pattern(100));
    });

    test("head tells size and a time of today", async () => {
      const key = `${current.folder()}/head`;
      await current.store.put(key, [pattern(5)]);
      const info = await current.store.head(key);
      expect(info).toMatchObject({ key, sizeBytes: 5 });
      expect(Number.isInteger(info?.modifiedAtMs)).toBe(true);
      expect(info?.modifiedAtMs).toBeGreaterThan(Date.UTC(2024, 0, 1));
    });

    test("what is not there: read says so, head is undefined, delete succeeds again and again", async () => {
      const folder = current.folder();
      const key = `${folder}/a/b`;
      expect(await failure(current.store.getRange(key, 0, 1))).toBe("OBJECT_NOT_FOUND");
      expect(await failure(current.store.getRange(key, 0, 0))).toBe("OBJECT_NOT_FOUND");
      expect(await current.store.head(key)).toBeUndefined();
      await current.store.delete(key);
      await current.store.put(key, [pattern(3)]);
      // The folder of an object is no object.
      expect(await current.store.head(`${folder}/a`)).toBeUndefined();
      expect(await failure(current.store.getRange(`${folder}/a`, 0, 1))).toBe("OBJECT_NOT_FOUND");
      await current.store.delete(`${folder}/a`);
      await expectObject(current.store, key, pattern(3));
      for (let i = 0; i < 3; i++) await current.store.delete(key);
      expect(await failure(current.store.getRange(key, 0, 1))).toBe("OBJECT_NOT_FOUND");
      expect(await current.store.head(key)).toBeUndefined();
      expect(await keysOf(current.store, folder)).toEqual([]);
      await current.store.put(key, [pattern(4)]);
      await expectObject(current.store, key, pattern(4));
    });

    test("keys outside the rule are refused by every call, and odd ones inside it work", async () => {
      const { store } = current;
      for (const key of BAD_KEYS) for (const call of everyCall(store, key)) expect(await failure(call())).toBe("INVALID_ARGUMENT");
      const folder = current.folder();
      for (const key of ODD_KEYS) {
        await store.put(`${folder}/${key}`, [pattern(10)]);
        await expectObject(store, `${folder}/${key}`, pattern(10));
      }
      expect(await keysOf(store, `${folder}/`)).toEqual(ODD_KEYS.map((key) => `${folder}/${key}`).sort());
      for (const key of ODD_KEYS) await store.delete(`${folder}/${key}`);
      expect(await keysOf(store, folder)).toEqual([]);
    });

    test("32 writers of one key leave one whole object; 32 of different keys lose none", async () => {
      const folder = current.folder();
      // Some servers refuse all but one of many writers of a key: that is an error to retry, as any other.
      await inParallel(32, 32, (i) => untilAnswered(() => current.store.put(`${folder}/one`, [new Uint8Array(40_000 + i).fill(i)])));
      const size = (await current.store.head(`${folder}/one`))?.sizeBytes ?? 0;
      expectBytes(await current.store.getRange(`${folder}/one`, 0, size), new Uint8Array(size).fill(size - 40_000));
      await inParallel(96, 32, async (i) => {
        await current.store.put(`${folder}/many/${i}`, [pattern(1_000, i)]);
        await expectObject(current.store, `${folder}/many/${i}`, pattern(1_000, i));
      });
    });

    test("writes into folders that deletes are emptying", async () => {
      const folder = current.folder();
      const at = (i: number): string => `${folder}/${i % 4}/sub/${i}`;
      await inParallel(200, 32, async (i) => {
        await current.store.put(at(i), [pattern(10, i)]);
        if (i % 2 === 0) await current.store.delete(at(i));
      });
      const odd = Array.from({ length: 100 }, (_, i) => at(2 * i + 1)).sort();
      expect(await keysOf(current.store, `${folder}/`)).toEqual(odd);
    });
  });
}

function everyCall(store: ObjectStore, key: string): (() => Promise<unknown>)[] {
  return [
    () => store.put(key, [pattern(1)]),
    () => store.putMultipart(key, (async function* () {})()),
    () => store.getRange(key, 0, 1),
    () => store.head(key),
    () => store.delete(key),
  ];
}
