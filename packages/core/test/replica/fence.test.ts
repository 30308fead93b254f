import { describe, expect, test } from "@jest/globals";
import { epoch, errorNumber, incarnation } from "../../src/model/index.ts";
import { decodeProducers } from "../../src/producer/index.ts";
import { forgetTombstones, readPermission, recoveryReadLimit } from "../../src/replica/index.ts";
import { address, batch, create, fence, INC, join, NO_PRODUCERS, seal, TestNode } from "./support.ts";

const code = errorNumber;
const recoveryAppend = (e: number, by: number, first: number, last: number, base = 0) => ({
  op: "recovery-append" as const,
  ...address(e),
  epoch: epoch(by),
  base,
  firstOffset: first,
  lastOffset: last,
  payload: join(...Array.from({ length: last - first + 1 }, (_, i) => batch({ first: first + i, epoch: e }))),
});

describe("create", () => {
  test("needs this incarnation, a current epoch and a new segment; the same nonce succeeds again", () => {
    const n = new TestNode();
    expect(n.ask(create(1, 0, "n", incarnation("other"))).code).toBe(code("WRONG_INCARNATION"));
    const made = n.ask(create(2, 0));
    expect(made).toMatchObject({ code: 0, segmentNumber: 100 });
    expect(n.ask(create(2, 0))).toEqual(made);
    expect(n.ask(create(2, 0, "another")).code).toBe(code("SEGMENT_EXISTS"));
    expect(n.ask(create(1, 0)).code).toBe(code("STALE_EPOCH"));
  });
  test("the answer to a retry waits for the first one to be durable", () => {
    const n = new TestNode();
    const first = n.call(create(1, 0));
    const again = n.call(create(1, 0));
    expect([first(), again()]).toEqual([undefined, undefined]);
    n.sync();
    expect(again()).toEqual(first());
  });
  test("many segments take one call: the answers leave together, refusals among them", () => {
    const n = new TestNode();
    const many = n.call(create(1, 0), create(1, 0, "x"), create(1, 5, "y", INC, 1));
    expect(many()).toBeUndefined();
    n.sync();
    expect(many()?.map((a) => a.code)).toEqual([0, code("SEGMENT_EXISTS"), 0]);
  });
  test("raises the highest epoch of the partition", () => {
    const n = new TestNode();
    const s = n.create(1);
    n.create(2, 10);
    n.fill(s, 0, 0);
    expect(n.lastAppended().code).toBe(code("STALE_EPOCH"));
  });
  test("a segment fenced before it came, by its own epoch, stays fenced and gets its base", () => {
    const n = new TestNode();
    n.ask(fence(1, 1));
    expect(n.ask(create(1, 7)).code).toBe(0);
    expect(n.ask(fence(1, 1))).toMatchObject({ status: "FENCED", base: 7, last: 6 });
  });
  test("a deleted segment never comes back", () => {
    const n = new TestNode();
    n.create(1);
    n.ask(seal(1, -1, 1));
    expect(n.ask({ op: "delete", ...address(1), cause: "released", stateEpoch: 1 }).code).toBe(0);
    expect(n.ask(create(1, 0)).code).toBe(code("SEGMENT_EXISTS"));
  });
  test("a snapshot that is none is refused, whatever its bytes", () => {
    const n = new TestNode();
    expect(n.ask({ ...create(1, 0), producers: new Uint8Array(40).fill(255) }).code).toBe(code("INVALID_ARGUMENT"));
    expect(n.ask({ ...create(1, 0), producers: new Uint8Array(2 * 1024 * 1024) }).code).toBe(code("INVALID_ARGUMENT"));
    expect(n.journal).toEqual([]);
  });
});

test("segments are bounded: what would make one more is refused, the others go on; tombstones can be forgotten", () => {
  const n = new TestNode({}, { segmentsMax: 2 });
  n.create(1);
  const s = n.create(1, 0, 1);
  expect(n.ask(create(1, 0, "n", INC, 2)).code).toBe(code("OVERLOADED"));
  expect(n.ask(fence(1, 2, INC, 3))).toMatchObject({ code: code("OVERLOADED"), trusted: false });
  n.fill(s, 0, 0);
  n.ask(seal(1, -1, 1));
  n.ask({ op: "delete", ...address(1), cause: "released", stateEpoch: 1 });
  expect(forgetTombstones(n.state, 1)).toBe(0);
  expect(forgetTombstones(n.state, 0)).toBe(1);
  expect(n.ask(create(1, 0, "n", INC, 2)).code).toBe(0);
});

