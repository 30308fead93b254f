import { describe, expect, test } from "@jest/globals";
import { status } from "@grpc/grpc-js";
import { array, assert, integer, property } from "fast-check";
import { refusal } from "../src/etcd/calls.ts";
import { KeySpace, revisionOf } from "../src/etcd/convert.ts";
import type { WatchResponse } from "../src/etcd/protocol.ts";
import { RevisionAssembler } from "../src/etcd/watcher.ts";
import type { WatchBatch } from "../src/index.ts";

const keys = new KeySpace("/p/");
const event = (revision: number, name: string): WatchResponse["events"][number] => ({
  type: "Put",
  kv: {
    key: keys.key(name),
    value: new Uint8Array(0),
    create_revision: String(revision),
    mod_revision: String(revision),
    version: "1",
    lease: "0",
  },
});
const response = (events: WatchResponse["events"], more: { fragment?: boolean; revision?: number } = {}): WatchResponse => ({
  header: { revision: String(more.revision ?? 1_000_000) },
  created: false,
  canceled: false,
  compact_revision: "0",
  cancel_reason: "",
  fragment: more.fragment ?? false,
  events,
});
const seen = (batch: WatchBatch | undefined): string[] =>
  (batch?.events ?? []).map((e) => (e.type === "put" ? `${e.entry.modRevision}${e.entry.key}` : "delete"));

describe("revisions from answers", () => {
  test("the header's revision during catch-up is not where the reader is", () => {
    const assembler = new RevisionAssembler(keys, 5);
    expect(assembler.add(response([event(5, "a"), event(7, "b")], { revision: 900 }))?.revision).toBe(7);
    expect(assembler.next).toBe(8);
  });

  test("an answer without events is progress; an old one is nothing", () => {
    const assembler = new RevisionAssembler(keys, 5);
    expect(assembler.add(response([], { revision: 4 }))).toBeUndefined();
    expect(assembler.add(response([], { revision: 9 }))).toEqual({ events: [], revision: 9 });
    expect(assembler.next).toBe(10);
  });

  test("events from before the start are dropped, and such an answer is no progress", () => {
    const assembler = new RevisionAssembler(keys, 5);
    expect(assembler.add(response([event(4, "a")], { revision: 900 }))).toBeUndefined();
    expect(assembler.next).toBe(5);
    expect(seen(assembler.add(response([event(4, "a"), event(5, "a")])))).toEqual(["5a"]);
  });

  test("a fragment hands out all but the revision that it may end in", () => {
    const assembler = new RevisionAssembler(keys, 1);
    expect(seen(assembler.add(response([event(2, "a"), event(3, "a"), event(3, "b")], { fragment: true })))).toEqual(["2a"]);
    expect(assembler.next).toBe(3);
    expect(assembler.add(response([event(3, "c")], { fragment: true }))).toBeUndefined();
    expect(assembler.next).toBe(3);
    expect(seen(assembler.add(response([event(3, "d"), event(4, "a")])))).toEqual(["3a", "3b", "3c", "3d", "4a"]);
    expect(assembler.next).toBe(5);
  });

  test("however answers are cut into fragments, each event comes once, in order, and revisions whole", () => {
    const revision = integer({ min: 1, max: 5 });
    const cuts = array(integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 20 });
    assert(
      property(array(revision, { minLength: 1, maxLength: 20 }), cuts, integer({ min: 1, max: 4 }), (sizes, pieces, start) => {
        const all = sizes.flatMap((size, i) => Array.from({ length: size }, (_, k) => event(i + 1, `k${k}`)));
        const assembler = new RevisionAssembler(keys, start);
        const out: string[] = [];
        for (let at = 0, piece = 0; at < all.length; piece++) {
          const part = all.slice(at, at + (pieces[piece % pieces.length] as number));
          at += part.length;
          const next = all[at]?.kv.mod_revision;
          const batch = assembler.add(response(part, { fragment: next !== undefined && next === part.at(-1)?.kv.mod_revision }));
          if (batch === undefined) continue;
          out.push(...seen(batch));
          // Whole up to its revision: as many as there are up to there.
          expect(out).toHaveLength(
            all.filter((e) => Number(e.kv.mod_revision) >= start && Number(e.kv.mod_revision) <= batch.revision).length,
          );
        }
        expect(out).toEqual(all.filter((e) => Number(e.kv.mod_revision) >= start).map((e) => `${e.kv.mod_revision}${keys.text(e.kv.key)}`));
      }),
    );
  });
});

describe("what an error of etcd says about a write", () => {
  const of = (code: status, details: string) => refusal({ reason: "status", status: code, details })?.code;
  test("refused before anything was done", () => {
    expect(of(status.INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request")).toBe("INVALID_ARGUMENT");
    expect(of(status.NOT_FOUND, "etcdserver: requested lease not found")).toBe("LEASE_LOST");
    expect(of(status.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")).toBe("COMPACTED");
    expect(of(status.PERMISSION_DENIED, "etcdserver: permission denied")).toBe("PERMISSION_DENIED");
  });
  test("everything else leaves the outcome open", () => {
    expect(of(status.UNAVAILABLE, "etcdserver: leader changed")).toBeUndefined();
    expect(of(status.UNAVAILABLE, "Connection dropped")).toBeUndefined();
    expect(of(status.DEADLINE_EXCEEDED, "etcdserver: request timed out")).toBeUndefined();
    // etcd applies the transaction that goes over its quota, and answers this.
    expect(of(status.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")).toBeUndefined();
    expect(of(status.UNKNOWN, "")).toBeUndefined();
    expect(refusal({ reason: "timeout", status: status.INVALID_ARGUMENT, details: "" })).toBeUndefined();
  });
  test("revisions that a double cannot hold are refused", () => {
    expect(revisionOf("9007199254740991")).toBe(9007199254740991);
    expect(() => revisionOf("9007199254740993")).toThrow(expect.objectContaining({ code: "INTERNAL" }));
  });
});
