import { topicCodec } from "@sluice/catalog";
import { describe, expect, jest, test } from "@jest/globals";
import { epoch, type TopicRecord } from "@sluice/core/model";
import { apis } from "@sluice/kafka-wire";
import { FakeCluster } from "../support/fake-cluster.ts";
import type { KafkaClient } from "../support/kafka-client.ts";
import { batchOf, startProxy } from "../support/proxy.ts";

async function offsetAt(client: KafkaClient, version: number, timestamp: number, partitionIndex = 0) {
  const answer = await client.call(apis.ListOffsets, version, {
    replicaId: -1,
    topics: [{ name: "t", partitions: [{ partitionIndex, timestamp }] }],
    ...(version >= 10 ? { timeoutMs: 5_000 } : {}),
  });
  const part = answer.topics[0]?.partitions[0];
  return [part?.errorCode, part?.offset, part?.timestamp];
}

describe("ListOffsets", () => {
  test.each([1, 2, 5, 7, 10])("version %d: earliest and latest", async (version) => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 2);
    for (let i = 0; i < 3; i += 1) cluster.append(topic, 0, batchOf(["a", "b"]));
    await using client = await p.kafka();
    expect(await offsetAt(client, version, -2)).toEqual([0, 0, -1]);
    expect(await offsetAt(client, version, -1)).toEqual([0, 6, -1]);
    expect(await offsetAt(client, version, -1, 1)).toEqual([0, 0, -1]);
    expect(await offsetAt(client, version, -1, 2)).toEqual([3, -1, -1]);
  });

  test("positions that nothing lies at: offset -1, and never a time with it", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    await using client = await p.kafka();
    for (const timestamp of [-3, -5, 5, -99]) expect(await offsetAt(client, 9, timestamp)).toEqual([0, -1, -1]);
    expect(await offsetAt(client, 9, -4)).toEqual([0, 0, -1]);
  });

  test("a leader epoch that never was is refused", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    await using client = await p.kafka();
    const topics = [{ name: "t", partitions: [{ partitionIndex: 0, currentLeaderEpoch: 9, timestamp: -1 }] }];
    const answer = await client.call(apis.ListOffsets, 5, { replicaId: -1, topics });
    expect(answer.topics[0]?.partitions[0]?.errorCode).toBe(75);
  });
});

describe("OffsetForLeaderEpoch", () => {
  test("the end of an epoch is where the next one began; the last one ends at the high watermark", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 1);
    const partition = { topicId: topic.topicId, partition: 0 };
    // Epoch 1 wrote 0 to 9, epoch 4 wrote 10 to 14, epoch 6 is writing.
    const replicas = [] as const;
    await cluster.segment(partition, { segment: { epoch: epoch(1), k: 0 }, base: 0, end: 9, phase: "SEALED", replicas });
    await cluster.segment(partition, { segment: { epoch: epoch(4), k: 0 }, base: 10, end: 14, phase: "SEALED", replicas });
    await cluster.segment(partition, { segment: { epoch: epoch(6), k: 0 }, base: 15, phase: "OPEN", replicas });
    const log = cluster.log(topic, 0);
    log.epoch = 6;
    log.next = 15;
    cluster.append(topic, 0, batchOf(["a", "b"]));
    await using client = await p.kafka();
    const end = async (leaderEpoch: number) => {
      const topics = [{ topic: "t", partitions: [{ partition: 0, leaderEpoch }] }];
      const part = (await client.call(apis.OffsetForLeaderEpoch, 4, { replicaId: -1, topics })).topics[0]?.partitions[0];
      return [part?.errorCode, part?.leaderEpoch, part?.endOffset];
    };
    expect(await end(0)).toEqual([0, 0, 0]);
    expect(await end(1)).toEqual([0, 1, 10]);
    expect(await end(3)).toEqual([0, 1, 10]);
    expect(await end(4)).toEqual([0, 4, 15]);
    expect(await end(6)).toEqual([0, 6, 17]);
    expect(await end(7)).toEqual([0, -1, -1]);
  });
});

