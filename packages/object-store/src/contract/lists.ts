import { describe, expect, test } from "@jest/globals";
import { type Current, failure, inParallel, keysOf, listed, pattern } from "./subject.ts";

const COUNT = 1_050;

export function describeLists(current: Current): void {
  describe("lists", () => {
    test("more keys than a page, in order, each once, by any prefix", async () => {
      const { store } = current;
      const folder = current.folder();
      const keys = Array.from(
        { length: COUNT },
        (_, i) => `${folder}/${i % 3 === 0 ? "p/q-" : "p."}${(i * 7_919) % COUNT}${i % 2 === 0 ? ".x" : "/y"}`,
      );
      await inParallel(COUNT, 32, (i) => store.put(keys[i] ?? "", [pattern(i % 5)]));
      const sorted = keys.toSorted();
      const all = await listed(store, `${folder}/`);
      expect(all.map((info) => info.key)).toEqual(sorted);
      expect(all.map((info) => info.sizeBytes)).toEqual(sorted.map((key) => keys.indexOf(key) % 5));
      for (const prefix of ["/p", "/p/", "/p.", "/p.1", "/p/q-10", "/p/q", "/pp", "/p/q/"]) {
        const want = sorted.filter((key) => key.startsWith(folder + prefix));
        expect(await keysOf(store, folder + prefix)).toEqual(want);
      }
      expect((await keysOf(store, "")).filter((key) => key.startsWith(`${folder}/`))).toEqual(sorted);
    }, 60_000);

    test("order is that of the whole key: a slash sorts as the character it is", async () => {
      const { store } = current;
      const folder = current.folder();
      const keys = ["a/b", "a-b", "a.b", "a0", "a/b-c/d", "a/b.c", "A", "a_"].map((key) => `${folder}/${key}`);
      for (const key of keys) await store.put(key, []);
      expect(await keysOf(store, `${folder}/`)).toEqual(keys.toSorted());
      expect(await keysOf(store, `${folder}/a`)).toEqual(keys.filter((key) => !key.endsWith("/A")).sort());
    });

    test("a reader may stop early and start again", async () => {
      const { store } = current;
      const folder = current.folder();
      for (const name of ["1", "2", "3"]) await store.put(`${folder}/${name}`, []);
      for (let i = 0; i < 3; i++) {
        for await (const info of store.list(`${folder}/`)) {
          expect(info.key).toBe(`${folder}/1`);
          break;
        }
      }
      expect(await keysOf(store, `${folder}/`)).toHaveLength(3);
    });

    test("a key deleted while the list is read does no harm", async () => {
      const { store } = current;
      const folder = current.folder();
      const keys = Array.from({ length: 20 }, (_, i) => `${folder}/${String(i).padStart(2, "0")}/x`);
      for (const key of keys) await store.put(key, []);
      let seen = 0;
      for await (const info of store.list(`${folder}/`)) {
        seen += 1;
        await store.delete(info.key);
      }
      expect(seen).toBe(20);
      expect(await keysOf(store, folder)).toEqual([]);
    });

    test("no match is an empty list, a bad prefix is refused", async () => {
      expect(await keysOf(current.store, `${current.folder()}/`)).toEqual([]);
      for (const prefix of ["/", "/a", "a//", "a b", "../", "a/../", "a/./", "ä"]) {
        expect(await failure(keysOf(current.store, prefix))).toBe("INVALID_ARGUMENT");
      }
    });
  });
}