describe("fence", () => {
  test("of another incarnation is no vote and changes nothing", () => {
    const n = new TestNode();
    const s = n.create();
    expect(n.ask(fence(1, 2, incarnation("wiped")))).toMatchObject({ code: code("WRONG_INCARNATION"), trusted: false });
    n.fill(s, 0, 0);
    n.sync();
    expect(n.lastAppended().code).toBe(0);
  });
  test("counts every append queued before it, and answers when they are durable", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 1);
    n.sync();
    n.fill(s, 2, 3);
    const vote = n.call(fence(1, 2));
    n.fill(s, 4, 4);
    expect(n.lastAppended().code).toBe(code("STALE_EPOCH"));
    expect(vote()).toBeUndefined();
    n.sync();
    expect(vote()?.[0]).toMatchObject({ code: 0, status: "FENCED", trusted: true, base: 0, last: 3, maxEpoch: 2 });
  });
  test("is durable: after a crash the old epoch is still refused", () => {
    const n = new TestNode();
    const s = n.create();
    n.ask(fence(1, 2));
    n.crash();
    n.fill(s, 0, 0);
    expect(n.lastAppended().code).toBe(code("STALE_EPOCH"));
    expect(n.ask(fence(1, 1)).code).toBe(code("STALE_EPOCH"));
  });
  test("of a lower epoch than the highest seen is refused; a higher one moves up; the same one is answered again", () => {
    const n = new TestNode();
    n.create(1);
    n.ask(fence(1, 3));
    expect(n.ask(fence(1, 2))).toMatchObject({ code: code("STALE_EPOCH"), trusted: false, maxEpoch: 3 });
    expect(n.ask(fence(1, 3))).toMatchObject({ code: 0, maxEpoch: 3 });
    expect(n.ask(fence(1, 4))).toMatchObject({ code: 0, maxEpoch: 4 });
  });
  test("of a segment that never came here is a vote for empty, remembered, and the segment cannot come later", () => {
    const n = new TestNode();
    expect(n.ask(fence(1, 2))).toMatchObject({ code: 0, status: "FENCED_EMPTY", trusted: true, base: undefined, last: -1 });
    n.crash();
    expect(n.ask(create(1, 0)).code).toBe(code("STALE_EPOCH"));
    expect(n.ask(fence(1, 3))).toMatchObject({ status: "FENCED_EMPTY", trusted: true });
  });
  test("of a sealed segment votes for its end; deleted and rebuilding copies never vote", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 5);
    n.ask(seal(1, 3, 1));
    expect(n.ask(fence(1, 2))).toMatchObject({ status: "SEALED", trusted: true, last: 3 });
    n.ask({ op: "delete", ...address(1), cause: "released", stateEpoch: 2 });
    expect(n.ask(fence(1, 3))).toMatchObject({ status: "DELETED", trusted: false });
    const m = new TestNode();
    m.ask({ op: "rebuild", ...address(1), base: 0, end: 5, incarnation: INC, epoch: epoch(2), producers: NO_PRODUCERS });
    expect(m.ask(fence(1, 2))).toMatchObject({ status: "REBUILD", trusted: false });
  });
  test("returns the producers as of the last batch: the Create's snapshot advanced by the headers", () => {
    const n = new TestNode();
    const s = n.create();
    const payload = join(
      batch({ first: 0, count: 2, producerId: 9, sequence: 0 }),
      batch({ first: 2, producerId: 9, sequence: 2 }),
      batch({ first: 3, producerId: 4, sequence: 0 }),
    );
    n.append({ segmentNumber: s, firstOffset: 0, lastOffset: 3, lac: 1, payload });
    const vote = n.ask(fence(1, 2));
    const table = decodeProducers(vote.producers);
    expect(table.entries.get(9)?.batches.map((b) => [b.firstSequence, b.lastSequence, b.lastOffset])).toEqual([
      [0, 1, 1],
      [2, 2, 2],
    ]);
    expect(table.entries.get(4)?.batches).toHaveLength(1);
    // The seal gives the uncommitted batches up: their producers have not stored them.
    n.ask(seal(1, 1, 2));
    const sealed = decodeProducers(n.ask(fence(1, 3)).producers);
    expect(sealed.entries.get(9)?.batches.map((b) => b.lastOffset)).toEqual([1]);
    expect(sealed.entries.has(4)).toBe(false);
  });
});

