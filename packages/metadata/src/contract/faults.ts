import { describe, expect } from "@jest/globals";
import type { MetadataStore, Txn } from "../port.ts";
import { apply, bytes, codeOfRejection, eventually, put, text, WatchLog, type CaseContext, type RunCase } from "./helpers.ts";
import type { MetadataContractFaults } from "./subject.ts";

const faultsOf = ({ server }: CaseContext): MetadataContractFaults => {
  if (server.faults === undefined) throw new Error("this subject has no faults");
  return server.faults;
};

/** Sends the identical transaction until its outcome is known. */
async function settle(store: MetadataStore, txn: Txn, counts?: { unknown: number }): Promise<Awaited<ReturnType<MetadataStore["txn"]>>> {
  for (;;) {
    try {
      return await store.txn(txn, { timeoutMs: 500 });
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== "UNKNOWN_OUTCOME" && code !== "METADATA_UNAVAILABLE") throw error;
      if (counts !== undefined && code === "UNKNOWN_OUTCOME") counts.unknown++;
    }
  }
}

/** Puts one key until stopped, whatever happens to each put: the versions in a watch tell whether one is missing or doubled. */
async function writeOn(store: MetadataStore, key: string, stopped: () => boolean): Promise<void> {
  for (let i = 0; !stopped(); i++) await codeOfRejection(store.txn({ compare: [], then: [put(key, String(i))] }, { timeoutMs: 300 }));
}

export function restartCases(run: RunCase): void {
  describe("restart", () => {
    run("data, revisions and history survive", async (context) => {
      const { server, prefix } = context;
      const first = await apply(context.store, put(`${prefix}a`, "1"));
      await apply(context.store, put(`${prefix}b`, "1"), put(`${prefix}a`, "2"));
      const last = await apply(context.store, { kind: "delete", key: `${prefix}b` });
      const before = await context.store.list(prefix);
      const store = (context.store = await server.restart(context.store));
      expect((await store.list(prefix)).entries).toEqual(before.entries);
      const next = await apply(store, put(`${prefix}c`, "1"));
      expect(next.revision).toBeGreaterThan(last.revision);
      const log = new WatchLog(server, store, prefix, first.revision);
      await log.until(5);
      const expected = [`put ${prefix}a=1`, `put ${prefix}b=1`, `put ${prefix}a=2`, `delete ${prefix}b`, `put ${prefix}c=1`];
      expect(log.lines()).toEqual(expected);
      await log.stop();
    });
  });
}