describe("DeleteRecords", () => {
  test("raises the log start up to the end and never back; what lies below is out of range", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 1);
    for (let i = 0; i < 5; i += 1) cluster.append(topic, 0, batchOf(["a", "b"]));
    await using client = await p.kafka();
    const remove = async (offset: number) => {
      const topics = [{ name: "t", partitions: [{ partitionIndex: 0, offset }] }];
      const part = (await client.call(apis.DeleteRecords, 2, { topics, timeoutMs: 5_000 })).topics[0]?.partitions[0];
      return [part?.errorCode, part?.lowWatermark];
    };
    expect(await remove(4)).toEqual([0, 4]);
    expect(await offsetAt(client, 5, -2)).toEqual([0, 4, -1]);
    expect(await remove(2)).toEqual([0, 4]);
    expect([await remove(11), await remove(-2)]).toEqual([
      [1, -1],
      [1, -1],
    ]);
    const fetch = async (fetchOffset: number) => {
      const topics = [{ topic: "t", partitions: [{ partition: 0, fetchOffset, partitionMaxBytes: 1_000_000 }] }];
      return (await client.call(apis.Fetch, 11, { maxWaitMs: 1_000, minBytes: 1, topics })).responses[0]?.partitions[0]?.errorCode;
    };
    expect([await fetch(3), await fetch(4)]).toEqual([1, 0]);
    expect(await remove(-1)).toEqual([0, 10]);
    expect(await offsetAt(client, 5, -2)).toEqual([0, 10, -1]);
  });

  const removeAt4 = async (client: KafkaClient, name: string, timeoutMs: number) => {
    const topics = [{ name, partitions: [{ partitionIndex: 0, offset: 4 }] }];
    const part = (await client.call(apis.DeleteRecords, 2, { topics, timeoutMs })).topics[0]?.partitions[0];
    return [part?.errorCode, part?.lowWatermark];
  };

  /** A topic of five records in one partition. */
  const withFive = async (
    work: (scene: { cluster: FakeCluster; client: KafkaClient; topic: TopicRecord }) => Promise<void>,
    name = "t",
  ): Promise<void> => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic(name, 1);
    cluster.append(topic, 0, batchOf(["a", "b", "c", "d", "e"]));
    await using client = await p.kafka();
    await work({ cluster, client, topic });
  };

  test("a time-out of 0 is none", () =>
    withFive(async ({ client }) => {
      expect(await removeAt4(client, "t", 0)).toEqual([0, 4]);
    }));

  test("another attempt comes after a pause", () =>
    withFive(async ({ cluster, client }) => {
      const txn = jest.spyOn(cluster.store, "txn").mockResolvedValue({ succeeded: false, revision: 1, results: [] });
      try {
        expect(await removeAt4(client, "t", 300)).toEqual([7, -1]);
        expect(txn.mock.calls.length).toBeGreaterThan(1);
        expect(txn.mock.calls.length).toBeLessThan(10);
      } finally {
        txn.mockRestore();
      }
    }));

  test("a topic that is deleted meanwhile gets no log start", () =>
    withFive(async ({ cluster, client, topic }) => {
      const { store, keys } = cluster;
      const txn = store.txn.bind(store);
      const spy = jest.spyOn(store, "txn").mockImplementationOnce(async (asked) => {
        const value = topicCodec.encode({ ...topic, phase: "DELETING" });
        await txn({ compare: [], then: [{ kind: "put", key: keys.topic("default", "t"), value }] });
        return txn(asked);
      });
      try {
        expect(await removeAt4(client, "t", 2_000)).toEqual([3, -1]);
        expect((await store.get(keys.start({ topicId: topic.topicId, partition: 0 }))).entry).toBeUndefined();
      } finally {
        spy.mockRestore();
      }
    }));

  test("the cluster's own topics are refused", () =>
    withFive(async ({ client, topic }) => {
      expect(await removeAt4(client, topic.name, 2_000)).toEqual([29, -1]);
    }, "__sluice_groups"));
});
