import { describe, expect } from "@jest/globals";
import type { WatchEvent } from "../port.ts";
import { apply, bytes, codeOfRejection, put, revisionOf, WatchLog, type RunCase } from "./helpers.ts";

/** How many events of each revision came, in order. */
const sizes = (events: readonly WatchEvent[]): number[] => {
  const counts = new Map<number, number>();
  for (const event of events) counts.set(revisionOf(event), (counts.get(revisionOf(event)) ?? 0) + 1);
  return [...counts.values()];
};

export function watchCases(run: RunCase): void {
  describe("watches", () => {
    run("from a past revision, over a deletion and a new creation, then live", async ({ server, store, prefix }) => {
      const key = `${prefix}k`;
      const first = await apply(store, put(key, "1"));
      await apply(store, put(key, "2"), put(`${prefix}l`, "x"));
      await apply(store, { kind: "delete", key });
      const again = await apply(store, put(key, "3"));
      const log = new WatchLog(server, store, prefix, first.revision);
      const past = [`put ${key}=1`, `put ${key}=2`, `put ${prefix}l=x`, `delete ${key}`, `put ${key}=3`];
      await log.until(past.length);
      expect(log.lines()).toEqual(past);
      expect(log.events.at(-1)).toEqual({
        type: "put",
        entry: {
          key,
          value: bytes("3"),
          createRevision: again.revision,
          modRevision: again.revision,
          version: 1,
          lease: "0",
        },
      });
      const gone = await apply(store, { kind: "deletePrefix", prefix });
      await log.until(past.length + 2);
      expect(log.lines().slice(past.length)).toEqual([`delete ${key}`, `delete ${prefix}l`]);
      expect(log.events.at(-1)).toMatchObject({ modRevision: gone.revision });
      expect(log.revision).toBeGreaterThanOrEqual(gone.revision);
      await log.stop();
    });

    run("from the middle: nothing of before", async ({ server, store, prefix }) => {
      const revisions: number[] = [];
      for (let i = 0; i < 10; i++) revisions.push((await apply(store, put(`${prefix}k`, String(i)))).revision);
      const log = new WatchLog(server, store, prefix, revisions[4] as number);
      await log.until(6);
      expect(log.lines()).toEqual([4, 5, 6, 7, 8, 9].map((i) => `put ${prefix}k=${i}`));
      await log.stop();
    });

    run("from a revision that is still to come", async ({ server, store, prefix }) => {
      const { revision } = await apply(store, put(`${prefix}k`, "0"));
      const log = new WatchLog(server, store, prefix, revision + 3);
      for (let i = 1; i <= 5; i++) await apply(store, put(`${prefix}k`, String(i)));
      await log.until(3);
      expect(log.lines()).toEqual([3, 4, 5].map((i) => `put ${prefix}k=${i}`));
      await log.stop();
    });

    run("the keys below the prefix alone", async ({ server, store, prefix }) => {
      const { revision } = await apply(store, put(`${prefix}a`), put(`${prefix}a/`), put(`${prefix}a/1`), put(`${prefix}a0`));
      await apply(store, put(`${prefix}b`));
      await apply(store, { kind: "delete", key: `${prefix}a/1` }, { kind: "delete", key: `${prefix}a0` });
      const log = new WatchLog(server, store, `${prefix}a/`, revision);
      await log.until(3);
      expect(log.lines()).toEqual([`put ${prefix}a/=`, `put ${prefix}a/1=`, `delete ${prefix}a/1`]);
      await log.stop();
    });

    run("a revision is never split, while catching up and live", async ({ server, store, prefix }) => {
      const { revision } = await apply(store, put(`${prefix}first`));
      const ops = (count: number, value: string) => Array.from({ length: count }, (_, i) => put(`${prefix}${i}`, value));
      const counts = Array.from({ length: 60 }, (_, i) => 1 + ((i * 37) % 100));
      for (const count of counts.slice(0, 40)) await apply(store, ...ops(count, "past"));
      const log = new WatchLog(server, store, prefix, revision);
      for (const count of counts.slice(40)) await apply(store, ...ops(count, "live"));
      await log.until(1 + counts.reduce((sum, count) => sum + count, 0));
      expect(sizes(log.events)).toEqual([1, ...counts]);
      await log.stop();
    });

    run("large revisions", async ({ server, store, prefix }) => {
      const value = new Uint8Array(10_000).fill(7);
      const ops = Array.from({ length: 100 }, (_, i) => ({ kind: "put" as const, key: `${prefix}${i}`, value }));
      const { revision } = await apply(store, ...ops);
      for (let i = 0; i < 7; i++) await apply(store, ...ops);
      const log = new WatchLog(server, store, prefix, revision);
      await log.until(800);
      expect(sizes(log.events)).toEqual(Array.from({ length: 8 }, () => 100));
      await log.stop();
    });

    run("a reader that is slow gets everything", async ({ server, store, prefix }) => {
      const { revision } = await apply(store, put(`${prefix}first`));
      const stop = new AbortController();
      const events: WatchEvent[] = [];
      const reading = (async () => {
        for await (const batch of store.watch(prefix, revision, stop.signal)) {
          events.push(...batch.events);
          await server.passTime(10);
          if (events.length >= 1_001) stop.abort();
        }
      })();
      for (let i = 0; i < 100; i++) await apply(store, ...Array.from({ length: 10 }, (_, k) => put(`${prefix}${k}`, String(i))));
      await reading;
      expect(sizes(events)).toEqual([1, ...Array.from({ length: 100 }, () => 10)]);
    });

    run("many watches of one store", async ({ server, store, prefix }) => {
      const { revision } = await apply(store, put(`${prefix}k`, "0"));
      const logs = Array.from({ length: 40 }, () => new WatchLog(server, store, prefix, revision));
      for (let i = 1; i < 20; i++) await apply(store, put(`${prefix}k`, String(i)));
      for (const log of logs) await log.until(20);
      for (const log of logs) expect(log.lines()).toEqual(logs[0]?.lines());
      for (const log of logs) await log.stop();
    });

    run("an aborted signal ends a watch, before it begins too; so does leaving the loop", async ({ server, store, prefix }) => {
      const log = new WatchLog(server, store, prefix, 1);
      await log.stop();
      for await (const batch of store.watch(prefix, 1, AbortSignal.abort())) expect(batch).toBe("never");
      await apply(store, put(`${prefix}k`));
      let batches = 0;
      for await (const batch of store.watch(prefix, 1, new AbortController().signal)) {
        if (batch.events.length === 0) continue;
        batches++;
        break;
      }
      expect(batches).toBe(1);
    });

    run("a start that is no revision is refused", async ({ store, prefix }) => {
      for (const from of [-1, 1.5, Number.NaN]) {
        const watch = async () => {
          for await (const batch of store.watch(prefix, from, new AbortController().signal)) void batch;
        };
        expect(await codeOfRejection(watch())).toBe("INVALID_ARGUMENT");
      }
    });
  });
}