describe("recovery append and read", () => {
  test("only for the epoch that fenced last", () => {
    const n = new TestNode();
    n.create(1);
    expect(n.ask(recoveryAppend(1, 1, 0, 0)).code).toBe(code("SEGMENT_FENCED"));
    n.ask(fence(1, 2));
    n.ask(fence(1, 3));
    expect(n.ask(recoveryAppend(1, 2, 0, 0)).code).toBe(code("STALE_EPOCH"));
    expect(n.ask(recoveryAppend(1, 3, 0, 1))).toMatchObject({ code: 0, last: 1 });
    expect(n.ask(recoveryAppend(1, 3, 0, 2))).toMatchObject({ code: 0, last: 2 });
    expect(n.ask(recoveryAppend(1, 3, 4, 4)).code).toBe(code("APPEND_GAP"));
    expect(n.ask(fence(1, 3))).toMatchObject({ last: 2 });
  });
  test("gives its base to a segment that never came here; its producers stay unknown", () => {
    const n = new TestNode();
    n.ask(fence(1, 2));
    expect(n.ask(recoveryAppend(1, 2, 5, 5, 4)).code).toBe(code("APPEND_GAP"));
    expect(n.ask(recoveryAppend(1, 2, 5, 6, 5))).toMatchObject({ code: 0, last: 6 });
    expect(n.ask(fence(1, 2))).toMatchObject({ status: "FENCED", base: 5, last: 6, producers: new Uint8Array(0) });
  });
  test("the answer waits for the disk", () => {
    const n = new TestNode();
    n.create(1);
    n.ask(fence(1, 2));
    const a = n.call(recoveryAppend(1, 2, 0, 0));
    expect(a()).toBeUndefined();
    n.sync();
    expect(a()?.[0]).toMatchObject({ code: 0, last: 0 });
  });
  test("reads what the newest fence froze, above the committed mark too", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 3);
    n.ask(fence(1, 2));
    const read = (by: number) => recoveryReadLimit(n.state, { ...address(1), epoch: epoch(by), from: 0, maxBytes: 100 });
    expect(read(2)).toMatchObject({ code: 0, upTo: 3 });
    expect(read(1)).toMatchObject({ code: code("STALE_EPOCH") });
    n.ask(fence(1, 3));
    expect(read(2)).toMatchObject({ code: code("STALE_EPOCH") });
  });
});

