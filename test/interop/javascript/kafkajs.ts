import { expect } from "@jest/globals";
import {
  AssignerProtocol,
  CompressionTypes,
  ConfigResourceTypes,
  Kafka,
  logLevel,
  type Admin,
  type Consumer,
  type KafkaMessage,
} from "kafkajs";
import { until } from "../../e2e/support/cluster.ts";
import { codecTypes } from "../matrix/kafkajs.ts";
import { CODECS } from "../matrix/client.ts";
import type { Scenario } from "../support/scenarios.ts";

const numbers = (count: number, prefix = ""): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
const WAIT_MS = 30_000;
/** Of records with a time; recent, so that no retention takes them. */
const BASE_MS = Date.now() - 60_000;

/** A consumer in a group that keeps what it is given. */
interface Reading {
  readonly consumer: Consumer;
  readonly values: string[];
  readonly messages: KafkaMessage[];
  /** Partitions that it has now. */
  partitions(): number;
}

/** Scenarios of kafkajs; every one has its own topics and groups. */
export function kafkajsScenarios(bootstrap: string): Record<string, Scenario> {
  const kafka = new Kafka({ clientId: "scenarios", brokers: bootstrap.split(","), logLevel: logLevel.NOTHING });
  async function withAdmin<T>(part: (admin: Admin) => Promise<T>): Promise<T> {
    const admin = kafka.admin();
    await admin.connect();
    try {
      return await part(admin);
    } finally {
      await admin.disconnect();
    }
  }
  const create = (topic: string, numPartitions = 1, config: Record<string, string> = {}) =>
    withAdmin((admin) =>
      admin.createTopics({
        waitForLeaders: true,
        topics: [
          { topic, numPartitions, replicationFactor: -1, configEntries: Object.entries(config).map(([name, value]) => ({ name, value })) },
        ],
      }),
    );
  interface Sending {
    readonly compression?: CompressionTypes;
    readonly acks?: number;
    readonly idempotent?: boolean;
    readonly partition?: number;
    readonly timestampMs?: number;
  }
  async function produce(
    topic: string,
    values: readonly string[],
    { compression = CompressionTypes.None, acks = -1, idempotent, ...more }: Sending = {},
  ) {
    const producer = kafka.producer({ idempotent: idempotent ?? false, retry: { retries: 10, maxRetryTime: 2_000 } });
    await producer.connect();
    const { partition, timestampMs } = more;
    const messages = values.map((value, i) => ({
      value,
      key: `key of ${value}`,
      headers: { h: ["1", "2"] },
      ...(partition !== undefined && { partition }),
      ...(timestampMs !== undefined && { timestamp: String(timestampMs + i) }),
    }));
    try {
      return await producer.send({ topic, acks, compression, messages });
    } finally {
      await producer.disconnect();
    }
  }
  async function read(group: string, topic: string): Promise<Reading> {
    const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 200, heartbeatInterval: 500 });
    const values: string[] = [];
    const messages: KafkaMessage[] = [];
    let partitions = 0;
    consumer.on("consumer.group_join", ({ payload }) => {
      partitions = Object.values(payload.memberAssignment).flat().length;
    });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({
      eachMessage: ({ message }) => {
        values.push((message.value ?? "").toString());
        messages.push(message);
        return Promise.resolve();
      },
    });
    return { consumer, values, messages, partitions: () => partitions };
  }
  async function readAll(topic: string, count: number): Promise<Reading> {
    const reading = await read(`all of ${topic}`, topic);
    try {
      await until(`${count} records`, WAIT_MS, () => reading.values.length >= count || String(reading.values.length));
    } finally {
      await reading.consumer.disconnect();
    }
    return reading;
  }
  const codecs = CODECS.map((codec): [string, Scenario] => [
    `codec ${codec}`,
    async () => {
      await create(`kj-${codec}`);
      await produce(`kj-${codec}`, numbers(200, codec), { compression: codecTypes[codec] });
      expect((await readAll(`kj-${codec}`, 200)).values).toEqual(numbers(200, codec));
    },
  ]);
  return {
    "records with key, headers and time": async () => {
      await create("kj-records");
      await produce("kj-records", ["a"], { timestampMs: BASE_MS });
      const [message] = (await readAll("kj-records", 1)).messages;
      expect(message).toMatchObject({ key: Buffer.from("key of a"), timestamp: String(BASE_MS), offset: "0" });
      expect(message?.headers).toEqual({ h: [Buffer.from("1"), Buffer.from("2")] });
    },
    ...Object.fromEntries(codecs),
    "idempotent producer": async () => {
      await create("kj-idempotent");
      await produce("kj-idempotent", numbers(300), { idempotent: true });
      expect((await readAll("kj-idempotent", 300)).values).toEqual(numbers(300));
    },
    "an idempotent producer goes on across a topic that is made again": async () => {
      const producer = kafka.producer({ idempotent: true, metadataMaxAge: 1_000, retry: { retries: 20, maxRetryTime: 1_000 } });
      await producer.connect();
      for (const made of [0, 1, 2]) {
        await create("kj-again");
        for (const value of numbers(5, `${made} `)) await producer.send({ topic: "kj-again", messages: [{ value }] });
        await withAdmin(async (admin) => {
          expect(await admin.fetchTopicOffsets("kj-again")).toMatchObject([{ low: "0", high: "5" }]);
          await admin.deleteTopics({ topics: ["kj-again"] });
          await until("it is gone", WAIT_MS, async () => !(await admin.listTopics()).includes("kj-again"));
        });
      }
      await producer.disconnect();
    },
    "acks 0 and 1": async () => {
      await create("kj-acks");
      await produce("kj-acks", ["0"], { acks: 0 });
      const high = () => withAdmin(async (admin) => (await admin.fetchTopicOffsets("kj-acks"))[0]?.high === "1");
      await until("it is stored", WAIT_MS, high);
      await produce("kj-acks", ["1"], { acks: 1 });
      expect((await readAll("kj-acks", 2)).values).toEqual(["0", "1"]);
    },
    "a topic made by its first record": async () => {
      await produce("kj-automatic", ["x"]);
      expect((await readAll("kj-automatic", 1)).values).toEqual(["x"]);
    },
    "a record above the topic's limit": async () => {
      await create("kj-limit", 1, { "max.message.bytes": "2000" });
      await expect(produce("kj-limit", ["x".repeat(5_000)])).rejects.toMatchObject({ type: "MESSAGE_TOO_LARGE" });
    },
    "offsets by time": async () => {
      await create("kj-times");
      await produce("kj-times", numbers(10), { timestampMs: BASE_MS });
      await withAdmin(async (admin) => {
        expect(await admin.fetchTopicOffsetsByTimestamp("kj-times", BASE_MS + 4)).toEqual([{ partition: 0, offset: "4" }]);
        expect(await admin.fetchTopicOffsetsByTimestamp("kj-times", BASE_MS + 3_600_000)).toEqual([{ partition: 0, offset: "10" }]);
        expect(await admin.fetchTopicOffsets("kj-times")).toMatchObject([{ low: "0", high: "10" }]);
      });
    },
    "group: commits and resumes": async () => {
      await create("kj-resume", 3);
      for (const partition of [0, 1, 2]) await produce("kj-resume", numbers(10), { partition });
      const first = await read("kj-resume", "kj-resume");
      await until("all are read", WAIT_MS, () => first.values.length === 30);
      await first.consumer.disconnect();
      await produce("kj-resume", ["more"], { partition: 1 });
      const second = await read("kj-resume", "kj-resume");
      await until("the rest is read", WAIT_MS, () => second.values.includes("more"));
      await second.consumer.disconnect();
      expect(second.values).toEqual(["more"]);
    },
    "group: two members share, one takes over": async () => {
      await create("kj-share", 4);
      const one = await read("kj-share", "kj-share");
      const two = await read("kj-share", "kj-share");
      await until("each has half", WAIT_MS, () => one.partitions() === 2 && two.partitions() === 2);
      await two.consumer.disconnect();
      await until("one has all", WAIT_MS, () => one.partitions() === 4);
      await one.consumer.disconnect();
    },
    "group: seek, pause, resume": async () => {
      await create("kj-seek");
      await produce("kj-seek", numbers(10));
      const reading = await read("kj-seek", "kj-seek");
      await until("all are read", WAIT_MS, () => reading.values.length === 10);
      reading.consumer.pause([{ topic: "kj-seek" }]);
      reading.consumer.seek({ topic: "kj-seek", partition: 0, offset: "8" });
      reading.consumer.resume([{ topic: "kj-seek" }]);
      await until("the last two again", WAIT_MS, () => reading.values.length === 12);
      await reading.consumer.disconnect();
      expect(reading.values.slice(10)).toEqual(["8", "9"]);
    },
    "admin: cluster, topics made, listed, deleted": () =>
      withAdmin(async (admin) => {
        expect((await admin.describeCluster()).brokers).toHaveLength(bootstrap.split(",").length);
        await create("kj-made", 3);
        expect(await admin.createTopics({ topics: [{ topic: "kj-made" }] })).toBe(false);
        expect((await admin.fetchTopicMetadata({ topics: ["kj-made"] })).topics[0]?.partitions).toHaveLength(3);
        await admin.createPartitions({ topicPartitions: [{ topic: "kj-made", count: 5 }] });
        const count = async () => (await admin.fetchTopicMetadata({ topics: ["kj-made"] })).topics[0]?.partitions.length === 5;
        await until("five partitions", WAIT_MS, count);
        await admin.deleteTopics({ topics: ["kj-made"] });
        await until("it is gone", WAIT_MS, async () => !(await admin.listTopics()).includes("kj-made"));
        await expect(admin.deleteTopics({ topics: ["kj-nobodys"] })).rejects.toThrow();
      }),
    "admin: configuration": () =>
      withAdmin(async (admin) => {
        await create("kj-config", 1, { "retention.ms": "1000000" });
        const resource = { type: ConfigResourceTypes.TOPIC, name: "kj-config" };
        const value = async (): Promise<string | undefined> =>
          (await admin.describeConfigs({ includeSynonyms: false, resources: [{ ...resource, configNames: ["retention.ms"] }] }))
            .resources[0]?.configEntries[0]?.configValue;
        expect(await value()).toBe("1000000");
        const configEntries = [{ name: "retention.ms", value: "2000000" }];
        await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries }] });
        await until("it is changed", WAIT_MS, async () => (await value()) === "2000000");
      }),
    "admin: records deleted": () =>
      withAdmin(async (admin) => {
        await create("kj-cut");
        await produce("kj-cut", numbers(10));
        // It deletes only in topics that it has met.
        await admin.fetchTopicOffsets("kj-cut");
        await admin.deleteTopicRecords({ topic: "kj-cut", partitions: [{ partition: 0, offset: "4" }] });
        expect((await readAll("kj-cut", 6)).values).toEqual(numbers(10).slice(4));
      }),
    "admin: groups listed, described, offsets set and reset, deleted": () =>
      withAdmin(async (admin) => {
        await create("kj-group");
        await produce("kj-group", numbers(5));
        const reading = await read("kj-grouped", "kj-group");
        await until("all are read", WAIT_MS, () => reading.values.length === 5);
        const { groups } = await admin.describeGroups(["kj-grouped"]);
        expect(groups[0]).toMatchObject({ state: "Stable", protocolType: "consumer", protocol: "RoundRobinAssigner" });
        const [member] = groups[0]!.members;
        expect(AssignerProtocol.MemberAssignment.decode(member!.memberAssignment)?.assignment).toEqual({ "kj-group": [0] });
        expect((await admin.listGroups()).groups.map(({ groupId }) => groupId)).toContain("kj-grouped");
        await expect(admin.deleteGroups(["kj-grouped"])).rejects.toThrow();
        await reading.consumer.disconnect();
        const offset = async () => (await admin.fetchOffsets({ groupId: "kj-grouped", topics: ["kj-group"] }))[0]?.partitions[0]?.offset;
        expect(await offset()).toBe("5");
        await admin.setOffsets({ groupId: "kj-grouped", topic: "kj-group", partitions: [{ partition: 0, offset: "2" }] });
        expect(await offset()).toBe("2");
        await admin.resetOffsets({ groupId: "kj-grouped", topic: "kj-group", earliest: true });
        // Below zero is none: members then begin where their own setting says.
        expect(["0", "-1", "-2"]).toContain(await offset());
        await admin.deleteGroups(["kj-grouped"]);
        expect((await admin.listGroups()).groups.map(({ groupId }) => groupId)).not.toContain("kj-grouped");
      }),
  };
}
