import { describe, expect, jest, test } from "@jest/globals";
import { crc32c } from "@sluice/codec";
import { readSegmentFooter, SEGMENT_FOOTER_BYTES, segmentParts } from "@sluice/core/log";
import { epoch, errorNumber, incarnation, memberId, type SegmentRecord } from "@sluice/core/model";
import { memoryObjectStore, type ObjectStore } from "@sluice/object-store";
import { systemClock } from "@sluice/runtime";
import { StoreCluster, until, type RunningNode } from "./cluster.ts";
import { offsetsOf, temporaryFolder } from "./support.ts";

// A busy machine must not fail a test that waits for disks and sockets.
jest.setTimeout(30_000);

const sealed = (nodes: Readonly<Record<string, RunningNode>>, end: number, more: Partial<SegmentRecord> = {}): SegmentRecord => ({
  segment: { epoch: epoch(1), k: 0 },
  base: 0,
  end,
  phase: "SEALED",
  replicas: Object.entries(nodes).map(([id, n]) => ({ node: memberId(id), incarnation: incarnation(n.incarnation) })),
  ...more,
});
async function keysOf(objects: ObjectStore): Promise<string[]> {
  const out: string[] = [];
  for await (const o of objects.list("clusters/")) out.push(o.key);
  return out;
}
/** Fills partition 0 on all nodes and seals it there; the key is for the test to write. */
async function fillAndSeal(nodes: readonly RunningNode[], end: number, bytes = 5000): Promise<void> {
  for (const node of nodes) {
    const s = await node.create(0);
    const broker = await node.connect();
    for (let o = 0; o <= end; o += 10) broker.append(s, o, Math.min(o + 9, end), { bytes });
    await broker.until(s, end);
    await node.seal(0, end);
  }
}

