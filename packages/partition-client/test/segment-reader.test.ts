import { describe, expect, test } from "@jest/globals";
import { createKeys, segmentCodec, startCodec, type ClusterView } from "@sluice/catalog";
import { epoch, incarnation, memberId, SluiceError, type ReplicaId, type SegmentRecord } from "@sluice/core/model";
import { openEmbeddedMetadata } from "@sluice/metadata";
import { systemClock } from "@sluice/runtime";
import { SegmentReader, type Marks, type ObjectReader, type StoreData, type StoreRead, type StoreReader } from "../src/index.ts";
import { partition, stamped } from "./support/fakes.ts";

const keys = createKeys("test");
const replicas: ReplicaId[] = ["s1", "s2", "s3"].map((node) => ({ node: memberId(node), incarnation: incarnation(`${node}-i`) }));
const segment = (e: number, base: number, end?: number, more: Partial<SegmentRecord> = {}): SegmentRecord => ({
  segment: { epoch: epoch(e), k: 0 },
  base,
  ...(end === undefined ? { phase: "OPEN" as const } : { end, phase: "SEALED" as const }),
  replicas,
  ...more,
});
const marksOf = (e: number, highWatermark: number): Marks => ({
  epoch: e,
  segmentK: 0,
  segmentBase: 0,
  highWatermark,
  lastStableOffset: highWatermark,
  logStart: 0,
});

/** A view that holds `viewed`, a store that holds `stored`, nodes that answer as `node` says. */
async function setup(options: {
  viewed: SegmentRecord[];
  stored?: SegmentRecord[];
  start?: number;
  node: (replica: ReplicaId, read: StoreRead) => StoreData;
  object?: Uint8Array;
}) {
  const store = openEmbeddedMetadata({ path: ":memory:", clock: systemClock });
  const put = (key: string, value: Uint8Array) => store.txn({ compare: [], then: [{ kind: "put", key, value }] });
  for (const record of options.stored ?? options.viewed)
    await put(keys.segment(partition, record.base, record.segment), segmentCodec.encode(record));
  if (options.start !== undefined) await put(keys.start(partition), startCodec.encode({ offset: options.start }));
  const asked: [string, StoreRead][] = [];
  const view = {
    segmentsOf: () => options.viewed.map((record) => ({ partition, record, modRevision: 1 })),
    partition: () => ({ startOffset: 0 }),
  } as unknown as ClusterView;
  const stores = {
    order: (all: readonly ReplicaId[]) => [...all],
    async read(replica: ReplicaId, read: StoreRead) {
      asked.push([replica.node, read]);
      return options.node(replica, read);
    },
  } as unknown as StoreReader;
  const { object } = options;
  const objects = object === undefined ? undefined : ({ read: async () => object } as unknown as ObjectReader);
  const reader = new SegmentReader({ view, store, keys, stores, objects });
  return { reader, asked, close: () => store.close() };
}
const away = (): never => {
  throw new SluiceError("READ_UNAVAILABLE", "away");
};

