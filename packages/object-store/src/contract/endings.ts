import { describe, expect, test } from "@jest/globals";
import type { CallOptions, ObjectStore } from "../port.ts";
import { type Current, expectObject, failure, keysOf, listed, pattern, pieces } from "./subject.ts";

const calls = (store: ObjectStore, key: string, options?: CallOptions): (() => Promise<unknown>)[] => [
  () => store.put(key, [pattern(1)], options),
  () => store.putMultipart(key, pieces(pattern(1), [1]), options),
  () => store.getRange(key, 0, 1, options),
  () => store.head(key, options),
  () => store.delete(key, options),
  async () => {
    for await (const info of store.list(key, options)) return info;
    return undefined;
  },
];

export function describeEndings(current: Current): void {
  describe("endings", () => {
    test("a signal that has aborted already: CANCELLED, and nothing is done", async () => {
      const key = `${current.folder()}/kept`;
      await current.store.put(key, [pattern(7)]);
      for (const call of calls(current.store, key, { signal: AbortSignal.abort() })) expect(await failure(call())).toBe("CANCELLED");
      await expectObject(current.store, key, pattern(7));
    });

    test("a signal that aborts while the body hangs ends the call at once; nothing becomes visible", async () => {
      const folder = current.folder();
      const controller = new AbortController();
      const put = current.store.putMultipart(`${folder}/hung`, hanging(controller), { signal: controller.signal });
      expect(await failure(put)).toBe("CANCELLED");
      expect(await current.store.head(`${folder}/hung`)).toBeUndefined();
      expect(await keysOf(current.store, folder)).toEqual([]);
    });

    test("a deadline ends a call whose body hangs", async () => {
      const folder = current.folder();
      const put = current.store.putMultipart(`${folder}/late`, hanging(), { timeoutMs: 60 });
      expect(await failure(put)).toBe("OBJECT_STORE_UNAVAILABLE");
      expect(await keysOf(current.store, folder)).toEqual([]);
    });

    test("deadlines that are none are refused", async () => {
      for (const timeoutMs of [0, -1, Number.NaN, Infinity]) {
        for (const call of calls(current.store, "some-key", { timeoutMs })) expect(await failure(call())).toBe("INVALID_ARGUMENT");
      }
    });

    test("a signal and a deadline that do not fire change nothing", async () => {
      const key = `${current.folder()}/calm`;
      const options = { signal: new AbortController().signal, timeoutMs: 60_000 };
      await current.store.put(key, [pattern(9)], options);
      await expectObject(current.store, key, pattern(9));
      for (const call of calls(current.store, key, options)) await call();
    });

    test("another client sees the same objects; a closed one refuses every call, and closes twice", async () => {
      if (current.subject.reopen === undefined) return;
      const other = await current.subject.reopen();
      const key = `${current.folder()}/shared`;
      await current.store.put(key, [pattern(11)]);
      await expectObject(other, key, pattern(11));
      expect(await listed(other, key)).toEqual(await listed(current.store, key));
      await other.close();
      await other.close();
      for (const call of calls(other, key)) expect(await failure(call())).toBe("OBJECT_STORE_UNAVAILABLE");
      await expectObject(current.store, key, pattern(11));
    });
  });
}

/** Gives one piece, then nothing, ever. Aborts `controller` once the call waits for the second piece. */
async function* hanging(controller?: AbortController): AsyncGenerator<Uint8Array> {
  yield pattern(10);
  controller?.abort();
  await new Promise<never>(() => {});
}
