import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { execFile } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { codeOf, type Sluice } from "@sluice/client";
import { errorCodeOf } from "@sluice/core/model";
import { call, FrameType, helloCodec, producedCodec, type Codec, type HelloMessage, type Link } from "@sluice/link";
import { createTopic, TestCluster, until } from "./support/cluster.ts";
import { grpcMessage, halfMessages, linkErrorOf, rawFrame, sendGrpc, sendRaw } from "./support/hostile.ts";
import { Inside, plainBatch } from "./support/inside.ts";

const MiB = 1024 * 1024;
const EMPTY = new Uint8Array(0);

/** A message whose header is what the test says. */
const rawCodec = (type: number): Codec<Uint8Array> => ({
  type,
  create: () => EMPTY,
  size: (header) => header.length,
  encode: (header, view, at) => new Uint8Array(view.buffer, view.byteOffset + at, header.length).set(header),
  decode: (_frame, into) => into,
});
const helloHeader = (hello: HelloMessage): Uint8Array => {
  const bytes = new Uint8Array(helloCodec.size(hello));
  helloCodec.encode(hello, new DataView(bytes.buffer), 0);
  return bytes;
};

describe("bad input", () => {
  let cluster: TestCluster;
  let client: Sluice;
  let inside: Inside;
  const pids = new Map<string, number>();
  beforeAll(async () => {
    cluster = await TestCluster.start({ name: "bad-input", proxies: 1, brokers: 1, stores: 3 });
    client = await cluster.connect();
    inside = await Inside.open(cluster);
    await createTopic(client, "t", 1);
    for (const id of Object.keys(cluster.handle.spec.processes)) pids.set(id, cluster.pid(id));
  }, 120_000);
  afterAll(async () => {
    await client?.close();
    await inside?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  /** What every part of this file promises at its end: nobody has ended, and the cluster works. */
  async function expectUnharmed(): Promise<void> {
    for (const member of await cluster.handle.status()) {
      expect([member.id, member.state, member.pid]).toEqual([member.id, "running", pids.get(member.id)]);
    }
    const producer = client.producer({ topic: "t" });
    const { offset } = await producer.send({ partition: 0, key: "k", value: "still here" });
    await producer.close();
    await using consumer = client.consumer({ topic: "t", from: { offset } });
    for await (const record of consumer) {
      expect(record.valueText()).toBe("still here");
      break;
    }
  }
  /** Runs `attack`, which tells how many bytes it sent, and holds the process to the rule on memory. */
  async function withinMemory(id: string, attack: () => Promise<number>): Promise<void> {
    const before = await cluster.rssBytes(id);
    let largest = before;
    const watch = setInterval(() => void cluster.rssBytes(id).then((rss) => (largest = Math.max(largest, rss))), 50);
    try {
      const sent = await attack();
      await sleep(200);
      largest = Math.max(largest, await cluster.rssBytes(id));
      expect(largest - before).toBeLessThanOrEqual(4 * sent + 32 * MiB);
    } finally {
      clearInterval(watch);
    }
  }
  const codeFrom = async (promise: Promise<unknown>): Promise<string> => {
    try {
      await promise;
      return "ok";
    } catch (error) {
      return codeOf(error);
    }
  };

  test("names, topics and configuration", async () => {
    await cluster.run(async () => {
      const { admin } = client;
      const create = (name: string, partitions = 1, config: Record<string, string> = {}) =>
        codeFrom(admin.createTopic({ name, partitions, config }));
      for (const name of ["", "a/b", "a b", "ü", "a".repeat(250), "..", "__sluice_x", "__proto__/x"])
        expect([name, await create(name)]).toEqual([name, "INVALID_NAME"]);
      expect(await create("ok", 0)).toBe("INVALID_ARGUMENT");
      expect(await create("ok", 1_000_000)).toBe("INVALID_ARGUMENT");
      for (const [key, value] of [
        ["no.such.key", "1"],
        ["__proto__", "1"],
        ["segment.bytes", "12"],
        ["segment.bytes", "1e9"],
        ["retention.ms", "-2"],
        ["message.timestamp.type", "Neither"],
        ["strict.three.copies", "yes"],
      ] as const)
        expect([key, value, await create("ok", 1, { [key]: value })]).toEqual([key, value, "INVALID_CONFIG"]);
      expect(await create("t")).toBe("TOPIC_EXISTS");
      expect(await codeFrom(admin.describeTopic("nobody"))).toBe("UNKNOWN_TOPIC");
      expect(await codeFrom(admin.deleteTopic("nobody"))).toBe("UNKNOWN_TOPIC");
      expect(await codeFrom(admin.updateTopicConfig("t", { set: { "segment.ms": "0" } }))).toBe("INVALID_CONFIG");
      const producer = client.producer();
      expect(await codeFrom(producer.send({ topic: "nobody", value: "v" }))).toBe("UNKNOWN_TOPIC");
      expect(await codeFrom(producer.send({ topic: "t", partition: 7, value: "v" }))).toBe("UNKNOWN_PARTITION");
      expect(await codeFrom(producer.sendEncoded("t", 7, plainBatch(["x/0/1"])))).toBe("UNKNOWN_PARTITION");
      await producer.close();
      await using consumer = client.consumer({ topic: "t", from: { offset: 1_000_000 } });
      expect(await codeFrom(consumer[Symbol.asyncIterator]().next())).toBe("OFFSET_OUT_OF_RANGE");
      expect(await codeFrom(client.groups.commit("g", [{ topic: "t", partition: 0, offset: 1, metadata: "x".repeat(5_000) }]))).toBe(
        "OFFSET_METADATA_TOO_LARGE",
      );
      await expectUnharmed();
    });
  }, 60_000);

  test("batches: size, magic, checksum, length", async () => {
    await cluster.run(async () => {
      const good = plainBatch(["x/0/1", "x/0/2"]);
      const change = (at: number, value: number): Uint8Array => {
        const bytes = good.slice();
        bytes[at] = value;
        return bytes;
      };
      const producer = client.producer({ topic: "t" });
      const send = (batch: Uint8Array) => codeFrom(producer.sendEncoded("t", 0, batch));
      expect(await send(change(16, 1))).toBe("UNSUPPORTED_FORMAT");
      expect(await send(change(17, good[17]! ^ 0xff))).toBe("CORRUPT_BATCH");
      expect(await send(change(good.length - 2, good.at(-2)! ^ 1))).toBe("CORRUPT_BATCH");
      expect(await send(good.subarray(0, good.length - 1))).toBe("CORRUPT_BATCH");
      expect(await send(good.subarray(0, 20))).toBe("CORRUPT_BATCH");
      expect(await send(change(8, 0x7f))).toBe("CORRUPT_BATCH");
      expect(await send(change(8, 0xff))).toBe("CORRUPT_BATCH");
      expect(await send(new Uint8Array(randomBytes(200)))).toMatch(/^(CORRUPT_BATCH|UNSUPPORTED_FORMAT)$/);
      expect(await codeFrom(producer.send({ partition: 0, value: "x".repeat(2 * MiB) }))).toBe("MESSAGE_TOO_LARGE");
      expect(
        await codeFrom(producer.send({ partition: 0, value: "x", headers: Array.from({ length: 65 }, () => ["h", "v"] as const) })),
      ).toBe("INVALID_RECORD");
      await producer.close();

      // The same to the broker itself: a proxy is not believed.
      const link = await inside.connect(cluster.handle.spec.brokers[0]!.link, "log");
      const t = inside.partition("t", 0);
      const toBroker = async (batch: Uint8Array, partition = t) => errorCodeOf((await inside.produce(link, partition, batch, 5_000)).code);
      expect(await toBroker(change(16, 1))).toBe("UNSUPPORTED_FORMAT");
      expect(await toBroker(change(good.length - 2, good.at(-2)! ^ 1))).toBe("CORRUPT_BATCH");
      expect(await toBroker(good.subarray(0, good.length - 1))).toBe("CORRUPT_BATCH");
      expect(await toBroker(good, { ...t, topicId: randomUUID() as typeof t.topicId })).toBe("NOT_OWNER");
      expect(await toBroker(good, { ...t, partition: 4_000_000_000 })).toBe("NOT_OWNER");
      await expectUnharmed();
    });
  }, 60_000);

  test("link ports: what is not a hello, hostile lengths, other clusters, no proof", async () => {
    await cluster.run(async () => {
      const hello = (change: Partial<HelloMessage>) =>
        rawFrame(
          FrameType.hello,
          helloHeader({
            ...helloCodec.create(),
            ...inside.context.identity,
            windowBytes: MiB,
            wantsProof: true,
            nonce: new Uint8Array(randomBytes(16)),
            ...change,
          }),
        );
      const wrongMagic = hello({});
      wrongMagic[12] = 0;
      const cases: [string, Uint8Array[], string | undefined][] = [
        ["a length of 2^32 - 1", [rawFrame(FrameType.hello, EMPTY, EMPTY, 0xffff_ffff)], "FRAME_TOO_LARGE"],
        ["a length of 2^31", [rawFrame(FrameType.append, EMPTY, EMPTY, 0x8000_0000)], "FRAME_TOO_LARGE"],
        ["more than 64 KiB before the hello", [rawFrame(FrameType.hello, new Uint8Array(100), new Uint8Array(70_000))], "FRAME_TOO_LARGE"],
        ["a length that holds no header", [rawFrame(FrameType.hello, EMPTY, EMPTY, 3)], "MALFORMED_FRAME"],
        ["a header that is longer than its frame", [rawFrame(FrameType.hello, new Uint8Array(40), EMPTY, 10)], "MALFORMED_FRAME"],
        ["another frame than hello", [rawFrame(FrameType.produce, new Uint8Array(44))], "MALFORMED_FRAME"],
        ["wrong magic", [wrongMagic], "MALFORMED_FRAME"],
        ["a hello of another cluster", [hello({ clusterId: randomUUID() })], "CLUSTER_MISMATCH"],
        ["a hello of another version", [hello({ versionMin: 900, versionMax: 901 })], "VERSION_MISMATCH"],
        ["a hello without a secret", [hello({ wantsProof: false })], "UNAUTHENTICATED"],
        ["a wrong proof", [hello({}), rawFrame(FrameType.proof, new Uint8Array(32))], "UNAUTHENTICATED"],
        ["HTTP", [Buffer.from("GET / HTTP/1.1\r\nHost: x\r\n\r\n")], "FRAME_TOO_LARGE"],
        ["nothing but half a frame", [hello({}).subarray(0, 30)], undefined],
      ];
      const { brokers, stores } = cluster.handle.spec;
      for (const { id, link } of [brokers[0]!, stores[0]!]) {
        await withinMemory(id, async () => {
          let sent = 0;
          for (const [what, chunks, code] of cases) {
            const answer = await sendRaw(link, chunks);
            expect([id, what, linkErrorOf(answer), answer.closed]).toEqual([id, what, code, code !== undefined]);
            for (const chunk of chunks) sent += chunk.length;
          }
          for (let i = 0; i < 100; i++) {
            const noise = randomBytes(1 + i * 7);
            await sendRaw(link, [noise], 20);
            sent += noise.length;
          }
          return sent;
        });
      }
      await expectUnharmed();
    });
  }, 120_000);

  test("link ports, after a proper hello: frames cut short, of unknown type, with wrong counts", async () => {
    await cluster.run(async () => {
      const { brokers, stores } = cluster.handle.spec;
      for (const { id, link: address } of [brokers[0]!, stores[0]!]) {
        await withinMemory(id, async () => {
          let sent = 0;
          const open = async (): Promise<Link> => inside.connect(address, "log");
          const ended = async (link: Link): Promise<void> => {
            for (let i = 0; i < 200 && !link.closed; i++) await sleep(10);
            expect(link.closed).toBe(true);
          };
          const served: number[] = id.startsWith("broker") ? [FrameType.produce, FrameType.subscribe] : [FrameType.append, FrameType.read];
          for (const type of [FrameType.append, FrameType.read, FrameType.produce, FrameType.subscribe, FrameType.credit]) {
            // A header that ends too early breaks the format: the link is closed. What is not served here is only refused.
            const link = await open();
            const code = await codeFrom(call(link, rawCodec(type), new Uint8Array(3), producedCodec, 3_000));
            if (served.includes(type) || type === FrameType.credit) await ended(link);
            else expect([id, type, code]).toEqual([id, type, "UNKNOWN_FRAME"]);
            sent += 15;
          }
          // An unknown type is answered and nothing else happens.
          const link = await open();
          expect(await codeFrom(call(link, rawCodec(200), new Uint8Array(10), producedCodec, 3_000, EMPTY))).toBe("UNKNOWN_FRAME");
          expect(link.closed).toBe(false);
          for (let i = 0; i < 50; i++) {
            const noisy = await open();
            for (let n = 0; n < 5 && !noisy.closed; n++) {
              const header = randomBytes(1 + ((i * 13 + n) % 90));
              noisy.send(rawCodec(1 + ((i + n) % 15)), noisy.nextCorrelation(), header, randomBytes(50));
              sent += header.length + 62;
            }
            noisy.flush();
            await sleep(5);
            noisy.close();
          }
          return sent;
        });
      }
      await expectUnharmed();
    });
  }, 120_000);

  test("gRPC ports: bytes that are no HTTP/2, lengths that are not kept, messages over the limit", async () => {
    await cluster.run(async () => {
      const { proxies, brokers, stores, controllers, coordinators } = cluster.handle.spec;
      const produce = "/sluice.v1.ProduceService/Produce";
      const targets = [
        { id: "proxy-1", address: proxies[0]!.grpc, path: produce },
        { id: "broker-1", address: brokers[0]!.rpc, path: "/sluice.internal.v1.BrokerService/DescribeBroker" },
        { id: "store-1", address: stores[0]!.rpc, path: "/sluice.internal.v1.SegmentStoreService/FenceSegments" },
        { id: "controller-1", address: controllers[0]!.rpc, path: "/sluice.internal.v1.ControllerService/CreateTopic" },
        { id: "coordinator-1", address: coordinators[0]!.rpc, path: "/sluice.internal.v1.CoordinatorService/Commit" },
      ];
      for (const { id, address, path } of targets) {
        await withinMemory(id, async () => {
          const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
          const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
          const hugeFrame = Buffer.from([0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]);
          let sent = 0;
          for (const chunks of [
            [randomBytes(500)],
            [preface, randomBytes(500)],
            [preface, settings, hugeFrame],
            [preface.subarray(0, 10)],
          ]) {
            await sendRaw(address, chunks, 100);
            for (const chunk of chunks) sent += chunk.length;
          }
          // 8 = RESOURCE_EXHAUSTED, 12 = UNIMPLEMENTED, 13 = INTERNAL, 3 = INVALID_ARGUMENT.
          expect([id, await sendGrpc(address, path, grpcMessage(randomBytes(10), 0x7fff_ffff))]).toEqual([id, "8"]);
          expect([id, await sendGrpc(address, path, grpcMessage(randomBytes(10), 0xffff_ffff))]).toEqual([id, "8"]);
          expect([id, await sendGrpc(address, path, grpcMessage(new Uint8Array(17 * MiB)))]).toEqual([id, "8"]);
          expect([id, await sendGrpc(address, "/sluice.v1.NoService/Call", grpcMessage(EMPTY))]).toEqual([id, "12"]);
          expect([id, await sendGrpc(address, path, grpcMessage(Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x07])))]).toEqual([
            id,
            expect.stringMatching(/^(3|13)$/),
          ]);
          sent += 17 * MiB;
          return sent;
        });
      }
      await expectUnharmed();
    });
  }, 120_000);

  test("gRPC ports: messages by halves cost a bounded amount of memory, and nobody else notices", async () => {
    await cluster.run(async () => {
      const { grpc } = cluster.handle.spec.proxies[0]!;
      const before = await cluster.rssBytes("proxy-1");
      const attackers = Array.from({ length: 8 }, () => halfMessages(grpc, "/sluice.v1.ProduceService/Produce", 6, 16 * MiB));
      const producer = client.producer({ topic: "t" });
      let largest = 0;
      for (let i = 0; i < 30; i++) {
        await producer.send({ partition: 0, value: `beside ${i}` });
        largest = Math.max(largest, await cluster.rssBytes("proxy-1"));
        await sleep(50);
      }
      await Promise.all(attackers.map((one) => one.sent));
      await producer.send({ partition: 0, value: "beside them" });
      await producer.close();
      largest = Math.max(largest, await cluster.rssBytes("proxy-1"));
      const refused = await cluster.metric("proxy-1", "sluice_proxy_rpc_unfinished_refused_total");
      const held = await cluster.metric("proxy-1", "sluice_proxy_rpc_unfinished_bytes");
      for (const one of attackers) one.close();
      // 48 halves are 384 MiB; 64 MiB of them may stay, the rest is what the collector has not seen yet.
      expect(refused).toBeGreaterThanOrEqual(48 - 8);
      expect(held).toBeLessThanOrEqual(64 * MiB);
      expect(largest - before).toBeLessThanOrEqual((64 + 160) * MiB);
      await until("their memory is free", 5_000, async () => (await cluster.metric("proxy-1", "sluice_proxy_rpc_unfinished_bytes")) === 0);
      await expectUnharmed();
    });
  }, 60_000);

  test("a configuration that does not fit refuses to start with exit code 2 and names the key", async () => {
    const start = (service: string, ...args: string[]) =>
      new Promise<{ code: number | null; output: string }>((resolve) => {
        const main = new URL(`../../services/${service}/src/main.ts`, import.meta.url).pathname;
        const child = execFile(
          process.execPath,
          ["--disable-warning=ExperimentalWarning", main, ...args],
          { timeout: 20_000, env: process.env },
          (_error, stdout, stderr) => resolve({ code: child.exitCode, output: stdout + stderr }),
        );
      });
    const cases: [string, string[], string][] = [
      ["broker", ["--no.such.key=1"], "no.such.key"],
      ["broker", ["--append.pendingBytesMax=lots"], "append.pendingBytesMax"],
      ["broker", ["--append.pendingBytesMax=1"], "append.pendingBytesMax"],
      ["controller", ["--timers.scalePercent=0"], "timers.scalePercent"],
      ["coordinator", ["--listener.health.bind=nowhere"], "listener.health.bind"],
      ["proxy", ["--listener.grpc.bind=0.0.0.0:0"], "listener.grpc"],
      ["segment-store", [], "data.folder"],
    ];
    const ended = await Promise.all(cases.map(async ([service, args, key]) => ({ args, key, ...(await start(service, ...args)) })));
    for (const { args, key, code, output } of ended)
      expect({ args, code, output }).toEqual({ args, code: 2, output: expect.stringContaining(key) });
  }, 90_000);
});
