import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { createKeys, memberCodec, partitionStateCodec, topicCodec } from "@sluice/catalog";
import { epoch, instanceId, memberId, SluiceError, topicId, type PartitionState, type SegmentRecord } from "@sluice/core/model";
import type { MetaTxnEffect } from "@sluice/core/partition";
import { faultyMetadata, openEmbeddedMetadata, type MetadataStore } from "@sluice/metadata";
import { systemClock } from "@sluice/runtime";
import { SeededRandom } from "@sluice/runtime/testing";
import { createMetadataCalls, type MetadataCalls } from "../src/metadata-calls.ts";

const keys = createKeys("test");
const p = { topicId: topicId("6f1c1c0a-0000-4000-8000-000000000001"), partition: 3 };
const state = (nonce: string, e = 1): PartitionState => ({
  epoch: epoch(e),
  owner: memberId("broker-1"),
  ownerInstance: instanceId("i-1"),
  nonce,
  phase: "RECOVERING",
});
const segment: SegmentRecord = { segment: { epoch: epoch(1), k: 0 }, base: 0, phase: "OPEN", replicas: [] };
const txn = (expectedRevision: number, nonce: string, segments: readonly SegmentRecord[] = []): MetaTxnEffect => ({
  kind: "metaTxn",
  call: 7,
  expectedRevision,
  state: state(nonce),
  segments,
  readSegment: { segment: segment.segment, base: 0 },
});

describe("metadata effects of a partition", () => {
  let store: MetadataStore;
  let calls: MetadataCalls;
  let topicRevision = 0;

  beforeEach(async () => {
    store = openEmbeddedMetadata({ path: ":memory:", clock: systemClock });
    const record = {
      tenant: "default",
      name: "t",
      topicId: p.topicId,
      partitions: 4,
      config: {},
      phase: "ACTIVE" as const,
      createdAtMs: 1,
    };
    const done = await store.txn({
      compare: [],
      then: [{ kind: "put", key: keys.topic("default", "t"), value: topicCodec.encode(record) }],
    });
    topicRevision = done.revision;
    calls = createMetadataCalls(store, keys, () => ({ key: keys.topic("default", "t"), modRevision: topicRevision }));
  });
  afterEach(() => store.close());

  test("the first register is made once, with its segment, and read back", async () => {
    const first = await calls.txn(p, txn(0, "a", [segment]));
    expect(first).toMatchObject({
      kind: "metaTxnDone",
      call: 7,
      outcome: "applied",
      register: { state: { nonce: "a" } },
      segment: { phase: "OPEN" },
      logStart: 0,
    });
    const second = await calls.txn(p, txn(0, "b"));
    expect(second).toMatchObject({ outcome: "compareFailed", register: { state: { nonce: "a" } } });
  });

  test("a register whose topic was removed meanwhile is not made", async () => {
    await store.txn({ compare: [], then: [{ kind: "delete", key: keys.topic("default", "t") }] });
    expect(await calls.txn(p, txn(0, "a"))).toMatchObject({ outcome: "compareFailed", register: { modRevision: 0, state: undefined } });
  });

  test("only the known revision is replaced", async () => {
    const first = await calls.txn(p, txn(0, "a"));
    const revision = first.kind === "metaTxnDone" ? (first.register?.modRevision ?? 0) : 0;
    expect(await calls.txn(p, txn(revision, "b"))).toMatchObject({ outcome: "applied" });
    expect(await calls.txn(p, txn(revision, "c"))).toMatchObject({ outcome: "compareFailed", register: { state: { nonce: "b" } } });
  });

  test("the owner is alive while its member key names its instance", async () => {
    await calls.txn(p, txn(0, "a"));
    expect(await calls.get(p, { kind: "metaGet", call: 1 })).toMatchObject({ outcome: "ok", ownerAlive: false });
    const member = {
      service: "broker" as const,
      id: memberId("broker-1"),
      numericId: 1,
      zone: "a",
      endpoints: {},
      version: "0",
      draining: false,
    };
    const put = (instance: string) =>
      store.txn({
        compare: [],
        then: [
          { kind: "put", key: keys.member("broker", member.id), value: memberCodec.encode({ ...member, instance: instanceId(instance) }) },
        ],
      });
    await put("i-1");
    expect(await calls.get(p, { kind: "metaGet", call: 2 })).toMatchObject({ ownerAlive: true, register: { state: { nonce: "a" } } });
    await put("i-2");
    expect(await calls.get(p, { kind: "metaGet", call: 3 })).toMatchObject({ ownerAlive: false });
  });

  test("a lost answer is unknown, and the identical transaction settles it", async () => {
    const faulty = faultyMetadata(store, { random: new SeededRandom(1), clock: systemClock, unknownApplied: 1 });
    const lossy = createMetadataCalls(faulty, keys, () => ({ key: keys.topic("default", "t"), modRevision: topicRevision }));
    expect(await lossy.txn(p, txn(0, "a"))).toMatchObject({ outcome: "unknown" });
    faulty.calm();
    expect(await lossy.txn(p, txn(0, "a"))).toMatchObject({ outcome: "compareFailed", register: { state: { nonce: "a" } } });
  });

  test("nothing sent is told apart", async () => {
    const away: MetadataStore = { ...store, txn: () => Promise.reject(new SluiceError("METADATA_UNAVAILABLE", "away")) } as MetadataStore;
    expect(await createMetadataCalls(away, keys, () => ({ key: "k", modRevision: 1 })).txn(p, txn(0, "a"))).toMatchObject({
      outcome: "unavailable",
    });
    expect(await createMetadataCalls(away, keys, () => undefined).get(p, { kind: "metaGet", call: 1 })).toMatchObject({
      outcome: "failed",
    });
  });

  test("so many are under way at a time; what is asked again while it waits is sent once, and each is answered", async () => {
    const hold = Promise.withResolvers<void>();
    let sent = 0;
    const slow = {
      ...store,
      get: (key: string) => store.get(key),
      txn: async (request: Parameters<MetadataStore["txn"]>[0]) => {
        sent += 1;
        await hold.promise;
        return store.txn(request);
      },
    } as MetadataStore;
    const held = createMetadataCalls(slow, keys, () => ({ key: keys.topic("default", "t"), modRevision: topicRevision }));
    const others = Array.from({ length: 64 }, (_, n) => held.get({ ...p, partition: 100 + n }, { kind: "metaGet", call: n }));
    const reads = [1, 2, 3].map((call) => held.get(p, { kind: "metaGet", call }));
    const writes = [4, 5].map((call) => held.txn(p, { ...txn(0, "a"), call }));
    expect([sent, held.waiting]).toEqual([64, 2]);
    hold.resolve();
    await Promise.all(others);
    expect(await Promise.all(reads)).toMatchObject([1, 2, 3].map((call) => ({ kind: "metaGot", call, outcome: "ok" })));
    expect(await Promise.all(writes)).toMatchObject(
      [4, 5].map((call) => ({ call, outcome: "applied", register: { state: { nonce: "a" } } })),
    );
    expect([sent, held.waiting]).toEqual([66, 0]);
  });

  test("what was written is what another reads", async () => {
    await calls.txn(p, txn(0, "a"));
    const { entry } = await store.get(keys.state(p));
    expect(partitionStateCodec.decode(entry?.value as Uint8Array)).toMatchObject({ epoch: 1, phase: "RECOVERING", nonce: "a" });
  });
});
