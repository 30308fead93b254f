import { afterEach, describe, expect, test } from "@jest/globals";
import { systemClock } from "@sluice/runtime";
import { objectStoreLimits } from "../limits.ts";
import type { ObjectStore } from "../port.ts";
import { type Current, expectObject, failure, keysOf, pattern, type ServerControl, untilAnswered } from "./subject.ts";

const partBytes = objectStoreLimits.partBytesMin;
const MiB = 1024 * 1024;
const TIMEOUT_MS = 250;
/** Far above the deadline, far below the adapter's own time-outs. */
const PROMPT_MS = 3_000;

export function describeServer(current: Current): void {
  const server = (): ServerControl => {
    const { server } = current.subject;
    if (server === undefined) throw new Error("the subject has no server");
    return server;
  };

  describe("the server's deaths and pauses", () => {
    afterEach(async () => {
      server().resume();
      await server().start();
    }, 30_000);

    test("killed in the middle of a put: an error; after its start the retry works", async () => {
      const folder = current.folder();
      const bytes = pattern(48 * MiB);
      await current.store.put(`${folder}/before`, [pattern(1_000)]);
      // Stopped first, so that the put is under way and cannot end: its bytes do not fit in the buffers of a socket.
      server().pause();
      const put = current.store.put(`${folder}/big`, [bytes]);
      const failed = failure(put);
      await systemClock.sleep(50);
      await server().kill();
      expect(await failed).toBe("OBJECT_STORE_UNAVAILABLE");
      expect(await failure(current.store.head(`${folder}/big`))).toBe("OBJECT_STORE_UNAVAILABLE");
      await server().start();
      expect(await untilAnswered(() => current.store.head(`${folder}/big`))).toBeUndefined();
      await current.store.put(`${folder}/big`, [bytes]);
      await expectObject(current.store, `${folder}/big`, bytes);
      if (server().keepsData) await expectObject(current.store, `${folder}/before`, pattern(1_000));
    }, 60_000);

    test("killed between two parts: an error, nothing visible; after its start the retry works", async () => {
      const folder = current.folder();
      const bytes = pattern(3 * partBytes + 17);
      async function* body(): AsyncGenerator<Uint8Array> {
        yield bytes.subarray(0, 2 * partBytes);
        await server().kill();
        yield bytes.subarray(2 * partBytes);
      }
      const put = current.store.putMultipart(`${folder}/parts`, body(), { partBytes });
      expect(await failure(put)).toBe("OBJECT_STORE_UNAVAILABLE");
      await server().start();
      expect(await untilAnswered(() => keysOf(current.store, folder))).toEqual([]);
      async function* again(): AsyncGenerator<Uint8Array> {
        yield bytes;
      }
      await current.store.putMultipart(`${folder}/parts`, again(), { partBytes });
      await expectObject(current.store, `${folder}/parts`, bytes);
    }, 60_000);

    test("paused: every call ends at its deadline or with its signal, and works after the resume", async () => {
      const key = `${current.folder()}/paused`;
      await current.store.put(key, [pattern(10)]);
      server().pause();
      for (const call of reads(current.store, key)) {
        const startMs = systemClock.monotonicMs();
        expect(await failure(call({ timeoutMs: TIMEOUT_MS }))).toBe("OBJECT_STORE_UNAVAILABLE");
        expect(systemClock.monotonicMs() - startMs).toBeLessThan(PROMPT_MS);
      }
      const controller = new AbortController();
      const waiting = reads(current.store, key).map((call) => failure(call({ signal: controller.signal })));
      await systemClock.sleep(50);
      controller.abort();
      expect(new Set(await Promise.all(waiting))).toEqual(new Set(["CANCELLED"]));
      server().resume();
      await untilAnswered(() => current.store.head(key));
      await expectObject(current.store, key, pattern(10));
    }, 30_000);

    test("away: every call says so", async () => {
      const key = `${current.folder()}/away`;
      await server().kill();
      for (const call of [...reads(current.store, key), () => current.store.delete(key), () => current.store.put(key, [pattern(1)])]) {
        expect(await failure(call({}))).toBe("OBJECT_STORE_UNAVAILABLE");
      }
    }, 30_000);
  });
}

type Call = (options: { readonly timeoutMs?: number; readonly signal?: AbortSignal }) => Promise<unknown>;
const reads = (store: ObjectStore, key: string): Call[] => [
  (options) => store.head(key, options),
  (options) => store.getRange(key, 0, 1, options),
  (options) => store.put(`${key}-other`, [pattern(16 * MiB)], options),
  async (options) => {
    for await (const info of store.list(key, options)) return info;
    return undefined;
  },
];