/** Compacts the shared history, so these come after the others. */
export function compactionCases(run: RunCase): void {
  describe("compaction", () => {
    run("history at the revision and above stays whole, deletions too; below it is COMPACTED", async ({ server, store, prefix }) => {
      await apply(store, put(`${prefix}a`, "1"), put(`${prefix}b`, "1"));
      await apply(store, put(`${prefix}a`, "2"));
      const deleted = await apply(store, { kind: "delete", key: `${prefix}a` });
      await apply(store, put(`${prefix}c`, "1"));
      await store.compact(deleted.revision);
      const log = new WatchLog(server, store, prefix, deleted.revision);
      await log.until(2);
      expect(log.lines()).toEqual([`delete ${prefix}a`, `put ${prefix}c=1`]);
      await log.stop();
      const below = new WatchLog(server, store, prefix, deleted.revision - 1);
      await below.done;
      expect(below.ended?.error).toMatchObject({ code: "COMPACTED" });
      expect(below.events).toEqual([]);
      expect((await store.list(prefix)).entries.map((entry) => entry.key)).toEqual([`${prefix}b`, `${prefix}c`]);
    });

    run("again, or lower, changes nothing; a revision to come is refused", async ({ store, prefix }) => {
      const { revision } = await apply(store, put(`${prefix}k`));
      await store.compact(revision);
      await store.compact(revision);
      await store.compact(revision - 1);
      await store.compact(0);
      expect(await codeOfRejection(store.compact(revision + 100))).toBe("INVALID_ARGUMENT");
      expect((await store.get(`${prefix}k`)).revision).toBe(revision);
    });

    run("a watch that is up to date does not notice", async ({ server, store, prefix }) => {
      const { revision } = await apply(store, put(`${prefix}k`, "0"));
      const log = new WatchLog(server, store, prefix, revision);
      for (let i = 1; i <= 20; i++) {
        const done = await apply(store, put(`${prefix}k`, String(i)));
        await log.until(i + 1);
        await store.compact(done.revision);
      }
      await log.stop();
    });
  });
}