export function faultCases(run: RunCase): void {
  describe("faults", () => {
    run("no server: nothing was sent, so nothing was applied", async (context) => {
      const { store, prefix } = context;
      await apply(store, put(`${prefix}k`, "1"));
      await faultsOf(context).kill();
      const options = { timeoutMs: 300 };
      // The first call may still find the connection that has just died.
      await codeOfRejection(store.get(`${prefix}k`, options));
      expect(await codeOfRejection(store.txn({ compare: [], then: [put(`${prefix}k`, "2")] }, options))).toBe("METADATA_UNAVAILABLE");
      expect(await codeOfRejection(store.get(`${prefix}k`, options))).toBe("METADATA_UNAVAILABLE");
      expect(await codeOfRejection(store.list(prefix, options))).toBe("METADATA_UNAVAILABLE");
      expect(await codeOfRejection(store.lease(1_000, options))).toBe("METADATA_UNAVAILABLE");
      await faultsOf(context).start();
      expect((await store.get(`${prefix}k`)).entry).toMatchObject({ value: bytes("1"), version: 1 });
    });

    run("a server that stops answering: the outcome is unknown, and the identical transaction settles it", async (context) => {
      const { store, prefix } = context;
      const key = `${prefix}k`;
      await store.get(key);
      const txn: Txn = { compare: [{ key, target: "create", equals: 0 }], then: [put(key, "mine")], else: [{ kind: "get", key }] };
      faultsOf(context).pause();
      const given = new AbortController();
      const codes = [
        codeOfRejection(store.txn(txn, { timeoutMs: 300 })),
        codeOfRejection(store.txn(txn, { signal: given.signal })),
        codeOfRejection(store.get(key, { timeoutMs: 300 })),
        codeOfRejection(store.get(key, { signal: given.signal })),
      ];
      await context.server.passTime(200);
      given.abort();
      expect(await Promise.all(codes)).toEqual(["UNKNOWN_OUTCOME", "UNKNOWN_OUTCOME", "METADATA_UNAVAILABLE", "CANCELLED"]);
      faultsOf(context).resume();
      const settled = await settle(store, txn);
      if (!settled.succeeded) expect(settled.results).toMatchObject([{ kind: "range", entries: [{ value: bytes("mine") }] }]);
      expect((await store.get(key)).entry).toMatchObject({ value: bytes("mine"), version: 1 });
    });

    run("closing while calls hang ends them", async (context) => {
      const { store, prefix } = context;
      await store.get(prefix);
      faultsOf(context).pause();
      const codes = [codeOfRejection(apply(store, put(`${prefix}k`))), codeOfRejection(store.get(prefix))];
      await context.server.passTime(50);
      await store.close();
      const ended = await Promise.all(codes);
      faultsOf(context).resume();
      expect(ended).toEqual(["UNKNOWN_OUTCOME", "METADATA_UNAVAILABLE"]);
    });

    run("kill -9 and cut connections among 400 increments: each is counted once", async (context) => {
      const { server, store, prefix } = context;
      const faults = faultsOf(context);
      const key = `${prefix}counter`;
      const counts = { unknown: 0, done: 0 };
      const increment = async (writer: number): Promise<void> => {
        for (let i = 0; i < 50;) {
          const { entry } = await store.get(key, { timeoutMs: 20_000 });
          const value = `${Number(entry === undefined ? 0 : text(entry.value).split(" ")[0]) + 1} ${writer}.${i}`;
          const txn: Txn = {
            compare: [{ key, target: "mod", equals: entry?.modRevision ?? 0 }],
            then: [put(key, value), put(`${prefix}done/${writer}.${i}`, value)],
            else: [{ kind: "get", key: `${prefix}done/${writer}.${i}` }],
          };
          const result = await settle(store, txn, counts);
          const mine = result.succeeded || (result.results[0] as { entries: readonly unknown[] }).entries.length > 0;
          if (!mine) continue;
          i++;
          counts.done++;
        }
      };
      const writers = Promise.all(Array.from({ length: 8 }, (_, writer) => increment(writer)));
      await eventually(server, "some increments", () => counts.done > 50);
      faults.cut();
      await eventually(server, "more increments", () => counts.done > 100);
      await faults.kill();
      await faults.start();
      await eventually(server, "more increments", () => counts.done > 200);
      faults.cut();
      await writers;
      const { entry } = await store.get(key);
      expect(text(entry?.value ?? bytes("")).split(" ")[0]).toBe("400");
      expect((await store.list(`${prefix}done/`)).entries).toHaveLength(400);
    });
  });
}

export function watchFaultCases(run: RunCase): void {
  describe("watches through faults", () => {
    run("connections cut again and again while catching up on 8,000 events", async (context) => {
      const { server, store, prefix } = context;
      const faults = faultsOf(context);
      const expected: string[] = [];
      const filler = ".".repeat(1_000);
      let revision = 0;
      // Revisions of 40 KB, 8 MB in all: etcd answers in several messages, so that cuts fall between them as well as within.
      for (let i = 0; i < 200; i++) {
        const ops = Array.from({ length: 40 }, (_, k) => put(`${prefix}${k}`, `${i}.${k}${filler}`));
        const done = await apply(store, ...ops);
        revision ||= done.revision;
        for (let k = 0; k < 40; k++) expected.push(`put ${prefix}${k}=${i}.${k}${filler}`);
      }
      const log = new WatchLog(server, store, prefix, revision);
      // In the head of the stream, in its first message, then again and again after a message or so.
      let cuts = 0;
      for (const bytesMore of [500, 20_000, 2_500_000, 2_500_000, 2_500_000]) {
        faults.cutAfter(bytesMore, () => cuts++);
        const before = cuts;
        await eventually(server, "a cut", () => cuts > before || log.ended !== undefined || log.events.length === expected.length);
      }
      expect(cuts).toBeGreaterThan(3);
      faults.cut();
      await log.until(expected.length, 30_000);
      expect(log.lines()).toEqual(expected);
      await log.stop();
    });

    run("kill -9, pauses and cuts while events keep coming", async (context) => {
      const { server, store, prefix } = context;
      const faults = faultsOf(context);
      const key = `${prefix}k`;
      const { revision } = await apply(store, put(key, "first"));
      const log = new WatchLog(server, store, prefix, revision);
      let stopped = false;
      const writers = Promise.all(Array.from({ length: 4 }, () => writeOn(store, key, () => stopped)));
      const more = async (): Promise<void> => {
        const target = log.events.length + 300;
        await eventually(server, `${target} events`, () => log.events.length >= target);
      };
      for (let round = 0; round < 2; round++) {
        await more();
        await faults.kill();
        await faults.start();
        await more();
        faults.pause();
        await server.passTime(400);
        faults.resume();
        await more();
        faults.cut();
        await more();
      }
      stopped = true;
      await writers;
      const { entry } = await store.get(key);
      await eventually(server, "the last event", () => log.revision >= (entry?.modRevision ?? 0));
      const versions = log.events.map((event) => (event.type === "put" ? event.entry.version : 0));
      expect(versions).toEqual(Array.from({ length: entry?.version ?? 0 }, (_, i) => i + 1));
      await log.stop();
    });

    run("history compacted while the connection is down", async (context) => {
      const { server, store, prefix } = context;
      const faults = faultsOf(context);
      const other = await server.open();
      const { revision } = await apply(store, put(`${prefix}k`, "0"));
      const stop = new AbortController();
      const watch = store.watch(prefix, revision, stop.signal)[Symbol.asyncIterator]();
      expect(await watch.next()).toMatchObject({ value: { revision } });
      // The reader rests here: while it does, the stream breaks and what it has not seen is forgotten.
      faults.cut();
      const size = new Uint8Array(100_000);
      for (let i = 0; i < 100; i++) await apply(other, { kind: "put", key: `${prefix}k`, value: size });
      const { revision: last } = await other.get(`${prefix}k`);
      faults.cut();
      await other.compact(last);
      const read = async (): Promise<void> => {
        while ((await watch.next()).done !== true);
      };
      expect(await codeOfRejection(read())).toBe("COMPACTED");
      await other.close();
    });
  });
}

