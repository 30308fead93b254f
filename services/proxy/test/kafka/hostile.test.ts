import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { apis } from "@sluice/kafka-wire";
import { systemClock } from "@sluice/runtime";
import { SeededRandom } from "@sluice/runtime/testing";
import { FakeCluster } from "../support/fake-cluster.ts";
import { encodeRequest } from "../support/kafka-client.ts";
import { batchOf, startProxy, type RunningProxy } from "../support/proxy.ts";

const CONNECTIONS = 300;
const IN_PARALLEL = 8;

describe("hostile bytes on the Kafka port", () => {
  const cluster = new FakeCluster();
  let p: RunningProxy;
  beforeAll(async () => {
    await cluster.start();
    await cluster.topic("t", 2);
    p = await startProxy(cluster);
  }, 30_000);
  afterAll(async () => {
    await p[Symbol.asyncDispose]();
    await cluster[Symbol.asyncDispose]();
  });

  const batch = batchOf(["x".repeat(50)]);
  const good: readonly Uint8Array[] = [
    encodeRequest(apis.ApiVersions, 3, 1, { clientSoftwareName: "c", clientSoftwareVersion: "1" }),
    encodeRequest(apis.Metadata, 12, 2, { topics: [{ name: "t" }], allowAutoTopicCreation: false }),
    encodeRequest(apis.Produce, 9, 3, {
      acks: -1,
      timeoutMs: 100,
      topicData: [{ name: "t", partitionData: [{ index: 0, records: batch }] }],
    }),
    encodeRequest(apis.Fetch, 12, 4, {
      maxWaitMs: 1,
      topics: [{ topic: "t", partitions: [{ partition: 0, fetchOffset: 0, partitionMaxBytes: 100 }] }],
    }),
    encodeRequest(apis.ListOffsets, 7, 5, { topics: [{ name: "t", partitions: [{ partitionIndex: 0, timestamp: -1 }] }], replicaId: -1 }),
    encodeRequest(apis.DescribeConfigs, 4, 6, { resources: [{ resourceType: 2, resourceName: "t", configurationKeys: null }] }),
  ];

  test("random, changed and cut frames: other connections are unharmed, memory stays, nothing is written that was not sent", async () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const random = new SeededRandom(seed);
    await using calm = await p.kafka();
    const before = process.memoryUsage().rss;
    let sent = 0;
    const attack = async (): Promise<void> => {
      await using client = await p.kafka();
      for (let i = 0; i < 6; i += 1) {
        const frame = Buffer.from(good[random.int(good.length)] as Uint8Array);
        const kind = random.int(4);
        if (kind === 0) random.bytes(frame.length).forEach((byte, at) => (frame[at] = byte));
        // The length and the API stay as they are, so that the message is what is broken.
        else if (kind === 1) for (let n = 0; n < 4; n += 1) frame[8 + random.int(frame.length - 8)] = random.int(256);
        else if (kind === 2) frame.writeInt32BE(random.int(0x7fff_ffff), 0);
        const bytes = kind === 3 ? frame.subarray(0, random.int(frame.length)) : frame;
        sent += bytes.length;
        client.socket.write(bytes);
      }
      await Promise.race([client.closed, systemClock.sleep(20)]);
    };
    try {
      for (let i = 0; i < CONNECTIONS; i += IN_PARALLEL) {
        await Promise.all(Array.from({ length: IN_PARALLEL }, attack));
        expect((await calm.call(apis.Metadata, 12, { topics: [{ name: "t" }] })).topics[0]?.errorCode).toBe(0);
      }
      expect(process.memoryUsage().rss - before).toBeLessThan(4 * sent + 64 * 1024 * 1024);
    } catch (error) {
      throw new Error(`seed ${seed}`, { cause: error });
    }
  }, 60_000);

  test("many connections that each announce a large request cost what they send", async () => {
    const head = Buffer.alloc(12);
    head.writeInt32BE(90 * 1024 * 1024, 0);
    const before = process.memoryUsage();
    const all = await Promise.all(Array.from({ length: 40 }, () => p.kafka()));
    for (const { socket } of all) socket.write(head);
    await systemClock.sleep(100);
    const after = process.memoryUsage();
    expect(after.rss - before.rss).toBeLessThan(64 * 1024 * 1024);
    // Small requests of others go on.
    await using calm = await p.kafka();
    expect((await calm.call(apis.ApiVersions, 0, {})).errorCode).toBe(0);
    for (const client of all) await client[Symbol.asyncDispose]();
    // What they had claimed is free again.
    const records = Buffer.alloc(300 * 1024);
    const answer = await calm.call(apis.Produce, 9, {
      acks: -1,
      timeoutMs: 1_000,
      topicData: [{ name: "t", partitionData: [{ index: 0, records }] }],
    });
    expect(answer.responses[0]?.partitionResponses[0]?.errorCode).not.toBe(0);
    expect(await p.metrics.value("sluice_proxy_kafka_large_frames_bytes")).toBe(0);
  }, 30_000);
});