describe("rebuild", () => {
  const rebuild = (more: object) =>
    ({ op: "rebuild", ...address(1), base: 0, end: 2, incarnation: INC, producers: NO_PRODUCERS, ...more }) as const;
  test("of a sealed segment checks no epoch, counts for nothing until complete, and is then sealed", () => {
    const n = new TestNode();
    n.ask(fence(1, 9, INC, 3));
    expect(n.ask(rebuild({ keyRevision: 50 })).code).toBe(0);
    expect(n.ask(recoveryAppend(1, 1, 0, 1)).code).toBe(0);
    expect(readPermission(n.state, { ...address(1), from: 0, maxBytes: 1, highWatermark: 9, highWatermarkEpoch: 1 }).code).toBe(
      code("READ_UNAVAILABLE"),
    );
    n.crash();
    expect(n.ask(recoveryAppend(1, 1, 2, 3)).code).toBe(code("INVALID_ARGUMENT"));
    expect(n.ask(recoveryAppend(1, 1, 2, 2)).code).toBe(0);
    n.crash();
    expect(n.ask(fence(1, 10))).toMatchObject({ status: "SEALED", trusted: true, last: 2 });
  });
  test("under an epoch is refused when a newer one was seen, sets the highest, and ends fenced by it", () => {
    const n = new TestNode();
    n.ask(fence(1, 5, INC, 3));
    expect(n.ask(rebuild({ epoch: epoch(4) })).code).toBe(code("STALE_EPOCH"));
    expect(n.ask(rebuild({ epoch: epoch(6) })).code).toBe(0);
    expect(n.ask(recoveryAppend(1, 6, 0, 2)).code).toBe(0);
    const s = n.state.byNumber.get(n.ask(fence(1, 6)).segmentNumber);
    expect(s).toMatchObject({ status: "FENCED", fencedBy: 6, madeBy: 6, last: 2 });
  });
  test("under an epoch goes on with what an earlier try left, and finds its own work done", () => {
    const left = new TestNode();
    left.create();
    expect(left.ask(rebuild({ epoch: epoch(3) })).code).toBe(0);
    expect(left.ask(recoveryAppend(1, 3, 0, 2)).code).toBe(0);
    expect(left.ask(rebuild({ epoch: epoch(3) })).code).toBe(0);
    left.crash();
    // A second taker: the whole copy is here.
    expect(left.ask(rebuild({ epoch: epoch(4) })).code).toBe(0);
    expect(left.ask(recoveryAppend(1, 4, 0, 2)).code).toBe(0);
    expect(left.ask(rebuild({ epoch: epoch(3) })).code).toBe(code("STALE_EPOCH"));
    expect(left.ask(fence(1, 5))).toMatchObject({ status: "FENCED", trusted: true, last: 2 });
  });
  test("under an epoch does not touch a copy that this epoch has fenced as a member, that ends elsewhere, or that is sealed", () => {
    const member = new TestNode();
    member.fill(member.create(), 0, 0);
    member.ask(fence(1, 3));
    expect(member.ask(rebuild({ epoch: epoch(3) })).code).toBe(code("SEGMENT_EXISTS"));
    const longer = new TestNode();
    longer.fill(longer.create(), 0, 5);
    expect(longer.ask(rebuild({ epoch: epoch(3) })).code).toBe(code("SEGMENT_EXISTS"));
    const done = new TestNode();
    done.fill(done.create(), 0, 2);
    done.ask(seal(1, 2, 1));
    expect(done.ask(rebuild({ epoch: epoch(3) })).code).toBe(code("SEGMENT_EXISTS"));
  });
  test("needs either an epoch or a revision, and this incarnation", () => {
    const n = new TestNode();
    expect(n.ask(rebuild({})).code).toBe(code("INVALID_ARGUMENT"));
    expect(n.ask(rebuild({ epoch: epoch(2), keyRevision: 1 })).code).toBe(code("INVALID_ARGUMENT"));
    expect(n.ask(rebuild({ epoch: epoch(2), incarnation: incarnation("x") })).code).toBe(code("WRONG_INCARNATION"));
  });
  test("does not touch a copy that counts; an incomplete one goes on from its end", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 0);
    expect(n.ask(rebuild({ keyRevision: 5 })).code).toBe(code("SEGMENT_EXISTS"));
    n.ask(seal(1, 2, 1));
    expect(n.ask(rebuild({ keyRevision: 5 })).code).toBe(0);
    expect(n.ask(recoveryAppend(1, 1, 1, 2)).code).toBe(0);
    expect(n.ask(fence(1, 2))).toMatchObject({ status: "SEALED", last: 2 });
  });
});

