import { describe, expect } from "@jest/globals";
import { limits } from "@sluice/core/model";
import type { Op } from "../port.ts";
import { apply, bytes, codeOfRejection, put, text, type RunCase } from "./helpers.ts";

/** Reads, transactions and what they refuse. */
export function transactionCases(run: RunCase): void {
  describe("reads", () => {
    run("an absent key, a new key, a changed key, a key made again", async ({ store, prefix }) => {
      const key = `${prefix}k`;
      expect((await store.get(key)).entry).toBeUndefined();
      const first = await apply(store, put(key, "1"));
      const second = await apply(store, put(key, "2"));
      expect(second.revision).toBe(first.revision + 1);
      expect(await store.get(key)).toEqual({
        entry: { key, value: bytes("2"), createRevision: first.revision, modRevision: second.revision, version: 2, lease: "0" },
        revision: second.revision,
      });
      await apply(store, { kind: "delete", key });
      expect((await store.get(key)).entry).toBeUndefined();
      const again = await apply(store, put(key, "3"));
      expect((await store.get(key)).entry).toMatchObject({ createRevision: again.revision, modRevision: again.revision, version: 1 });
    });

    run("a value of any bytes, and an empty one", async ({ store, prefix }) => {
      const value = Uint8Array.from({ length: 256 }, (_, i) => i);
      await apply(store, { kind: "put", key: `${prefix}all`, value }, put(`${prefix}empty`));
      expect((await store.get(`${prefix}all`)).entry?.value).toEqual(value);
      expect((await store.get(`${prefix}empty`)).entry?.value).toEqual(new Uint8Array(0));
    });

    run("a listing holds the keys below the prefix alone, in the order of their UTF-8 bytes", async ({ store, prefix }) => {
      // As UTF-16, U+FFFF would come after the emoji.
      const keys = ["a/", "a/1", "a/10", "a/é", "a/\uffff", "a/😀"].map((key) => prefix + key);
      await apply(store, ...keys.toReversed().map((key) => put(key)), put(`${prefix}a`), put(`${prefix}a0`), put(`${prefix}b/1`));
      const listing = await store.list(`${prefix}a/`);
      expect(listing.entries.map((entry) => entry.key)).toEqual(keys);
      expect(listing.revision).toBe((await store.get(prefix)).revision);
      expect((await store.list("")).entries.length).toBeGreaterThanOrEqual(keys.length + 3);
    });

    run("a long listing is one snapshot, however many pages it takes", async ({ store, prefix }) => {
      const keys = Array.from({ length: 2_500 }, (_, i) => `${prefix}${String(i).padStart(5, "0")}`);
      for (let i = 0; i < keys.length; i += 125) await apply(store, ...keys.slice(i, i + 125).map((key) => put(key, "old")));
      const before = await store.get(prefix);
      // Each transaction changes the first and the last key together: a listing from two moments would show one old and one new.
      const changing = (async () => {
        for (let i = 0; i < 50; i++) await apply(store, put(keys[0] as string, `new ${i}`), put(keys.at(-1) as string, `new ${i}`));
      })();
      const listing = await store.list(prefix);
      await changing;
      expect(listing.revision).toBeGreaterThanOrEqual(before.revision);
      expect(listing.entries.map((entry) => entry.key)).toEqual(keys);
      expect(listing.entries.at(-1)?.value).toEqual(listing.entries[0]?.value);
      expect(Math.max(...listing.entries.map((entry) => entry.modRevision))).toBeLessThanOrEqual(listing.revision);
    });
  });

  describe("transactions", () => {
    run("compares of creation and change: all must hold, else the other branch runs", async ({ store, prefix }) => {
      const [a, b] = [`${prefix}a`, `${prefix}b`];
      const made = await store.txn({ compare: [{ key: a, target: "create", equals: 0 }], then: [put(a, "1")], else: [put(b, "no")] });
      expect(made).toMatchObject({ succeeded: true, results: [{ kind: "put" }] });
      const changed = await apply(store, put(a, "2"));
      const bothHold = [
        { key: a, target: "create", equals: made.revision },
        { key: a, target: "mod", equals: changed.revision },
        { key: b, target: "mod", equals: 0 },
      ] as const;
      expect(await store.txn({ compare: bothHold, then: [] })).toMatchObject({ succeeded: true, results: [] });
      const refused = await store.txn({
        compare: [...bothHold, { key: a, target: "mod", equals: made.revision }],
        then: [put(a, "3")],
        else: [{ kind: "get", key: a }, put(b, "else")],
      });
      expect(refused.succeeded).toBe(false);
      expect(refused.results).toMatchObject([{ kind: "range", entries: [{ key: a, value: bytes("2") }] }, { kind: "put" }]);
      expect(text((await store.get(b)).entry?.value ?? bytes(""))).toBe("else");
      expect(await store.txn({ compare: [{ key: a, target: "create", equals: 0 }], then: [put(a)] })).toMatchObject({
        succeeded: false,
        results: [],
      });
    });

    run("operations run in order, in one revision, and each has its result", async ({ store, prefix }) => {
      const [a, b, old] = [`${prefix}a`, `${prefix}b`, `${prefix}old/`];
      await apply(store, put(`${old}1`), put(`${old}2`), put(b, "before"));
      const done = await apply(
        store,
        { kind: "get", key: a },
        put(a, "1"),
        { kind: "get", key: a },
        { kind: "delete", key: b },
        { kind: "delete", key: `${prefix}absent` },
        { kind: "deletePrefix", prefix: old },
        { kind: "list", prefix },
      );
      const entry = { key: a, value: bytes("1"), createRevision: done.revision, modRevision: done.revision, version: 1, lease: "0" };
      expect(done.results).toEqual([
        { kind: "range", entries: [] },
        { kind: "put" },
        { kind: "range", entries: [entry] },
        { kind: "delete", deleted: 1 },
        { kind: "delete", deleted: 0 },
        { kind: "delete", deleted: 2 },
        { kind: "range", entries: [entry] },
      ]);
    });

    run("what changes nothing takes no revision", async ({ store, prefix }) => {
      const { revision } = await apply(store, put(`${prefix}k`));
      const nothing = await apply(store, { kind: "delete", key: `${prefix}absent` }, { kind: "deletePrefix", prefix: `${prefix}absent/` });
      expect(nothing.revision).toBe(revision);
      expect((await apply(store, { kind: "get", key: `${prefix}k` })).revision).toBe(revision);
      expect((await store.list(prefix)).revision).toBe(revision);
    });

    run("one of 16 who compare and swap at the same time wins", async ({ store, server, prefix }) => {
      const others = server.shared ? [await server.open(), await server.open()] : [];
      const stores = [store, ...others];
      const key = `${prefix}k`;
      const { revision } = await apply(store, put(key, "free"));
      const compare = [{ key, target: "mod", equals: revision }] as const;
      const tries = Array.from({ length: 16 }, (_, i) =>
        (stores[i % stores.length] ?? store).txn({ compare, then: [put(key, `winner ${i}`)], else: [{ kind: "get", key }] }),
      );
      const results = await Promise.all(tries);
      expect(results.filter((result) => result.succeeded)).toHaveLength(1);
      const winner = results.findIndex((result) => result.succeeded);
      expect((await store.get(key)).entry).toMatchObject({ value: bytes(`winner ${winner}`), version: 2 });
      // The losers saw the winner's value in the same transaction.
      for (const result of results) {
        if (!result.succeeded) expect(result.results).toMatchObject([{ entries: [{ value: bytes(`winner ${winner}`) }] }]);
      }
      for (const other of others) await other.close();
    });

    run("a read begun after an answer sees what was answered, whoever asks", async ({ store, server, prefix }) => {
      const other = server.shared ? await server.open() : store;
      for (let i = 0; i < 50; i++) {
        const { revision } = await apply(store, put(`${prefix}k`, String(i)));
        const read = await other.get(`${prefix}k`);
        expect(read).toMatchObject({ entry: { value: bytes(String(i)), modRevision: revision } });
        expect((await other.list(prefix)).entries[0]?.modRevision).toBe(revision);
      }
      if (other !== store) await other.close();
    });
  });

  describe("refusals", () => {
    const many = (count: number, prefix: string): Op[] => Array.from({ length: count }, (_, i) => put(`${prefix}${i}`));
    const refused: [string, (prefix: string) => Op[]][] = [
      ["two puts of one key", (p) => [put(`${p}k`, "1"), put(`${p}k`, "2")]],
      ["a put and a delete of one key", (p) => [put(`${p}k`), { kind: "delete", key: `${p}k` }]],
      [
        "two deletes of one key",
        (p) => [
          { kind: "delete", key: `${p}k` },
          { kind: "delete", key: `${p}k` },
        ],
      ],
      ["a put under a deleted prefix", (p) => [{ kind: "deletePrefix", prefix: `${p}d/` }, put(`${p}d/k`)]],
      ["a put before the delete of its prefix", (p) => [put(`${p}d/k`), { kind: "deletePrefix", prefix: `${p}d/` }]],
      [
        "overlapping prefixes",
        (p) => [
          { kind: "deletePrefix", prefix: `${p}d/` },
          { kind: "deletePrefix", prefix: `${p}d/e/` },
        ],
      ],
      [
        "the same prefix twice",
        (p) => [
          { kind: "deletePrefix", prefix: `${p}d/` },
          { kind: "deletePrefix", prefix: `${p}d/` },
        ],
      ],
      ["the empty prefix", () => [{ kind: "deletePrefix", prefix: "" }]],
      ["the empty key", () => [put("")]],
      ["a key that is not Unicode", (p) => [put(`${p}\ud800`)]],
      ["too many operations", (p) => many(limits.metadataTxnOpsMax + 1, p)],
      ["too many bytes", (p) => [{ kind: "put", key: `${p}k`, value: new Uint8Array(limits.metadataTxnBytesMax) }]],
    ];
    for (const [name, ops] of refused) {
      run(name, async ({ store, prefix }) => {
        const before = await store.list(prefix);
        expect(await codeOfRejection(apply(store, ...ops(prefix)))).toBe("INVALID_ARGUMENT");
        const inElse = store.txn({ compare: [], then: [], else: ops(prefix) });
        expect(await codeOfRejection(inElse)).toBe("INVALID_ARGUMENT");
        expect(await store.list(prefix)).toEqual(before);
      });
    }

    run("as many operations and compares as are allowed are done", async ({ store, prefix }) => {
      const ops = many(limits.metadataTxnOpsMax, prefix);
      const compare = ops.map((op) => ({ key: (op as { key: string }).key, target: "create" as const, equals: 0 }));
      expect((await store.txn({ compare, then: ops })).succeeded).toBe(true);
      expect((await store.list(prefix)).entries).toHaveLength(limits.metadataTxnOpsMax);
      const tooMany = [...compare, { key: `${prefix}one more`, target: "create" as const, equals: 0 }];
      expect(await codeOfRejection(store.txn({ compare: tooMany, then: [] }))).toBe("INVALID_ARGUMENT");
    });

    run("the same key in both branches is no conflict", async ({ store, prefix }) => {
      const done = await store.txn({ compare: [], then: [put(`${prefix}k`, "then")], else: [put(`${prefix}k`, "else")] });
      expect(done.succeeded).toBe(true);
    });

    run("a lease that does not exist: nothing of the transaction is done", async ({ store, prefix }) => {
      expect(await codeOfRejection(apply(store, put(`${prefix}a`), put(`${prefix}b`, "", "123456789")))).toBe("LEASE_LOST");
      expect((await store.list(prefix)).entries).toEqual([]);
    });

    run("a caller who has given up already", async ({ store, prefix }) => {
      const options = { signal: AbortSignal.abort() };
      expect(await codeOfRejection(store.get(`${prefix}k`, options))).toBe("CANCELLED");
      expect(await codeOfRejection(store.txn({ compare: [], then: [put(`${prefix}k`)] }, options))).toBe("CANCELLED");
      expect((await store.get(`${prefix}k`)).entry).toBeUndefined();
    });

    run("a closed store: closing again is fine, calls and watches end", async ({ store, prefix }) => {
      const watching = (async () => {
        for await (const batch of store.watch(prefix, 1, new AbortController().signal)) void batch;
      })();
      const ended = codeOfRejection(watching);
      await store.get(prefix);
      await store.close();
      await store.close();
      expect(await ended).toBe("METADATA_UNAVAILABLE");
      expect(await codeOfRejection(store.get(prefix))).toBe("METADATA_UNAVAILABLE");
      expect(await codeOfRejection(apply(store, put(prefix)))).toBe("METADATA_UNAVAILABLE");
      expect(await codeOfRejection(store.lease(5_000))).toBe("METADATA_UNAVAILABLE");
    });
  });
}