export function leaseFaultCases(run: RunCase): void {
  describe("leases through faults", () => {
    run("a server away for longer than the TTL: unconfirmed, not lost, and confirmed again", async (context) => {
      const { server, store, prefix } = context;
      const faults = faultsOf(context);
      const lease = await store.lease(1_000);
      await apply(store, put(`${prefix}k`, "", lease.id));
      await faults.kill();
      await server.passTime(lease.ttlMs + 500);
      expect(lease.confirmedUntilMs()).toBeLessThan(server.clock.monotonicMs());
      expect(lease.lost.aborted).toBe(false);
      await faults.start();
      // etcd begins the TTL anew when it comes back, so the key has outlived its lease.
      await eventually(server, "confirmed again", () => lease.confirmedUntilMs() > server.clock.monotonicMs());
      expect(lease.lost.aborted).toBe(false);
      expect((await store.get(`${prefix}k`)).entry?.lease).toBe(lease.id);
      await lease.revoke();
      expect((await store.get(`${prefix}k`)).entry).toBeUndefined();
    });

    run("a server that hangs for longer than the TTL: told as lost only when the server says so", async (context) => {
      const { server, store, prefix } = context;
      const faults = faultsOf(context);
      const lease = await store.lease(1_000);
      await apply(store, put(`${prefix}k`, "", lease.id));
      faults.pause();
      await server.passTime(lease.ttlMs + 500);
      expect(lease.confirmedUntilMs()).toBeLessThan(server.clock.monotonicMs());
      expect(lease.lost.aborted).toBe(false);
      faults.resume();
      // Which of the two comes first, the renewal or the end of the TTL, is the server's to say; what we were told must be true.
      await eventually(server, "an answer", () => lease.lost.aborted || lease.confirmedUntilMs() > server.clock.monotonicMs());
      await eventually(
        server,
        "key and lease agree",
        async () => ((await store.get(`${prefix}k`)).entry === undefined) === lease.lost.aborted,
      );
      await lease.revoke();
    });

    run("cut connections do not cost a lease", async (context) => {
      const { server, store, prefix } = context;
      const faults = faultsOf(context);
      const lease = await store.lease(1_000);
      await apply(store, put(`${prefix}k`, "", lease.id));
      for (let i = 0; i < 10; i++) {
        faults.cut();
        await server.passTime(250);
        expect(lease.confirmedUntilMs()).toBeGreaterThan(server.clock.monotonicMs());
      }
      expect((await store.get(`${prefix}k`)).entry).toMatchObject({ version: 1 });
      expect(lease.lost.aborted).toBe(false);
      await lease.revoke();
    });
  });
}
