import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { setTimeout as sleep } from "node:timers/promises";
import { Admin, Consumer, ListOffsetTimestamps, Producer, stringSerializers, type RecordsBatch } from "@platformatic/kafka";
import { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } from "kafkajs";
import type { Sluice } from "@sluice/client";
import { kcat, startKcat, type KcatResult } from "@sluice/test-support";
import { createTopic, TestCluster, until } from "./support/cluster.ts";
import { sluice as runSluice, type CommandResult } from "./support/sluice-command.ts";

const CODECS = ["none", "gzip", "snappy", "lz4", "zstd"] as const;
const MiB = 1024 * 1024;
const numbers = (count: number, prefix = ""): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
const lines = (text: string): string[] => text.split("\n").filter((line) => line !== "");

describe("Kafka clients that are not ours", () => {
  let cluster: TestCluster;
  let sluice: Sluice;
  let bootstrap = "";
  beforeAll(async () => {
    cluster = await TestCluster.start({ name: "kafka", zones: 1, config: { "kafka.partitionsDefault": "4" } });
    sluice = await cluster.connect();
    bootstrap = cluster.kafka.join(",");
  }, 120_000);
  afterAll(async () => {
    await sluice?.close();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  async function ok(running: Promise<KcatResult>): Promise<string> {
    const { code, out, err } = await running;
    expect({ code, err }).toEqual({ code: 0, err: expect.not.stringMatching(/ERROR|%[0-4]\|/) });
    return out;
  }
  const produce = (topic: string, values: readonly string[], more: readonly string[] = []) =>
    ok(kcat(["-b", bootstrap, "-P", "-t", topic, ...more], `${values.join("\n")}\n`));
  const consume = async (topic: string, more: readonly string[] = []): Promise<string[]> =>
    lines(await ok(kcat(["-b", bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", ...more])));

  /** Batches of a partition as they are stored. */
  async function batchesOf(topic: string, partition: number): Promise<RecordsBatch[]> {
    const consumer = new Consumer({ clientId: "raw", groupId: "raw", bootstrapBrokers: cluster.kafka });
    try {
      const metadata = await consumer.metadata({ topics: [topic] });
      const described = metadata.topics.get(topic)!;
      const answer = await consumer.fetch({
        node: described.partitions[partition]!.leader,
        maxWaitTime: 1_000,
        minBytes: 1,
        maxBytes: MiB,
        topics: [
          {
            topicId: described.id,
            partitions: [{ partition, currentLeaderEpoch: -1, fetchOffset: 0n, lastFetchedEpoch: -1, partitionMaxBytes: MiB }],
          },
        ],
      });
      return answer.responses.flatMap(({ partitions }) => partitions.flatMap(({ records }) => records ?? []));
    } finally {
      await consumer.close(true);
    }
  }

  test(
    "kcat: sees every proxy as a broker, produces with every codec to a topic made on the way, and reads it all back",
    () =>
      cluster.run(async () => {
        for (const codec of CODECS) await produce("codecs", numbers(500, `${codec}-`), ["-z", codec, "-p", "0"]);
        expect(await consume("codecs")).toEqual(CODECS.flatMap((codec) => numbers(500, `${codec}-`)));
        const listing = await ok(kcat(["-b", bootstrap, "-L"]));
        for (const address of cluster.kafka) expect(listing).toContain(`at ${address}`);
        expect(listing).toContain('topic "codecs" with 4 partitions');
        expect(listing).not.toContain("__sluice");
        // librdkafka 2.0.2 compresses only for a broker that tells of Produce 0 to 2, and with lz4 only for one that tells of FindCoordinator too.
        const codecs = (await batchesOf("codecs", 0)).map(({ attributes }) => attributes & 7);
        expect(codecs).toEqual(expect.arrayContaining([0, 1, 2, 3, 4]));
      }),
    90_000,
  );

  test(
    "one topic, both protocols: the same keys, values, headers, times and offsets",
    () =>
      cluster.run(async () => {
        await createTopic(sluice, "both", 1);
        await produce("both", ["k1:from kafka"], ["-K", ":", "-H", "h=v"]);
        const producer = sluice.producer();
        await producer.send({ topic: "both", partition: 0, key: "k2", value: "from grpc", headers: [["h", utf8("w")]] });
        await producer.close();
        const format = ["-f", "%o %T %k %s %h\n"];
        const read = await consume("both", format);
        expect(read.map((line) => line.replace(/ \d{13} /, " T "))).toEqual(["0 T k1 from kafka h=v", "1 T k2 from grpc h=w"]);
        const seen: string[] = [];
        for await (const { records } of sluice.consumer({ topic: "both", from: "earliest", untilEnd: true }).batches()) {
          for (const record of records)
            seen.push(
              `${record.offset} ${record.timestampMs} ${text(record.key)} ${text(record.value)} ${record.headers.map(([name, value]) => `${name}=${text(value)}`).join()}`,
            );
        }
        expect(seen).toEqual(read);
      }),
    60_000,
  );

  test(
    "kcat: offsets by time, inside a compressed batch, and the two ends",
    () =>
      cluster.run(async () => {
        await createTopic(sluice, "times", 1);
        const admin = new Admin({ clientId: "times", bootstrapBrokers: cluster.kafka });
        const producer = new Producer({ clientId: "times", bootstrapBrokers: cluster.kafka, serializers: stringSerializers });
        const baseMs = Date.now() - 60_000;
        await producer.send({
          messages: numbers(10).map((value, i) => ({ topic: "times", partition: 0, value, timestamp: BigInt(baseMs + i * 1_000) })),
          compression: "gzip",
        });
        const at = async (timestamp: bigint): Promise<bigint | undefined> => {
          const found = await admin.listOffsets({ topics: [{ name: "times", partitions: [{ partitionIndex: 0, timestamp }] }] });
          return found[0]?.partitions[0]?.offset;
        };
        expect(await ok(kcat(["-b", bootstrap, "-Q", "-t", `times:0:${baseMs + 4_500}`]))).toContain("offset 5");
        expect(await at(BigInt(baseMs + 4_000))).toBe(4n);
        expect(await at(BigInt(baseMs + 99_000))).toBe(-1n);
        expect(await at(ListOffsetTimestamps.EARLIEST)).toBe(0n);
        expect(await at(ListOffsetTimestamps.LATEST)).toBe(10n);
        expect(await at(-3n)).toBe(9n);
        await Promise.all([admin.close(), producer.close()]);
      }),
    60_000,
  );

  test(
    "@platformatic/kafka: creates a topic with configuration, produces idempotently with every codec",
    () =>
      cluster.run(async () => {
        const admin = new Admin({ clientId: "admin", bootstrapBrokers: cluster.kafka });
        const [made] = await admin.createTopics({
          topics: ["flexible"],
          partitions: 3,
          replicas: 3,
          configs: [{ name: "retention.ms", value: "3600000" }],
        });
        expect(made).toMatchObject({ name: "flexible", partitions: 3 });
        const producer = new Producer({ clientId: "p", bootstrapBrokers: cluster.kafka, serializers: stringSerializers, idempotent: true });
        for (const compression of CODECS) {
          const messages = numbers(60, `${compression}-`).map((value) => ({ topic: "flexible", key: value, value, headers: { a: "b" } }));
          await producer.send({ messages, compression, acks: -1 });
        }
        expect((await consume("flexible")).toSorted()).toEqual(CODECS.flatMap((codec) => numbers(60, `${codec}-`)).toSorted());
        const batches = await batchesOf("flexible", 0);
        expect(batches.every(({ producerId }) => producerId >= 0n)).toBe(true);
        expect(batches.map(({ firstSequence }) => firstSequence)).toEqual(batches.map(({ firstOffset }) => Number(firstOffset)));
        await admin.createPartitions({ topics: [{ name: "flexible", count: 5, assignments: null }] });
        await produce("flexible", ["on a new one"], ["-p", "4"]);
        expect(await consume("flexible", ["-p", "4"])).toEqual(["on a new one"]);
        await admin.deleteTopics({ topics: ["flexible"] });
        expect(await admin.listTopics()).not.toContain("flexible");
        await Promise.all([admin.close(), producer.close()]);
      }),
    60_000,
  );

  test(
    "kafkajs: topics, configuration, offsets, records deleted, all in the old encodings",
    () =>
      cluster.run(async () => {
        const kafka = new Kafka({ clientId: "old", brokers: cluster.kafka, logLevel: logLevel.NOTHING });
        const admin = kafka.admin();
        await admin.connect();
        expect(await admin.createTopics({ topics: [{ topic: "old", numPartitions: 2, replicationFactor: 1 }], waitForLeaders: true })).toBe(
          true,
        );
        expect((await admin.describeCluster()).brokers.map(({ host, port }) => `${host}:${port}`).toSorted()).toEqual(
          cluster.kafka.toSorted(),
        );
        const producer = kafka.producer({ idempotent: true, createPartitioner: () => () => 0 });
        await producer.connect();
        await producer.send({ topic: "old", messages: numbers(5).map((value) => ({ value })), compression: CompressionTypes.GZIP });
        const highOf = async () => (await admin.fetchTopicOffsets("old")).map(({ low, high }) => `${low}-${high}`).toSorted();
        expect(await highOf()).toEqual(["0-0", "0-5"]);
        await admin.deleteTopicRecords({ topic: "old", partitions: [{ partition: 0, offset: "3" }] });
        await until("the log start", 10_000, async () => (await highOf()).includes("3-5"));
        expect(await consume("old")).toEqual(["3", "4"]);
        const resource = { type: ConfigResourceTypes.TOPIC, name: "old" };
        await admin.alterConfigs({
          validateOnly: false,
          resources: [{ ...resource, configEntries: [{ name: "retention.ms", value: "5000000" }] }],
        });
        const configEntry = async () => {
          const { resources } = await admin.describeConfigs({
            includeSynonyms: false,
            resources: [{ ...resource, configNames: ["retention.ms"] }],
          });
          return resources[0]?.configEntries[0];
        };
        // It may be asked of another proxy than the one that changed it: that one hears of it a moment later, as with Kafka's brokers.
        await until("the new value", 10_000, async () => (await configEntry())?.configValue === "5000000");
        expect(await configEntry()).toMatchObject({ configName: "retention.ms" });
        await Promise.all([admin.disconnect(), producer.disconnect()]);
      }),
    60_000,
  );

  test(
    "an idempotent producer over the death of a broker and of a proxy: nothing lost, nothing twice, in order, no error",
    () =>
      cluster.run(async () => {
        await createTopic(sluice, "killed", 1);
        const count = 3_000;
        const producing = await startKcat([
          "-b",
          bootstrap,
          "-P",
          "-t",
          "killed",
          "-p",
          "0",
          "-X",
          "enable.idempotence=true",
          "-X",
          "linger.ms=1",
        ]);
        const consuming = await startKcat(["-b", bootstrap, "-C", "-t", "killed", "-o", "beginning", "-u", "-q", "-c", String(count)]);
        const { partitionDetails } = await sluice.admin.describeTopic("killed", { includePartitions: true });
        const owner = partitionDetails![0]!.owner;
        for (let i = 0; i < count; i += 1) {
          producing.child.stdin.write(`${i}\n`);
          if (i % 3 === 0) await sleep(1);
          if (i === 1_000) await cluster.handle.kill(owner);
          if (i === 1_500) await cluster.handle.start(owner);
          if (i === 2_000) await cluster.handle.kill("proxy-1");
        }
        producing.child.stdin.end();
        const produced = await producing.done;
        expect({ code: produced.code, err: produced.err }).toEqual({ code: 0, err: expect.not.stringContaining("Delivery failed") });
        const consumed = await consuming.done;
        expect(consumed.code).toBe(0);
        expect(lines(consumed.out)).toEqual(numbers(count));
        await cluster.handle.start("proxy-1");
        expect(await consume("killed")).toEqual(numbers(count));
      }),
    120_000,
  );
  test(
    "a batch that decompresses to more than readers over gRPC take: Kafka clients read it, and the command names the way past it",
    () =>
      cluster.run(async () => {
        const topic = "dense";
        await createTopic(sluice, topic, 1);
        const kafka = new Kafka({ clientId: "dense", brokers: cluster.kafka, logLevel: logLevel.NOTHING });
        const producer = kafka.producer();
        await producer.connect();
        const dense = Buffer.alloc(17 * MiB, "0").toString();
        const timeMs = 1_764_437_000_000;
        for (const [i, value] of ["before", dense, "after"].entries())
          await producer.send({ topic, compression: CompressionTypes.GZIP, messages: [{ value, timestamp: String(timeMs + i * 1_000) }] });
        await producer.disconnect();
        const read = await ok(kcat(["-b", bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%S "]));
        expect(read).toBe(`6 ${17 * MiB} 5 `);

        const endpoint = cluster.proxies[0]!;
        const command = (...args: readonly string[]) => runSluice(args, { endpoint });
        /** What the message says to type, typed. */
        const typed = async (err: string): Promise<CommandResult> => {
          const [, text] = /Go on after it: \S*sluice (.*)$/m.exec(err) ?? [];
          expect(text).toBeDefined();
          return command(...text!.split(" "), ...(text!.startsWith("consume") ? ["--exit-on-end"] : []));
        };
        for (const [from, before] of [
          ["earliest", "before\n"],
          ["1", ""],
          [`@${timeMs + 500}`, ""],
        ] as const) {
          const { code, out, err } = await command("consume", topic, "--from", from, "--exit-on-end");
          expect([code, out, err]).toEqual([
            1,
            before,
            expect.stringContaining(`UNREADABLE_BATCH: ${topic}/0: the batch at offsets 1 to 1`),
          ]);
          expect(err).not.toContain("max.message.bytes");
          expect(await typed(err)).toMatchObject({ code: 0, out: "after\n" });
        }
        expect(await command("consume", topic, "--until", `@${timeMs + 500}`)).toMatchObject({ code: 0, out: "before\n" });
        const member = ["consume", topic, "--group", "dense", "--exit-on-end"];
        const stuck = await command(...member);
        expect([stuck.code, stuck.out]).toEqual([1, "before\n"]);
        expect(await typed(stuck.err)).toMatchObject({ code: 0 });
        expect(await command(...member)).toMatchObject({ code: 0, out: "after\n" });
      }),
    90_000,
  );
});

const utf8 = (value: string): Uint8Array => new TextEncoder().encode(value);
const text = (bytes: Uint8Array | undefined | null): string => new TextDecoder().decode(bytes ?? undefined);
