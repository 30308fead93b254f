import { describe, expect, jest, test } from "@jest/globals";
import * as fc from "fast-check";
import { epoch } from "../../src/model/index.ts";
import type { ReplicaMutants, ReplicaState, Scanned } from "../../src/replica/index.ts";
import { checkpointEntries, finishReplay, createReplica, mayDropCopy, replay } from "../../src/replica/index.ts";
import { address, batch, create, fence, INC, join, seal, TestNode } from "./support.ts";

jest.setTimeout(30_000);
const dump = (state: ReplicaState) => [...checkpointEntries(state)];

describe("restart", () => {
  test("what is unknown makes copies that still changed untrusted, sealed ones stay, and 'never here' is no vote any more", () => {
    const n = new TestNode();
    const s = n.create(1);
    n.fill(s, 0, 1);
    n.ask(seal(1, 1, 1));
    const t = n.create(1, 2, 1);
    n.fill(t, 2, 3, 1, -1, 2);
    n.sync();
    const all = n.journal.map((j): Scanned => j.entry);
    n.crash(0, [...all.slice(0, -1), "unknown"]);
    expect(n.ask(fence(1, 2))).toMatchObject({ status: "SEALED", trusted: true });
    expect(n.ask(fence(1, 2, INC, 1))).toMatchObject({ status: "FAILED", trusted: false });
    expect(n.ask(fence(1, 2, INC, 7))).toMatchObject({ status: "FENCED_EMPTY", trusted: false });
    n.fill(t, 4, 4, 1, -1, 2);
    expect(n.lastAppended().code).not.toBe(0);
    // A segment that begins after it is whole.
    expect(n.create(3, 4)).toBeGreaterThan(t + 1000);
    expect(n.ask(fence(3, 3))).toMatchObject({ status: "FENCED", trusted: true });
  });
  test("a later entry of the same copy does not hide the hole", () => {
    const n = new TestNode();
    const s = n.create(1);
    n.fill(s, 0, 1);
    n.fill(s, 2, 3);
    n.fill(s, 4, 5);
    n.ask(seal(1, 5, 1));
    const all = n.journal.map((j): Scanned => j.entry);
    n.crash(0, [...all.slice(0, 2), "unknown", ...all.slice(3)]);
    expect(n.ask(fence(1, 2))).toMatchObject({ status: "FAILED", trusted: false });
    n.crash(0, [...all.slice(0, 2), ...all.slice(3)]);
    expect(n.ask(fence(1, 2))).toMatchObject({ status: "FAILED", trusted: false });
  });
  test("the number of a segment whose Create is unknown is not given out again", () => {
    const n = new TestNode();
    n.create(1);
    const s = n.create(1, 0, 1);
    n.fill(s, 0, 0);
    n.sync();
    n.crash(
      0,
      n.journal.flatMap((j): Scanned[] => (j.entry.kind === "create" && j.entry.segmentNumber === s ? [] : [j.entry])),
    );
    expect(n.create(2, 0)).toBeGreaterThan(s);
  });

  const op = fc.oneof(
    fc.record({ op: fc.constant("append" as const), k: fc.nat(2), count: fc.integer({ min: 1, max: 4 }), lacBack: fc.nat(3) }),
    fc.record({ op: fc.constant("create" as const), k: fc.nat(2) }),
    fc.record({ op: fc.constant("fence" as const), k: fc.nat(2), by: fc.integer({ min: 1, max: 4 }) }),
    fc.record({
      op: fc.constant("recover" as const),
      k: fc.nat(2),
      by: fc.integer({ min: 1, max: 4 }),
      count: fc.integer({ min: 1, max: 3 }),
    }),
    fc.record({ op: fc.constant("seal" as const), k: fc.nat(2), back: fc.nat(3), by: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ op: fc.constant("delete" as const), k: fc.nat(2) }),
    fc.record({ op: fc.constant("rebuild" as const), k: fc.nat(3), end: fc.nat(5) }),
    fc.constant({ op: "sync" as const }),
  );
  type Op = typeof op extends fc.Arbitrary<infer T> ? T : never;

  function perform(n: TestNode, o: Op): void {
    if (o.op === "sync") {
      n.sync();
      return;
    }
    const s = [...n.state.byNumber.values()].find((x) => x.id.k === o.k);
    if (o.op === "create") n.call(create(1, 0, "n", INC, o.k));
    else if (o.op === "fence") n.call(fence(1, o.by, INC, o.k));
    else if (o.op === "delete") n.call({ op: "delete", ...address(1, o.k), cause: "released", stateEpoch: 9 });
    else if (o.op === "rebuild")
      n.call({ op: "rebuild", ...address(1, o.k), base: 0, end: o.end, incarnation: INC, keyRevision: 3, producers: new Uint8Array(0) });
    else if (s === undefined) return;
    else if (o.op === "append") n.fill(s.number, s.last + 1, s.last + o.count, 1, s.last - o.lacBack);
    else if (o.op === "seal") n.call(seal(1, s.last - o.back, o.by, o.k));
    else if (o.op === "recover") {
      const first = Math.max(0, s.last + 1);
      n.call({
        op: "recovery-append",
        ...address(1, o.k),
        epoch: epoch(o.by),
        base: s.base ?? first,
        firstOffset: first,
        lastOffset: first + o.count - 1,
        payload: join(...Array.from({ length: o.count }, (_, i) => batch({ first: first + i }))),
      });
    }
  }

  test("replaying the journal gives the state; so does a checkpoint anywhere and the rest of the journal", () => {
    fc.assert(
      fc.property(fc.array(op, { maxLength: 40 }), fc.nat(40), (ops, cut) => {
        const n = new TestNode();
        let at = 0;
        let checkpoint: ReturnType<typeof dump> = [];
        ops.forEach((o, i) => {
          if (i === cut) {
            checkpoint = dump(n.state);
            at = n.journal.length;
          }
          perform(n, o);
        });
        n.sync();
        const live = dump(n.state);
        const replayed = new TestNode();
        replayed.state = createReplica(replayed.options);
        for (const j of n.journal) replay(replayed.state, j.entry);
        finishReplay(replayed.state, false);
        expect(dump(replayed.state)).toEqual(live);
        if (cut >= ops.length) return;
        const resumed = new TestNode();
        for (const e of checkpoint) replay(resumed.state, e);
        for (const j of n.journal.slice(at)) replay(resumed.state, j.entry);
        finishReplay(resumed.state, false);
        const exact = (entries: ReturnType<typeof dump>) =>
          entries.map((e) =>
            // A cut below a checkpoint is not remembered batch by batch: reported as unknown, never as something else.
            e.kind === "segment-state" ? { ...e, chainHash: "", producers: 0, producersKnown: 0, sizeBytes: 0, lastAppendMs: 0 } : e,
          );
        expect(exact(dump(resumed.state))).toEqual(exact(live));
        const known = new Map(live.flatMap((e) => (e.kind === "segment-state" ? [[e.segmentNumber, e.chainHash]] : [])));
        for (const e of dump(resumed.state))
          if (e.kind === "segment-state" && e.chainHash !== "") expect(e.chainHash).toBe(known.get(e.segmentNumber));
      }),
      { numRuns: 300 },
    );
  });

  test("what was acknowledged is there after a crash that loses any part of what was not synced", () => {
    fc.assert(
      fc.property(fc.array(op, { maxLength: 40 }), fc.nat(10), (ops, keep) => {
        const n = new TestNode();
        for (const o of ops) perform(n, o);
        const acked = new Map<number, number>();
        for (const a of n.appended) if (a.code === 0) acked.set(a.segmentNumber, a.durable);
        const maxEpoch = [...n.answers.values()]
          .flat()
          .reduce((m, a) => (a.op === "fence" && a.code === 0 ? Math.max(m, a.maxEpoch) : m), -1);
        n.crash(keep);
        for (const [number, durable] of acked) {
          const s = n.state.byNumber.get(number);
          if (s?.status === "SEALED" || s?.status === "DELETED") continue;
          expect(s?.last ?? -1).toBeGreaterThanOrEqual(durable);
        }
        for (const p of n.state.partitions.values()) expect(p.maxEpoch).toBeGreaterThanOrEqual(maxEpoch);
      }),
      { numRuns: 200 },
    );
  });
});

