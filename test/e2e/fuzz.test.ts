import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { setTimeout as sleep } from "node:timers/promises";
import type { Sluice } from "@sluice/client";
import { apis, type Api, type Input } from "@sluice/kafka-wire";
import { FrameType, helloCodec } from "@sluice/link";
import { encodeRequest, KafkaClient } from "@sluice/proxy/testing";
import { SeededRandom } from "@sluice/runtime/testing";
import { say } from "@sluice/test-support";
import { createTopic, TestCluster } from "./support/cluster.ts";
import { moreNodeOptions, withEnvironment } from "./support/environment.ts";
import { attack, type Target } from "./support/fuzz.ts";
import { grpcMessage, rawFrame } from "./support/hostile.ts";
import { Inside, plainBatch } from "./support/inside.ts";

const MiB = 1024 * 1024;
/** Of the short form; `npm run test:release` says how long the long one is. */
const SECONDS = Number(process.env["SLUICE_TEST_FUZZ_SECONDS"] ?? 6);
const SEED = Number(process.env["SLUICE_TEST_FUZZ_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
/** Code is compiled and pools are filled before the memory counts. */
const WARM_UP_MS = 2_000;
/** Memory is what services hold, not what V8 has not yet collected. */
const collectGarbage = new URL("./support/collect-garbage.ts", import.meta.url).href;
const SMALL_NEW_SPACE = "--max-semi-space-size=1";

function kafkaFrames(): Uint8Array[] {
  let correlation = 0;
  const frame = <R>(api: Api<R, unknown>, version: number, request: Input<R>): Uint8Array =>
    encodeRequest(api, version, (correlation += 1), request);
  const batch = plainBatch(["t/0/1", "t/0/2"]);
  const asked = [{ partition: 0, fetchOffset: 0, partitionMaxBytes: 4_096 }];
  return [
    frame(apis.ApiVersions, 3, { clientSoftwareName: "c", clientSoftwareVersion: "1" }),
    frame(apis.Metadata, 12, { topics: [{ name: "t" }], allowAutoTopicCreation: false }),
    frame(apis.Metadata, 1, { topics: null }),
    frame(apis.Produce, 9, { acks: -1, timeoutMs: 200, topicData: [{ name: "t", partitionData: [{ index: 0, records: batch }] }] }),
    frame(apis.Produce, 3, { acks: 0, timeoutMs: 200, topicData: [{ name: "t", partitionData: [{ index: 1, records: batch }] }] }),
    frame(apis.Fetch, 12, { maxWaitMs: 5, minBytes: 1, maxBytes: 8_192, sessionEpoch: 0, topics: [{ topic: "t", partitions: asked }] }),
    frame(apis.Fetch, 11, { maxWaitMs: 5, minBytes: 1, maxBytes: 8_192, sessionId: 1, sessionEpoch: 1 }),
    frame(apis.ListOffsets, 7, { replicaId: -1, topics: [{ name: "t", partitions: [{ partitionIndex: 0, timestamp: -1 }] }] }),
    frame(apis.FindCoordinator, 4, { keyType: 0, coordinatorKeys: ["g"] }),
    frame(apis.JoinGroup, 5, {
      groupId: "g",
      sessionTimeoutMs: 6_000,
      rebalanceTimeoutMs: 100,
      memberId: "",
      protocolType: "consumer",
      protocols: [{ name: "range", metadata: Buffer.from([0, 1, 0, 0, 0, 1, 0, 1, 116, 0, 0, 0, 0]) }],
    }),
    frame(apis.OffsetFetch, 8, { groups: [{ groupId: "g", topics: null }] }),
    frame(apis.DescribeConfigs, 4, { resources: [{ resourceType: 2, resourceName: "t", configurationKeys: null }] }),
    frame(apis.CreateTopics, 5, { topics: [{ name: "u", numPartitions: 1, replicationFactor: 3 }], timeoutMs: 100, validateOnly: true }),
  ];
}

/** HTTP/2 by hand: a session's opening, a unary call of the health service, and control frames. */
const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
function h2(type: number, flags: number, stream: number, payload: Uint8Array = new Uint8Array(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
function grpcFrames(): Uint8Array[] {
  const field = (name: string, value: string): Buffer => {
    const text = (s: string): Buffer => Buffer.concat([Buffer.of(s.length), Buffer.from(s)]);
    return Buffer.concat([Buffer.of(0), text(name), text(value)]);
  };
  const headers = (path: string): Buffer =>
    Buffer.concat([
      field(":method", "POST"),
      field(":scheme", "http"),
      field(":path", path),
      field(":authority", "t"),
      field("content-type", "application/grpc"),
      field("te", "trailers"),
    ]);
  const call = (path: string, message: Uint8Array): Buffer =>
    Buffer.concat([h2(1, 4, 1, headers(path)), h2(0, 1, 1, grpcMessage(message))]);
  return [
    call("/grpc.health.v1.Health/Check", new Uint8Array(0)),
    call("/sluice.v1.AdminService/DescribeTopic", Buffer.from([0x0a, 1, 0x74])),
    call("/sluice.v1.ConsumeService/Fetch", Buffer.from([0x0a, 1, 0x74, 0x10, 0])),
    call("/sluice.v1.ProduceService/Produce", Buffer.from([0x0a, 1, 0x74, 0x10, 0])),
    h2(6, 0, 0, Buffer.alloc(8)),
    h2(8, 0, 0, Buffer.from([0, 1, 0, 0])),
    h2(3, 0, 1, Buffer.alloc(4)),
    h2(4, 0, 0, Buffer.from([0, 3, 0, 0, 0, 100])),
  ];
}
const httpRequests = [
  "GET /metrics HTTP/1.1\r\nHost: t\r\n\r\n",
  "GET /readyz HTTP/1.1\r\nHost: t\r\n\r\n",
  "POST /livez HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc",
].map((text) => Buffer.from(text));
function linkFrames(inside: Inside): Uint8Array[] {
  const hello = { ...helloCodec.create(), ...inside.context.identity, windowBytes: MiB, wantsProof: true };
  const bytes = new Uint8Array(helloCodec.size(hello));
  helloCodec.encode(hello, new DataView(bytes.buffer), 0);
  const batch = plainBatch(["t/0/1"]);
  return [
    rawFrame(FrameType.hello, bytes),
    rawFrame(FrameType.proof, new Uint8Array(32)),
    rawFrame(FrameType.ping, new Uint8Array(0)),
    rawFrame(FrameType.credit, new Uint8Array(8)),
    rawFrame(FrameType.produce, new Uint8Array(44), batch),
    rawFrame(FrameType.append, new Uint8Array(44), batch),
    rawFrame(FrameType.read, new Uint8Array(52)),
  ];
}

describe("hostile bytes at every listener", () => {
  let cluster: TestCluster;
  let sluice: Sluice;
  let inside: Inside;
  beforeAll(async () => {
    const options = { name: "fuzz", proxies: 1, brokers: 1, stores: 3, config: { "kafka.autoCreateTopics": "false" } };
    cluster = await withEnvironment({ NODE_OPTIONS: moreNodeOptions(SMALL_NEW_SPACE, `--import ${collectGarbage}`) }, () =>
      TestCluster.start(options),
    );
    sluice = await cluster.connect();
    inside = await Inside.open(cluster);
    await createTopic(sluice, "t", 2);
    await createTopic(sluice, "calm", 1);
  }, 120_000);
  afterAll(async () => {
    await sluice?.close();
    await inside?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  function targets(): Target[] {
    const { proxies, brokers, stores } = cluster.handle.spec;
    const [proxy, broker, store] = [proxies[0]!, brokers[0]!, stores[0]!];
    const int32 = { at: 0, bytes: 4 };
    const link = { opening: [], good: linkFrames(inside), lengthAt: { ...int32, isBigEndian: false } };
    const http = { opening: [], good: httpRequests };
    const h2Opening = { opening: [PREFACE, h2(4, 0, 0)], good: grpcFrames(), lengthAt: { at: 0, bytes: 3, isBigEndian: true } };
    return [
      {
        name: "Kafka",
        process: proxy.id,
        address: proxy.kafka,
        opening: [],
        good: kafkaFrames(),
        lengthAt: { ...int32, isBigEndian: true },
      },
      { name: "gRPC", process: proxy.id, address: proxy.grpc, ...h2Opening },
      { name: "health", process: proxy.id, address: proxy.metrics, ...http },
      { name: "link", process: broker.id, address: broker.link, ...link },
      { name: "rpc", process: broker.id, address: broker.rpc, ...h2Opening },
      { name: "link", process: store.id, address: store.link, ...link },
    ];
  }

  /** Clients beside it: records through both protocols, over connections that stay. Returns how many were stored. */
  async function calmly(untilMs: number): Promise<number> {
    const producer = sluice.producer({ topic: "calm" });
    await using kafka = await KafkaClient.connect(cluster.kafka[0] as string);
    let count = 0;
    while (Date.now() < untilMs) {
      await producer.send({ value: `n${count}` });
      const records = plainBatch([`k${count}`]);
      const topicData = [{ name: "calm", partitionData: [{ index: 0, records }] }];
      const { responses } = await kafka.call(apis.Produce, 9, { acks: -1, timeoutMs: 10_000, topicData });
      expect(responses[0]?.partitionResponses[0]?.errorCode).toBe(0);
      count += 2;
      await sleep(50);
    }
    await producer.close();
    return count;
  }

  test(
    "nobody exits, memory follows what was sent, other connections are unharmed",
    () =>
      cluster.run(async () => {
        say(`fuzz: seed ${SEED}, ${SECONDS} s`);
        const all = targets();
        const pids = new Map(all.map(({ process: id }) => [id, cluster.pid(id)]));
        const random = (n: number): SeededRandom => new SeededRandom(SEED + n);
        await Promise.all(all.map((target, i) => attack(target, random(1_000 + i), Date.now() + WARM_UP_MS)));
        const before = new Map<string, number>();
        const largest = new Map<string, number>();
        for (const id of pids.keys()) before.set(id, await cluster.rssBytes(id));
        const look = async (): Promise<void> => {
          for (const id of pids.keys()) largest.set(id, Math.max(largest.get(id) ?? 0, await cluster.rssBytes(id)));
        };
        const watch = setInterval(() => void look().catch(() => undefined), 100);
        const untilMs = Date.now() + SECONDS * 1_000;
        const [calm, ...done] = await Promise.all([calmly(untilMs), ...all.map((target, i) => attack(target, random(i), untilMs))]);
        clearInterval(watch);
        await look();

        all.forEach(({ name, process: id }, i) => say(`fuzz: ${id} ${name}: ${done[i]?.connections} connections, ${done[i]?.bytes} bytes`));
        for (const [id, pid] of pids) {
          const sent = all.reduce((sum, target, i) => sum + (target.process === id ? (done[i]?.bytes ?? 0) : 0), 0);
          const grown = (largest.get(id) ?? 0) - (before.get(id) ?? 0);
          say(`fuzz: ${id} grew by ${(grown / MiB).toFixed(1)} MiB, ${(sent / MiB).toFixed(1)} MiB were sent`);
          expect([id, cluster.pid(id)]).toEqual([id, pid]);
          expect({ id, grown, isWithin: grown < 4 * sent + 32 * MiB }).toMatchObject({ isWithin: true });
        }
        for (const member of await cluster.handle.status()) expect([member.id, member.state]).toEqual([member.id, "running"]);
        expect((await sluice.admin.listOffsets("calm", "latest"))[0]?.offset).toBe(calm);
      }),
    SECONDS * 1_000 + 120_000,
  );
});
