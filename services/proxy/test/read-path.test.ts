import { describe, expect, test } from "@jest/globals";
import type { ClusterView } from "@sluice/catalog";
import { epoch, SluiceError, topicId, type SegmentRecord, type TopicRecord } from "@sluice/core/model";
import type { Marks, PartitionRead, TailListener } from "@sluice/partition-client";
import { ManualClock } from "@sluice/runtime/testing";
import { ReadPath, type ReadSource } from "../src/read-path.ts";
import { TailCache } from "../src/tail-cache.ts";
import { batchOf } from "./support/proxy.ts";

const topic: TopicRecord = {
  tenant: "default",
  name: "t",
  topicId: topicId("0123abcd-0000-4000-8000-00000000beef"),
  partitions: 1,
  config: {},
  phase: "ACTIVE",
  createdAtMs: 0,
};
const p = { topicId: topic.topicId, partition: 0 };
const marks = (highWatermark: number): Marks => ({
  epoch: 1,
  segmentK: 0,
  segmentBase: 0,
  highWatermark,
  lastStableOffset: highWatermark,
  logStart: 0,
});
const open: SegmentRecord = { segment: { epoch: epoch(1), k: 0 }, base: 0, phase: "OPEN", replicas: [] };

function setup() {
  const clock = new ManualClock();
  let listener: TailListener | undefined;
  let followed = 0;
  const tails = new TailCache({
    clock,
    bytesMax: 1_000_000,
    idleMs: 1,
    follower: {
      follow: (_p, _from, l) => {
        listener = l;
        followed += 1;
      },
      unfollow: () => (listener = undefined),
    },
  });
  const segments = new Map<string, { record: SegmentRecord }>([["open", { record: open }]]);
  const state: { stored: number; end: number | Error; failure: unknown; reads: (Marks | undefined)[]; gone: boolean } = {
    stored: 0,
    end: 0,
    failure: undefined,
    reads: [],
    gone: false,
  };
  const sources: ReadSource[] = [];
  const path = new ReadPath({
    clock,
    tails,
    view: {
      partition: () => ({ startOffset: 0, segments }),
      segmentsOf: () => [...segments.values()],
      isGone: () => state.gone,
    } as unknown as ClusterView,
    segments: {
      async read(_p, offset, _max, m): Promise<PartitionRead> {
        state.reads.push(m);
        if (state.failure !== undefined) throw state.failure;
        return offset < state.stored
          ? { batches: batchOf(["s"]), nextOffset: state.stored, from: "storage node" }
          : { batches: new Uint8Array(0), nextOffset: offset, from: "none" };
      },
    },
    offsets: {
      confirm: () => (typeof state.end === "number" ? Promise.resolve(marks(state.end)) : Promise.reject(state.end)),
    },
    onRead: (source) => sources.push(source),
  });
  const read = (offset: number, waitMs: number, giveUpMs = waitMs) => {
    const reader = path.open(topic, p, offset);
    const now = clock.monotonicMs();
    return { reader, answer: path.read(reader, { maxBytes: 1_000, waitUntilMs: now + waitMs, giveUpMs: now + giveUpMs }) };
  };
  return { clock, path, read, state, sources, segments, tail: () => listener as TailListener, followed: () => followed };
}