describe("offload", () => {
  test("a sealed segment becomes one verified object, then the copies go and their space is free", async () => {
    await using a = await temporaryFolder();
    await using b = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    const objects = memoryObjectStore({ clock: systemClock });
    await cluster.topic({ "offload.grace.ms": "50" });
    await cluster.register(0, 1);
    const one = await cluster.node("store-1", a.path, { objectStore: objects });
    const two = await cluster.node("store-2", b.path, { objectStore: objects });
    await fillAndSeal([one, two], 499);
    await cluster.segment(0, sealed({ "store-1": one, "store-2": two }, 499, { firstAppendMs: 7 }));
    await until(async () => (await cluster.readSegment(0, 0))?.phase === "LOCAL_DELETED", "LOCAL_DELETED");
    const record = await cluster.readSegment(0, 0);
    expect(record).toMatchObject({ replicas: [], firstAppendMs: 7, end: 499, object: { at: 0, format: 1 } });
    expect(record?.attempt ?? "").toBe("");
    const keys = await keysOf(objects);
    expect(keys).toEqual([record?.object?.key]);
    const length = record?.object?.length ?? 0;
    const footer = readSegmentFooter(
      await objects.getRange(keys[0] as string, length - SEGMENT_FOOTER_BYTES, SEGMENT_FOOTER_BYTES),
      length,
      crc32c,
    );
    expect(footer).toMatchObject({ base: 0, end: 499, recordCount: 500, chainHash: record?.chainHash });
    const run = await objects.getRange(keys[0] as string, 0, footer.batchBytes);
    expect(offsetsOf(run)).toEqual({ first: 0, last: 499, batches: 500 });
    expect(segmentParts(footer).producers.to).toBeGreaterThan(segmentParts(footer).producers.from);
    const proxy = await one.connect("bulk");
    expect(await proxy.read(0, 0)).toMatchObject({ code: errorNumber("UNKNOWN_SEGMENT") });
    await until(async () => ((await one.metrics.value("sluice_store_journal_live_bytes")) ?? 1) === 0, "no live bytes");
    await until(() => cluster.log.find("journal files freed") !== undefined, "files freed");
    expect(cluster.log.lines.filter((l) => l.event === "segment uploaded")).toHaveLength(1);
  });

  test("a topic with a long grace keeps its copies after the upload", async () => {
    await using a = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    const objects = memoryObjectStore({ clock: systemClock });
    await cluster.topic({ "offload.grace.ms": "3600000" });
    await cluster.register(0, 1);
    const one = await cluster.node("store-1", a.path, { objectStore: objects });
    await fillAndSeal([one], 9);
    await cluster.segment(0, sealed({ "store-1": one }, 9));
    await until(async () => (await cluster.readSegment(0, 0))?.phase === "OFFLOADED", "OFFLOADED");
    await systemClock.sleep(300);
    expect((await cluster.readSegment(0, 0))?.phase).toBe("OFFLOADED");
    expect(await (await one.connect("bulk")).read(0, 0)).toMatchObject({ code: 0, sealed: true, limit: 9 });
  });

  test("without an object store segments stay", async () => {
    await using a = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    await cluster.topic();
    await cluster.register(0, 1);
    const one = await cluster.node("store-1", a.path);
    await fillAndSeal([one], 9);
    await cluster.segment(0, sealed({ "store-1": one }, 9));
    await systemClock.sleep(300);
    expect((await cluster.readSegment(0, 0))?.phase).toBe("SEALED");
  });

  test.each([
    ["a store that keeps half of it", "short-object"],
    ["an error after it was stored", "error-after"],
    ["an error before", "error-before"],
  ] as const)("%s: the copies stay until a later attempt is whole", async (_name, fault) => {
    await using a = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    const inner = memoryObjectStore({ clock: systemClock });
    let failures = 0;
    const objects: ObjectStore = {
      ...bind(inner),
      async put(key, body, options) {
        if (key.startsWith("clusters/") && failures++ === 0) {
          if (fault === "short-object") {
            const whole = body.reduce((n, p) => n + p.length, 0);
            let left = Math.floor(whole / 2);
            const half = body.map((p) => {
              const part = p.subarray(0, Math.max(0, left));
              left -= part.length;
              return part;
            });
            await inner.put(key, half, options);
            return;
          }
          if (fault === "error-after") await inner.put(key, body, options);
          throw Object.assign(new Error("the store failed"), { code: "OBJECT_STORE_UNAVAILABLE" });
        }
        await inner.put(key, body, options);
      },
    };
    await cluster.topic({ "offload.grace.ms": "0" });
    await cluster.register(0, 1);
    const one = await cluster.node("store-1", a.path, { objectStore: objects, takeOverMs: 100 });
    await fillAndSeal([one], 49);
    await cluster.segment(0, sealed({ "store-1": one }, 49));
    await until(() => failures > 0, "a first attempt");
    expect((await cluster.readSegment(0, 0))?.object).toBeUndefined();
    expect(offsetsOf((await (await one.connect("bulk")).read(0, 0)).payload).last).toBe(49);
    await until(async () => (await cluster.readSegment(0, 0))?.phase === "LOCAL_DELETED", "LOCAL_DELETED");
    const key = (await cluster.readSegment(0, 0))?.object?.key ?? "";
    expect((await inner.head(key))?.sizeBytes).toBe((await cluster.readSegment(0, 0))?.object?.length);
  });

  test("an upload that lost its key deletes its own object and nothing else", async () => {
    await using a = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    const inner = memoryObjectStore({ clock: systemClock });
    const other = { key: "clusters/other-attempt", at: 0, length: 5, format: 1 };
    await inner.put(other.key, [new Uint8Array(5)]);
    let taken = false;
    const objects: ObjectStore = {
      ...bind(inner),
      async put(key, body, options) {
        await inner.put(key, body, options);
        if (!key.startsWith("clusters/") || taken) return;
        // While this attempt uploads, another one finishes first.
        taken = true;
        const record = await cluster.readSegment(0, 0);
        if (record === undefined) throw new Error("no key");
        const { attempt: _mine, ...rest } = record;
        await cluster.segment(0, { ...rest, phase: "OFFLOADED", object: other, offloadedAtMs: systemClock.wallMs() });
      },
    };
    await cluster.topic({ "offload.grace.ms": "3600000" });
    await cluster.register(0, 1);
    const one = await cluster.node("store-1", a.path, { objectStore: objects });
    await fillAndSeal([one], 9);
    await cluster.segment(0, sealed({ "store-1": one }, 9));
    await until(() => cluster.log.find("upload lost its segment") !== undefined, "the loss");
    expect((await cluster.readSegment(0, 0))?.object).toEqual(other);
    await until(async () => (await keysOf(inner)).length === 1, "own object deleted");
    expect(await keysOf(inner)).toEqual([other.key]);
  });

  test("the next replica takes over an upload that does not get on, with a key of its own", async () => {
    await using a = await temporaryFolder();
    await using b = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    const inner = memoryObjectStore({ clock: systemClock });
    const stuck: ObjectStore = {
      ...bind(inner),
      put: (key, body, o) => (key.startsWith("clusters/") ? hang(o?.signal) : inner.put(key, body, o)),
    };
    await cluster.topic({ "offload.grace.ms": "3600000" });
    await cluster.register(0, 1);
    const one = await cluster.node("store-1", a.path, { objectStore: stuck, takeOverMs: 200 });
    const two = await cluster.node("store-2", b.path, { objectStore: inner, takeOverMs: 200 });
    await fillAndSeal([one, two], 9);
    await cluster.segment(0, sealed({ "store-1": one, "store-2": two }, 9));
    await until(async () => (await cluster.readSegment(0, 0))?.phase === "UPLOADING", "the first attempt");
    await until(async () => (await cluster.readSegment(0, 0))?.phase === "OFFLOADED", "the second attempt");
    expect(await keysOf(inner)).toEqual([(await cluster.readSegment(0, 0))?.object?.key]);
  });

  test("a copy that ends before the end never uploads", async () => {
    await using a = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    const objects = memoryObjectStore({ clock: systemClock });
    await cluster.topic();
    await cluster.register(0, 1);
    const one = await cluster.node("store-1", a.path, { objectStore: objects });
    const s = await one.create(0);
    const broker = await one.connect();
    broker.append(s, 0, 4);
    await broker.until(s, 4);
    expect(await one.seal(0, 9)).toMatchObject({ status: "INCOMPLETE" });
    await cluster.segment(0, sealed({ "store-1": one }, 9));
    await systemClock.sleep(400);
    expect((await cluster.readSegment(0, 0))?.phase).toBe("SEALED");
    expect(await keysOf(objects)).toEqual([]);
  });
});