describe("seal", () => {
  test("of an older epoch is refused, so that a zombie cannot cut what recovery counts", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 5);
    n.ask(fence(1, 2));
    expect(n.ask(seal(1, 2, 1)).code).toBe(code("STALE_EPOCH"));
    expect(n.ask(fence(1, 2))).toMatchObject({ last: 5 });
  });
  test("cuts what lies above the end, durably", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 5, 1, 2);
    const before = n.ask(fence(1, 2));
    expect(n.ask(seal(1, 3, 2))).toMatchObject({ code: 0, status: "SEALED" });
    n.crash();
    const after = n.ask(fence(1, 3));
    expect(after).toMatchObject({ status: "SEALED", last: 3 });
    expect(after.chainHash).not.toBe(before.chainHash);
    const other = new TestNode();
    const t = other.create();
    other.fill(t, 0, 3);
    expect(other.ask(fence(1, 2)).chainHash).toBe(after.chainHash);
    expect(after.sizeBytes).toBe(4 * 69);
  });
  test("a copy that ends before the end is incomplete: no vote, no reads above what it has", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 1);
    expect(n.ask(seal(1, 4, 1))).toMatchObject({ code: 0, status: "INCOMPLETE" });
    expect(n.ask(fence(1, 2)).trusted).toBe(false);
    expect(readPermission(n.state, { ...address(1), from: 0, maxBytes: 1, highWatermark: 9, highWatermarkEpoch: 1 })).toMatchObject({
      sealed: false,
      limit: 1,
    });
  });
  test("is idempotent; another end for a sealed segment is corrupt and raises an alarm", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 3);
    n.ask(seal(1, 3, 1));
    expect(n.ask(seal(1, 3, 1))).toMatchObject({ code: 0, status: "SEALED" });
    expect(n.ask(seal(1, 2, 1)).code).toBe(code("CORRUPT_SEGMENT"));
    expect(n.alarms).toHaveLength(1);
  });
  test("within a batch is corrupt; of a segment that is not here is unknown", () => {
    const n = new TestNode();
    const s = n.create();
    n.append({ segmentNumber: s, firstOffset: 0, lastOffset: 3, payload: batch({ first: 0, count: 4 }) });
    expect(n.ask(seal(1, 1, 1)).code).toBe(code("CORRUPT_SEGMENT"));
    expect(n.ask(seal(1, 1, 1, 8)).code).toBe(code("UNKNOWN_SEGMENT"));
  });
});

describe("delete", () => {
  const drop = (cause: "released" | "orphan", stateEpoch: number) => ({ op: "delete", ...address(1), cause, stateEpoch }) as const;
  test("a copy that was never sealed is not released; an orphan goes only when its epoch is over", () => {
    const n = new TestNode();
    n.create(1);
    expect(n.ask(drop("released", 9)).code).toBe(code("INVALID_ARGUMENT"));
    expect(n.ask(drop("orphan", 1)).code).toBe(code("INVALID_ARGUMENT"));
    expect(n.ask(drop("orphan", 2)).code).toBe(0);
  });
  test("the bytes go when the tombstone is durable, and it stays after a restart", () => {
    const n = new TestNode();
    const s = n.create(1);
    n.ask(seal(1, -1, 1));
    const a = n.call(drop("released", 1));
    expect(n.dropped).toEqual([]);
    n.sync();
    expect(a()?.[0]?.code).toBe(0);
    expect(n.dropped).toEqual([s]);
    n.crash();
    expect(n.state.byNumber.get(s)?.status).toBe("DELETED");
    expect(n.ask(drop("released", 1)).code).toBe(0);
  });
});

describe("read", () => {
  const limit = (n: TestNode, hw: number, hwEpoch: number) =>
    readPermission(n.state, { ...address(1), from: 0, maxBytes: 1, highWatermark: hw, highWatermarkEpoch: hwEpoch }).limit;
  test("an open segment up to the committed mark that came with appends, or the reader's mark of its epoch, and never above what is durable", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 5, 1, 2);
    expect(limit(n, 4, 1)).toBe(-1);
    n.sync();
    expect(limit(n, -1, -1)).toBe(2);
    expect(limit(n, 4, 1)).toBe(4);
    expect(limit(n, 99, 1)).toBe(5);
    // The successor's mark says nothing about this segment.
    expect(limit(n, 5, 2)).toBe(2);
  });
  test("a sealed segment up to its end, whatever the mark", () => {
    const n = new TestNode();
    const s = n.create();
    n.fill(s, 0, 5);
    n.ask(seal(1, 4, 1));
    expect(readPermission(n.state, { ...address(1), from: 0, maxBytes: 1, highWatermark: -1, highWatermarkEpoch: -1 })).toMatchObject({
      code: 0,
      sealed: true,
      limit: 4,
    });
  });
  test("what was never here, or is gone, is unknown", () => {
    const n = new TestNode();
    const request = { ...address(1), from: 0, maxBytes: 1, highWatermark: -1, highWatermarkEpoch: -1 };
    expect(readPermission(n.state, request).code).toBe(code("UNKNOWN_SEGMENT"));
    n.ask(fence(1, 2));
    expect(readPermission(n.state, request).code).toBe(code("UNKNOWN_SEGMENT"));
  });
});