describe("read path", () => {
  test("sealed history is read without following anybody", async () => {
    const s = setup();
    s.segments.set("sealed", { record: { ...open, end: 9, phase: "SEALED" } });
    s.state.stored = 10;
    const { answer } = s.read(3, 1_000);
    expect(await answer).toMatchObject({ nextOffset: 10, highWatermark: -1 });
    expect([s.followed(), s.sources]).toEqual([0, ["storage node"]]);
  });

  test("at the end it waits for the push; a gap in the pushes is read from storage with the mark", async () => {
    const s = setup();
    const { answer } = s.read(0, 10_000);
    await s.clock.advanceAsync(0);
    s.tail().onMarks(marks(0));
    await s.clock.advanceAsync(0);
    expect(s.state.reads.length).toBe(1);
    s.state.stored = 5;
    s.tail().onMarks(marks(5));
    await s.clock.advanceAsync(0);
    expect(await answer).toMatchObject({ nextOffset: 5, highWatermark: 5 });
    expect(s.state.reads.at(-1)?.highWatermark).toBe(5);
  });

  test("a new reader takes from the tail what is there already: storage is not asked", async () => {
    const s = setup();
    const first = s.read(0, 10_000);
    await s.clock.advanceAsync(0);
    s.tail().onData(0, batchOf(["a"]), marks(1), () => undefined);
    await s.clock.advanceAsync(0);
    expect(await first.answer).toMatchObject({ nextOffset: 1 });
    const before = s.state.reads.length;
    s.path.close(first.reader);
    expect(await s.read(0, 0).answer).toMatchObject({ nextOffset: 1, highWatermark: 1 });
    expect([s.state.reads.length, s.sources, s.followed()]).toEqual([before, ["tail", "tail"], 1]);
  });

  test("committed by the mark while the copies lag: asked again soon, nothing is made up", async () => {
    const s = setup();
    const { answer } = s.read(0, 10_000);
    await s.clock.advanceAsync(0);
    s.tail().onMarks(marks(3));
    await s.clock.advanceAsync(10);
    const before = s.state.reads.length;
    s.state.stored = 3;
    await s.clock.advanceAsync(60);
    expect(await answer).toMatchObject({ nextOffset: 3 });
    expect(s.state.reads.length).toBe(before + 1);
  });

  test("a segment that was sealed beyond the last mark is read, not waited for", async () => {
    const s = setup();
    const { reader, answer } = s.read(0, 10_000);
    await s.clock.advanceAsync(0);
    s.tail().onMarks(marks(0));
    s.tail().onInterrupted("LINK_DOWN");
    await s.clock.advanceAsync(0);
    s.segments.set("open", { record: { ...open, end: 9, phase: "SEALED" } });
    s.state.stored = 10;
    await s.clock.advanceAsync(1_100);
    expect(await answer).toMatchObject({ nextOffset: 10 });
    expect(reader.tail).toBeUndefined();
  });

  test("beyond the end: the owner's word, and a wait while there is no owner", async () => {
    const s = setup();
    s.state.end = 4;
    const late = s.read(7, 10_000).answer;
    const refused = expect(late).rejects.toMatchObject({ code: "OFFSET_OUT_OF_RANGE" });
    await s.clock.advanceAsync(0);
    s.tail().onMarks(marks(4));
    await s.clock.advanceAsync(10);
    await refused;
    const t = setup();
    t.state.end = new SluiceError("NOT_OWNER", "nobody");
    const { answer } = t.read(7, 2_000);
    await t.clock.advanceAsync(3_000);
    expect(await answer).toMatchObject({ runs: [], nextOffset: 7 });
  });

  test("copies that are away are tried until the time to give up, then the reason is told", async () => {
    const s = setup();
    s.state.failure = new SluiceError("READ_UNAVAILABLE", "no copy");
    const { answer } = s.read(0, 100, 1_000);
    const told = expect(answer).rejects.toMatchObject({ code: "READ_UNAVAILABLE" });
    await s.clock.advanceAsync(500);
    expect(s.state.reads.length).toBeGreaterThan(5);
    await s.clock.advanceAsync(600);
    await told;
    s.state.failure = new SluiceError("CORRUPT_BATCH", "bad");
    const bad = expect(s.read(0, 100).answer).rejects.toMatchObject({ code: "CORRUPT_BATCH" });
    await s.clock.advanceAsync(0);
    await bad;
  });

  test("a topic that is deleted ends the wait of its readers", async () => {
    const s = setup();
    const { answer } = s.read(0, 30_000);
    const ended = expect(answer).rejects.toMatchObject({ code: "UNKNOWN_TOPIC" });
    await s.clock.advanceAsync(0);
    s.state.gone = true;
    await s.clock.advanceAsync(1_100);
    await ended;
  });
});