describe("segment reader", () => {
  test("an open segment is read up to the mark of its own epoch; a mark of another epoch says nothing about it", async () => {
    const run = Buffer.concat([stamped(0, 5, 1), stamped(5, 5, 1)]);
    const node = (_: ReplicaId, read: StoreRead): StoreData => ({ payload: run, limit: read.committed, sealed: false });
    const { reader, asked, close } = await setup({ viewed: [segment(1, 0)], node });
    const same = await reader.read(partition, 0, 1_000, marksOf(1, 5));
    expect([same.nextOffset, same.batches.length]).toEqual([5, stamped(0, 5, 1).length]);
    const other = await reader.read(partition, 0, 1_000, marksOf(2, 10));
    expect([other.nextOffset, other.batches.length, other.from]).toEqual([0, 0, "none"]);
    expect(asked.map(([, read]) => [read.committed, read.committedEpoch])).toEqual([
      [4, 1],
      [-1, -1],
    ]);
    await close();
  });

  test("a stale view takes a sealed segment for open: a suffix that recovery gave up is not served", async () => {
    // The old owner of epoch 1 left 5..9 on one node; epoch 2 sealed at 4 and has committed other records there.
    const stale = Buffer.concat([stamped(0, 5, 1), stamped(5, 5, 1, "given up")]);
    const fresh = stamped(5, 5, 2, "committed");
    const node = (_: ReplicaId, read: StoreRead): StoreData => {
      if (read.segment.epoch === 2) return { payload: fresh, limit: read.committed, sealed: false };
      // The node was not told of the seal; it serves what its own mark (4) allows, and more only for a mark of epoch 1.
      return { payload: stale, limit: Math.max(4, read.committedEpoch === 1 ? read.committed : -1), sealed: false };
    };
    const { reader, close } = await setup({ viewed: [segment(1, 0)], stored: [segment(1, 0, 4), segment(2, 5)], node });
    const below = await reader.read(partition, 3, 10_000, marksOf(2, 10));
    expect(below.nextOffset).toBe(5);
    const beyond = await reader.read(partition, 5, 10_000, marksOf(2, 10));
    expect(beyond.batches.length).toBe(0);
    await close();
  });

  test("what a sealed segment holds is committed: a node that was not told of the seal serves it to its end", async () => {
    const stale = Buffer.concat([stamped(0, 5, 1), stamped(5, 5, 1), stamped(10, 5, 1, "given up")]);
    const node = (_: ReplicaId, read: StoreRead): StoreData => ({
      payload: stale,
      limit: Math.max(4, read.committedEpoch === 1 ? read.committed : -1),
      sealed: false,
    });
    const { reader, asked, close } = await setup({ viewed: [segment(1, 0, 9), segment(2, 10)], node });
    const last = await reader.read(partition, 5, 10_000, marksOf(2, 12));
    expect([last.nextOffset, last.batches.length, last.from]).toEqual([10, stamped(5, 5, 1).length, "storage node"]);
    expect(asked.map(([, read]) => [read.committed, read.committedEpoch])).toEqual([[9, 1]]);
    await close();
  });

  test("a node that knows the end of the segment sends the reader on to the next one", async () => {
    const fresh = stamped(5, 5, 2);
    const node = (_: ReplicaId, read: StoreRead): StoreData =>
      read.segment.epoch === 2
        ? { payload: fresh, limit: read.committed, sealed: false }
        : { payload: new Uint8Array(0), limit: 4, sealed: true };
    const { reader, close } = await setup({ viewed: [segment(1, 0)], stored: [segment(1, 0, 4), segment(2, 5)], node });
    expect((await reader.read(partition, 5, 10_000, marksOf(2, 10))).nextOffset).toBe(10);
    await close();
  });

  test("a copy that lags is passed over when the mark says that there is more", async () => {
    const run = stamped(0, 5, 1);
    const node = (replica: ReplicaId): StoreData =>
      replica.node === "s1" ? { payload: new Uint8Array(0), limit: -1, sealed: false } : { payload: run, limit: 4, sealed: false };
    const { reader, asked, close } = await setup({ viewed: [segment(1, 0)], node });
    expect((await reader.read(partition, 0, 1_000, marksOf(1, 5))).nextOffset).toBe(5);
    expect(asked.map(([name]) => name)).toEqual(["s1", "s2"]);
    await close();
  });

  test("a sealed segment is cut at its end, from any copy, then from the object", async () => {
    const run = Buffer.concat([stamped(0, 5, 1), stamped(5, 5, 1)]);
    const record = segment(1, 0, 4, { object: { key: "o", at: 0, length: 10, format: 1 } });
    const nodes = await setup({ viewed: [record], node: () => ({ payload: run, limit: 9, sealed: true }) });
    expect((await nodes.reader.read(partition, 2, 10_000, undefined)).nextOffset).toBe(5);
    await nodes.close();
    const objects = await setup({ viewed: [record], node: away, object: stamped(0, 5, 1) });
    expect(await objects.reader.read(partition, 2, 10_000, undefined)).toMatchObject({ nextOffset: 5, from: "object" });
    await objects.close();
  });

  test("below the log start is out of range, no copy is READ_UNAVAILABLE, nothing known is empty", async () => {
    const removed = await setup({ viewed: [segment(1, 5)], start: 5, node: away });
    await expect(removed.reader.read(partition, 3, 1_000, undefined)).rejects.toMatchObject({ code: "OFFSET_OUT_OF_RANGE" });
    await removed.close();
    const none = await setup({ viewed: [segment(1, 0, 9)], node: away });
    await expect(none.reader.read(partition, 3, 1_000, undefined)).rejects.toMatchObject({ code: "READ_UNAVAILABLE" });
    await none.close();
    const fresh = await setup({ viewed: [], node: away });
    expect(await fresh.reader.read(partition, 0, 1_000, undefined)).toMatchObject({ from: "none", nextOffset: 0 });
    await fresh.close();
  });
});
