import { describe, expect, test } from "@jest/globals";
import { crc32c } from "@sluice/codec";
import { stampProducer } from "@sluice/core/log";
import { apis, type ProduceResponse } from "@sluice/kafka-wire";
import { FakeCluster } from "../support/fake-cluster.ts";
import { batchOf, eventually, startProxy } from "../support/proxy.ts";

const one = (name: string, index: number, records: Uint8Array | null, acks = -1) => ({
  acks,
  timeoutMs: 5_000,
  topicData: [{ name, partitionData: [{ index, records }] }],
});
const partitionsOf = (response: ProduceResponse) => response.responses.flatMap(({ partitionResponses }) => partitionResponses);

describe("Produce", () => {
  test.each([3, 7, 8, 9, 12])("version %d: batches go to their partitions as they came, and offsets come back", async (version) => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 2);
    await using client = await p.kafka();
    const batch = batchOf(["a", "b"]);
    const request = {
      acks: -1,
      timeoutMs: 5_000,
      topicData: [{ name: "t", partitionData: [0, 1].map((index) => ({ index, records: batch })) }],
    };
    await client.call(apis.Produce, version, request);
    const answer = partitionsOf(await client.call(apis.Produce, version, request));
    expect(answer.map(({ index, errorCode, baseOffset, logAppendTimeMs }) => [index, errorCode, baseOffset, logAppendTimeMs])).toEqual([
      [0, 0, 2, -1],
      [1, 0, 2, -1],
    ]);
    const stored = cluster.log(topic, 0).batches[0]?.bytes.subarray(21);
    expect(Buffer.from(stored ?? []).toString("hex")).toBe(Buffer.from(batch.subarray(21)).toString("hex"));
  });

  test("requests go on without waiting for one another, and a partition keeps their order across a move of its owner", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    await using client = await p.kafka();
    await client.call(apis.Produce, 9, one("t", 0, batchOf(["first"])));
    cluster.holding = true;
    const all = Array.from({ length: 20 }, (_, i) => client.call(apis.Produce, 9, one("t", 0, batchOf([`v${i}`]))));
    await eventually(() => cluster.heldFrames === 20, "20 batches at the owner");
    cluster.refusals.push(...Array.from({ length: 20 }, () => "NOT_OWNER" as const));
    cluster.releaseHeld();
    const offsets = (await Promise.all(all)).map((answer) => partitionsOf(answer)[0]?.baseOffset);
    expect(offsets).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
  });

  test("requests behind one for a topic that has to be looked up do not overtake it", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await using client = await p.kafka();
    const topic = await cluster.topic("fresh", 1);
    const all = Array.from({ length: 10 }, (_, i) => client.call(apis.Produce, 9, one("fresh", 0, batchOf([`v${i}`]))));
    const offsets = (await Promise.all(all)).map((answer) => partitionsOf(answer)[0]?.baseOffset);
    expect(offsets).toEqual(Array.from({ length: 10 }, (_, i) => i));
    expect(cluster.log(topic, 0).next).toBe(10);
  });

  test("each partition has its own error", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 2, { "max.message.bytes": "2000" });
    await using client = await p.kafka();
    const good = batchOf(["x"]);
    const badCrc = good.map((byte, i) => (i === good.length - 1 ? byte ^ 1 : byte));
    const oldMagic = good.map((byte, i) => (i === 16 ? 1 : byte));
    const partitionData = [
      { index: 0, records: good },
      { index: 1, records: badCrc },
      { index: 1, records: oldMagic },
      { index: 1, records: null },
      { index: 7, records: good },
      { index: 1, records: batchOf(["y".repeat(3_000)]) },
    ];
    const answer = await client.call(apis.Produce, 9, {
      acks: -1,
      timeoutMs: 5_000,
      topicData: [
        { name: "t", partitionData },
        { name: "absent", partitionData: [{ index: 0, records: good }] },
      ],
    });
    const codes = (t: number) => answer.responses[t]?.partitionResponses.map(({ index, errorCode }) => `${index}: ${errorCode}`).toSorted();
    expect(codes(0)).toEqual(["0: 0", "1: 10", "1: 2", "1: 43", "1: 87", "7: 3"]);
    expect(codes(1)).toEqual(["0: 3"]);
  });

  test("what is not served is refused whole: transactions, unknown acks; zstd before version 7", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 1);
    await using client = await p.kafka();
    const batch = batchOf(["x"]);
    const codeOf = async (request: Parameters<typeof client.call>[2], version = 9): Promise<number | undefined> =>
      partitionsOf((await client.call(apis.Produce, version, request as never)) as ProduceResponse)[0]?.errorCode;
    expect(await codeOf({ ...one("t", 0, batch), transactionalId: "t-1" } as never)).toBe(35);
    expect(await codeOf(one("t", 0, batch, 2) as never)).toBe(21);
    const zstd = batch.map((byte, i) => (i === 22 ? 4 : byte));
    expect(await codeOf(one("t", 0, zstd) as never, 6)).toBe(76);
    expect(cluster.log(topic, 0).next).toBe(0);
  });

  test("acks=0: written without an answer; what cannot be written closes the connection", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 1);
    await using client = await p.kafka();
    client.send(apis.Produce, 9, one("t", 0, batchOf(["x"]), 0));
    await eventually(() => cluster.log(topic, 0).next === 1, "the record");
    expect((await client.call(apis.ApiVersions, 0, {})).errorCode).toBe(0);
    expect(client.stray).toEqual([]);
    client.send(apis.Produce, 9, one("t", 5, batchOf(["x"]), 0));
    await client.closed;
  });

  test("an unknown outcome of a batch without a producer id is told as one that a client tries again", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    await using client = await p.kafka();
    cluster.refusals.push("OUTCOME_UNKNOWN");
    const [refused] = partitionsOf(await client.call(apis.Produce, 9, one("t", 0, batchOf(["x"]))));
    expect(refused?.errorCode).toBe(20);
    // With one, the proxy tries again itself.
    const batch = batchOf(["x"]);
    stampProducer(batch, 0, 7, 0, 0, crc32c);
    cluster.refusals.push("OUTCOME_UNKNOWN", "TIMED_OUT");
    const [stored] = partitionsOf(await client.call(apis.Produce, 9, one("t", 0, batch)));
    expect([stored?.errorCode, stored?.baseOffset]).toEqual([0, 0]);
  });

  test.each([
    ["OUT_OF_ORDER_SEQUENCE", 45],
    ["INVALID_PRODUCER_EPOCH", 47],
    ["DUPLICATE_SEQUENCE", 46],
    ["UNKNOWN_TOPIC", 3],
  ] as const)("an owner's %s is Kafka's %d", async (code, kafka) => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    await using client = await p.kafka();
    cluster.refusals.push(code);
    const [answer] = partitionsOf(await client.call(apis.Produce, 9, one("t", 0, batchOf(["x"]))));
    expect([answer?.errorCode, answer?.errorMessage?.split(":")[0]]).toEqual([kafka, code]);
  });

  describe("a batch of a producer that its owner has never heard of", () => {
    const numbered = (sequence: number): Uint8Array => {
      const batch = batchOf(["x"]);
      stampProducer(batch, 0, 7, 0, sequence, crc32c);
      return batch;
    };

    test("is taken where it is, when nothing is missing; when the producer was forgotten the client is told, and where the log starts", async () => {
      await using cluster = new FakeCluster();
      await cluster.start();
      await using p = await startProxy(cluster);
      await cluster.topic("t", 1);
      await using client = await p.kafka();
      cluster.refusals.push("UNKNOWN_PRODUCER");
      const [taken] = partitionsOf(await client.call(apis.Produce, 9, one("t", 0, numbered(5))));
      expect([taken?.errorCode, taken?.baseOffset]).toEqual([0, 0]);
      expect(cluster.vouched).toBe(1);
      cluster.refusals.push("UNKNOWN_PRODUCER", "UNKNOWN_PRODUCER");
      const [unknown] = partitionsOf(await client.call(apis.Produce, 9, one("t", 0, numbered(6))));
      expect([unknown?.errorCode, unknown?.logStartOffset]).toEqual([59, 0]);
    });

    test("is out of order while an earlier one of its own has failed on the connection, as clients send again in order then", async () => {
      await using cluster = new FakeCluster();
      await cluster.start();
      await using p = await startProxy(cluster);
      await cluster.topic("t", 2);
      await using client = await p.kafka();
      await using other = await p.kafka();
      const codeOf = async (from: typeof client, partition: number, sequence: number, ...refusals: typeof cluster.refusals) => {
        cluster.refusals.push(...refusals);
        const [answer] = partitionsOf(await from.call(apis.Produce, 9, one("t", partition, numbered(sequence))));
        expect(cluster.refusals).toEqual([]);
        return answer?.errorCode;
      };
      expect(await codeOf(client, 0, 0, "DUPLICATE_SEQUENCE")).toBe(46);
      expect(await codeOf(client, 0, 1, "UNKNOWN_PRODUCER")).toBe(45);
      expect(await codeOf(client, 0, 2, "UNKNOWN_PRODUCER")).toBe(45);
      expect(await codeOf(client, 1, 1, "UNKNOWN_PRODUCER", "UNKNOWN_PRODUCER")).toBe(59);
      expect(await codeOf(other, 0, 1, "UNKNOWN_PRODUCER", "UNKNOWN_PRODUCER")).toBe(59);
      // The missing one itself is behind nothing: it is taken.
      expect(await codeOf(client, 0, 0, "UNKNOWN_PRODUCER")).toBe(0);
      expect(await codeOf(client, 0, 9, "UNKNOWN_PRODUCER", "UNKNOWN_PRODUCER")).toBe(59);
    });
  });

  test("full disks are waited for, then Kafka's 56", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    await using client = await p.kafka();
    const produce = async (timeoutMs: number) => {
      const [answer] = partitionsOf(await client.call(apis.Produce, 9, { ...one("t", 0, batchOf(["x"])), timeoutMs }));
      return [answer?.errorCode, answer?.errorMessage?.split(":")[0]];
    };
    cluster.refusals.push("DISK_FULL", "DISK_FULL");
    expect(await produce(5_000)).toEqual([0, undefined]);
    // More than fit in the time.
    for (let i = 0; i < 1_000; i++) cluster.refusals.push("DISK_FULL");
    expect(await produce(500)).toEqual([56, "DISK_FULL"]);
  });

  test("producer ids are never given twice, whatever id a producer had", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using first = await startProxy(cluster, "proxy-1");
    await using second = await startProxy(cluster, "proxy-2");
    await using a = await first.kafka();
    await using b = await second.kafka();
    const ids = new Set<number>();
    for (const client of [a, b, a, b]) {
      const answer = await client.call(apis.InitProducerId, 4, {
        transactionalId: null,
        transactionTimeoutMs: 0,
        producerId: 3,
        producerEpoch: 9,
      });
      expect([answer.errorCode, answer.producerEpoch]).toEqual([0, 0]);
      ids.add(answer.producerId);
    }
    expect(ids.size).toBe(4);
    const refused = await a.call(apis.InitProducerId, 4, { transactionalId: "t", transactionTimeoutMs: 1 });
    expect([refused.errorCode, refused.producerId]).toEqual([35, -1]);
  });
});