describe("planted bugs change what the rules say", () => {
  const afterFence = (mutants: ReplicaMutants, f: (n: TestNode, s: number) => void): TestNode => {
    const n = new TestNode(mutants);
    const s = n.create(1);
    f(n, s);
    return n;
  };
  test("M8 forgets the fence in a crash, M16 lets the predecessor append, M26 lets a wiped node vote", () => {
    const m8 = afterFence({ M8: true }, (n, s) => {
      n.ask(fence(1, 2));
      n.crash();
      n.fill(s, 0, 0);
      n.sync();
    });
    expect(m8.lastAppended().code).toBe(0);
    const m16 = afterFence({ M16: true }, (n, s) => {
      n.ask(fence(1, 2));
      n.fill(s, 0, 0);
      n.sync();
    });
    expect(m16.lastAppended().code).toBe(0);
    expect(new TestNode({ M26: true }).ask({ ...fence(1, 2), incarnation: "old" as never }).trusted).toBe(true);
  });
  test("M9 and M27 answer what is not durable, M7 takes an append for a segment that is not there", () => {
    expect(afterFence({ M9: true }, (n, s) => n.fill(s, 0, 0)).lastAppended()).toMatchObject({ code: 0, durable: 0 });
    const m27 = afterFence({ M27: true }, (n, s) => {
      n.fill(s, 0, 0);
      expect(n.appended).toEqual([]);
      n.fill(s, 0, 0);
    });
    expect(m27.lastAppended()).toMatchObject({ code: 0, durable: 0 });
    const m7 = new TestNode({ M7: true });
    m7.fill(55, 3, 4);
    m7.sync();
    expect(m7.lastAppended()).toMatchObject({ code: 0, durable: 4 });
  });
  test("M24 takes unknown for absent, M25 takes a short copy for sealed, M30 drops a copy whose epoch is current", () => {
    const n = new TestNode({ M24: true });
    n.create(1);
    n.crash(0, [n.journal[0]?.entry ?? "unknown", "unknown"]);
    expect(n.ask(fence(1, 2)).trusted).toBe(true);
    expect(afterFence({ M25: true }, (m, s) => m.fill(s, 0, 0)).ask(seal(1, 4, 1)).code).toBe(0);
    const m25 = afterFence({ M25: true }, () => undefined);
    m25.ask(seal(1, 4, 1));
    expect(m25.ask(fence(1, 2))).toMatchObject({ status: "SEALED", trusted: true });
    const facts = { stateEpoch: 3, found: false, sealed: false, member: false, otherReplicas: 0, keyRevision: 0 };
    expect(mayDropCopy(facts, { madeBy: 3, keyRevision: undefined })).toBe(false);
    expect(mayDropCopy(facts, { madeBy: 3, keyRevision: undefined }, { M30: true })).toBe(true);
  });
});

describe("the rule for dropping a copy", () => {
  const gone = { stateEpoch: 5, found: false, sealed: false, member: false, otherReplicas: 0, keyRevision: 0 };
  const sealed = { stateEpoch: 5, found: true, sealed: true, member: false, otherReplicas: 3, keyRevision: 40 };
  const copy = { madeBy: 4, keyRevision: undefined };
  test.each([
    ["gone, its epoch over", gone, copy, true],
    ["no register to read", { ...gone, stateEpoch: undefined }, copy, false],
    ["its epoch is current", { ...gone, stateEpoch: 4 }, copy, false],
    ["a member", { ...sealed, member: true }, copy, false],
    ["sealed, three others", sealed, copy, true],
    ["sealed, two others", { ...sealed, otherReplicas: 2 }, copy, false],
    ["still open", { ...sealed, sealed: false }, copy, false],
    ["a repair's copy whose order is the newest", sealed, { madeBy: 4, keyRevision: 40 }, false],
    ["a repair's copy that was overtaken", sealed, { madeBy: 4, keyRevision: 39 }, true],
  ])("%s", (_name, facts, local, expected) => {
    expect(mayDropCopy(facts, local)).toBe(expected);
  });
});