describe("reconciler", () => {
  test("a copy whose Seal was lost is sealed by its key, and cut", async () => {
    await using a = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    await cluster.topic();
    await cluster.register(0, 2);
    const one = await cluster.node("store-1", a.path);
    const s = await one.create(0);
    const broker = await one.connect();
    broker.append(s, 0, 9);
    await broker.until(s, 9);
    await cluster.segment(0, sealed({ "store-1": one }, 6));
    const proxy = await one.connect("bulk");
    await until(async () => (await proxy.read(0, 0)).sealed, "sealed");
    expect(await proxy.read(0, 0)).toMatchObject({ limit: 6 });
  });
  test("an orphan goes when its epoch is over, and not before; a missing register keeps it", async () => {
    await using a = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    await cluster.topic();
    const one = await cluster.node("store-1", a.path);
    await one.create(0);
    const held = async () => (await one.client.describeNode({}, { timeoutMs: 5000 })).segments.length;
    await systemClock.sleep(700);
    expect(await held()).toBe(1);
    await cluster.register(0, 1);
    await systemClock.sleep(700);
    expect(await held()).toBe(1);
    await cluster.register(0, 2);
    await until(async () => (await held()) === 0, "the orphan is dropped");
  });
  test("a copy that was left out of the replicas waits, and goes when the others have gone", async () => {
    await using a = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    await cluster.topic();
    await cluster.register(0, 3);
    const one = await cluster.node("store-1", a.path);
    const s = await one.create(0);
    const broker = await one.connect();
    broker.append(s, 0, 4);
    await broker.until(s, 4);
    const held = async () => (await one.client.describeNode({}, { timeoutMs: 5000 })).segments.length;
    const others = ["store-2", "store-3"].map((id) => ({ node: memberId(id), incarnation: incarnation("elsewhere") }));
    const record = sealed({}, 9, { replicas: others, missing: [one.replica("store-1")] });
    await cluster.segment(0, record);
    await systemClock.sleep(500);
    expect(await held()).toBe(1);
    const object = { key: "clusters/some-object", at: 0, length: 5, format: 1 };
    await cluster.segment(0, { ...record, replicas: [], phase: "LOCAL_DELETED", object });
    await until(async () => (await held()) === 0, "dropped");
  });
  test("DELETING drops the copy, sealed or not", async () => {
    await using a = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    await cluster.topic();
    await cluster.register(0, 3);
    const one = await cluster.node("store-1", a.path);
    const s = await one.create(0);
    const broker = await one.connect();
    broker.append(s, 0, 9);
    await broker.until(s, 9);
    await cluster.segment(0, sealed({ "store-1": one }, 9, { phase: "DELETING" }));
    await until(async () => (await one.client.describeNode({}, { timeoutMs: 5000 })).segments.length === 0, "dropped");
    expect((await cluster.readSegment(0, 0))?.phase).toBe("DELETING");
  });
});

const hang = (signal: AbortSignal | undefined): Promise<void> =>
  new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(new Error("aborted"))));
function bind(s: ObjectStore): ObjectStore {
  return {
    put: (...a) => s.put(...a),
    putMultipart: (...a) => s.putMultipart(...a),
    getRange: (...a) => s.getRange(...a),
    head: (...a) => s.head(...a),
    delete: (...a) => s.delete(...a),
    list: (...a) => s.list(...a),
    close: () => s.close(),
  };
}
