import { expect } from "@jest/globals";
import {
  Admin,
  ConfigResourceTypes,
  Consumer,
  IncrementalAlterConfigOperationTypes,
  ListOffsetTimestamps,
  Producer,
  stringDeserializers,
  stringSerializers,
  type ProduceOptions,
} from "@platformatic/kafka";
import { until } from "../../e2e/support/cluster.ts";
import { CODECS } from "../matrix/client.ts";
import type { Scenario } from "../support/scenarios.ts";

const numbers = (count: number, prefix = ""): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
const WAIT_MS = 30_000;
/** Of records with a time; recent, so that no retention takes them. */
const BASE_MS = Date.now() - 60_000;
type Protocol = "classic" | "consumer";
type Sending = Partial<ProduceOptions<string, string, string, string>> & { readonly timestampMs?: number; readonly partition?: number };

/** Scenarios of @platformatic/kafka; every one has its own topics and groups. */
export function platformaticScenarios(bootstrap: string): Record<string, Scenario> {
  const common = { clientId: "scenarios", bootstrapBrokers: bootstrap.split(",") };
  async function withAdmin<T>(part: (admin: Admin) => Promise<T>): Promise<T> {
    const admin = new Admin(common);
    try {
      return await part(admin);
    } finally {
      await admin.close();
    }
  }
  const create = (topic: string, partitions = 1, config: Record<string, string> = {}) =>
    withAdmin(async (admin) => {
      const configs = Object.entries(config).map(([name, value]) => ({ name, value }));
      await admin.createTopics({ topics: [topic], partitions, replicas: -1, configs });
      const seen = async () => (await admin.metadata({ topics: [topic] })).topics.get(topic)?.partitions.length === partitions;
      await until(`${topic} is seen`, WAIT_MS, seen);
    });
  async function produce(topic: string, values: readonly string[], { timestampMs, partition = 0, ...options }: Sending = {}) {
    const producer = new Producer({ ...common, serializers: stringSerializers });
    const messages = values.map((value, i) => ({
      topic,
      partition,
      value,
      key: `key of ${value}`,
      headers: { h: "1" },
      ...(timestampMs !== undefined && { timestamp: BigInt(timestampMs + i) }),
    }));
    try {
      return await producer.send({ acks: -1, ...options, messages });
    } finally {
      await producer.close();
    }
  }
  const member = (groupId: string, groupProtocol: Protocol = "classic") =>
    new Consumer({
      ...common,
      groupId,
      deserializers: stringDeserializers,
      ...(groupProtocol === "classic" ? { groupProtocol } : { groupProtocol }),
    });
  /** Reads and commits `count` records as a member of a group. */
  async function read(groupId: string, topic: string, count: number, groupProtocol: Protocol = "classic") {
    const consumer = member(groupId, groupProtocol);
    const stream = await consumer.consume({
      topics: [topic],
      mode: "committed",
      fallbackMode: "earliest",
      autocommit: false,
      maxWaitTime: 200,
    });
    const messages = [];
    for await (const message of stream) {
      messages.push(message);
      await message.commit();
      if (messages.length === count) break;
    }
    await consumer.close(true);
    return messages;
  }
  const valuesOf = (messages: Awaited<ReturnType<typeof read>>): string[] => messages.map(({ value }) => value);

  async function resumes(protocol: Protocol): Promise<void> {
    const topic = `pk-resume-${protocol}`;
    await create(topic, 3);
    for (const partition of [0, 1, 2]) await produce(topic, numbers(10), { partition });
    expect(await read(topic, topic, 30, protocol)).toHaveLength(30);
    await produce(topic, ["more"], { partition: 1 });
    expect(valuesOf(await read(topic, topic, 1, protocol))).toEqual(["more"]);
  }
  async function shares(protocol: Protocol): Promise<void> {
    const topic = `pk-share-${protocol}`;
    await create(topic, 4);
    const [one, two] = [member(topic, protocol), member(topic, protocol)];
    const partitions = (consumer: typeof one): number => (consumer.assignments ?? []).flatMap((part) => part.partitions).length;
    for (const consumer of [one, two]) {
      const stream = await consumer.consume({ topics: [topic], mode: "latest", maxWaitTime: 200 });
      stream.on("data", () => undefined);
    }
    await until("each has half", WAIT_MS, () => partitions(one) === 2 && partitions(two) === 2);
    await two.close(true);
    await until("one has all", WAIT_MS, () => partitions(one) === 4);
    await one.close(true);
  }
  const codecs = CODECS.map((compression): [string, Scenario] => [
    `codec ${compression}`,
    async () => {
      const topic = `pk-${compression}`;
      await create(topic);
      await produce(topic, numbers(200, compression), { compression });
      expect(valuesOf(await read(topic, topic, 200))).toEqual(numbers(200, compression));
    },
  ]);
  return {
    "records with key, headers and time": async () => {
      await create("pk-records");
      await produce("pk-records", ["a"], { timestampMs: BASE_MS });
      const [message] = await read("pk-records", "pk-records", 1);
      expect(message).toMatchObject({ key: "key of a", value: "a", timestamp: BigInt(BASE_MS), offset: 0n });
      expect(message?.headerEntries).toEqual([["h", "1"]]);
    },
    ...Object.fromEntries(codecs),
    "idempotent producer": async () => {
      await create("pk-idempotent");
      await produce("pk-idempotent", numbers(300), { idempotent: true, acks: -1 });
      expect(valuesOf(await read("pk-idempotent", "pk-idempotent", 300))).toEqual(numbers(300));
    },
    "an idempotent producer goes on across a topic that is made again": async () => {
      const producer = new Producer({ ...common, serializers: stringSerializers, idempotent: true, metadataMaxAge: 1_000 });
      for (const made of [0, 1, 2]) {
        await create("pk-again");
        const values = numbers(5, `${made} `);
        for (const value of values) await producer.send({ acks: -1, messages: [{ topic: "pk-again", partition: 0, value }] });
        expect(valuesOf(await read(`pk-again-${made}`, "pk-again", 5))).toEqual(values);
        await withAdmin(async (admin) => {
          await admin.deleteTopics({ topics: ["pk-again"] });
          await until("it is gone", WAIT_MS, async () => !(await admin.listTopics()).includes("pk-again"));
        });
      }
      await producer.close();
    },
    "acks 0 and 1": async () => {
      await create("pk-acks");
      await produce("pk-acks", ["0"], { acks: 0 });
      expect(valuesOf(await read("pk-acks", "pk-acks", 1))).toEqual(["0"]);
      await produce("pk-acks", ["1"], { acks: 1 });
      expect(valuesOf(await read("pk-acks", "pk-acks", 1))).toEqual(["1"]);
    },
    "a record above the topic's limit": async () => {
      await create("pk-limit", 1, { "max.message.bytes": "2000" });
      await expect(produce("pk-limit", ["x".repeat(5_000)])).rejects.toThrow();
    },
    "offsets: the ends, by time, of the newest": async () => {
      await create("pk-times");
      await produce("pk-times", numbers(10), { timestampMs: BASE_MS, compression: "gzip" });
      await withAdmin(async (admin) => {
        const at = async (timestamp: bigint): Promise<bigint | undefined> =>
          (await admin.listOffsets({ topics: [{ name: "pk-times", partitions: [{ partitionIndex: 0, timestamp }] }] }))[0]?.partitions[0]
            ?.offset;
        expect(await at(ListOffsetTimestamps.EARLIEST)).toBe(0n);
        expect(await at(ListOffsetTimestamps.LATEST)).toBe(10n);
        expect(await at(-3n)).toBe(9n);
        expect(await at(BigInt(BASE_MS + 4))).toBe(4n);
        expect(await at(BigInt(BASE_MS + 3_600_000))).toBe(-1n);
      });
    },
    "group, classic: commits and resumes": () => resumes("classic"),
    "group, consumer protocol: commits and resumes": () => resumes("consumer"),
    "group, classic: two members share, one takes over": () => shares("classic"),
    "group, consumer protocol: two members share, one takes over": () => shares("consumer"),
    "admin: topics made, listed, grown, deleted": () =>
      withAdmin(async (admin) => {
        await create("pk-made", 3);
        await expect(admin.createTopics({ topics: ["pk-made"], partitions: 1, replicas: -1 })).rejects.toThrow();
        await admin.createPartitions({ topics: [{ name: "pk-made", count: 5, assignments: null }] });
        const grown = async () =>
          (await admin.metadata({ topics: ["pk-made"], forceUpdate: true })).topics.get("pk-made")?.partitions.length === 5;
        await until("five partitions", WAIT_MS, grown);
        await admin.deleteTopics({ topics: ["pk-made"] });
        await until("it is gone", WAIT_MS, async () => !(await admin.listTopics()).includes("pk-made"));
        await expect(admin.deleteTopics({ topics: ["pk-nobodys"] })).rejects.toThrow();
      }),
    "admin: configuration": () =>
      withAdmin(async (admin) => {
        await create("pk-config", 1, { "retention.ms": "1000000" });
        const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: "pk-config" };
        const value = async () =>
          (await admin.describeConfigs({ resources: [{ ...resource, configurationKeys: ["retention.ms"] }] }))[0]?.configs[0]?.value;
        expect(await value()).toBe("1000000");
        const set = { name: "retention.ms", value: "2000000", configOperation: IncrementalAlterConfigOperationTypes.SET };
        await admin.incrementalAlterConfigs({ resources: [{ ...resource, configs: [set] }] });
        await until("it is changed", WAIT_MS, async () => (await value()) === "2000000");
      }),
    "admin: records deleted": () =>
      withAdmin(async (admin) => {
        await create("pk-cut");
        await produce("pk-cut", numbers(10));
        const cut = await admin.deleteRecords({ topics: [{ name: "pk-cut", partitions: [{ partition: 0, offset: 4n }] }] });
        expect(cut).toEqual([{ name: "pk-cut", partitions: [{ partition: 0, lowWatermark: 4n }] }]);
        expect(valuesOf(await read("pk-cut", "pk-cut", 6))).toEqual(numbers(10).slice(4));
      }),
    "admin: log directories": () =>
      withAdmin(async (admin) => {
        await create("pk-logs");
        await produce("pk-logs", numbers(10));
        const described = await admin.describeLogDirs({ topics: [{ name: "pk-logs", partitions: [0] }] });
        expect(described.flatMap(({ results }) => results.flatMap(({ topics }) => topics.map(({ name }) => name)))).toContain("pk-logs");
      }),
    "admin: groups listed, described, offsets altered, deleted": () =>
      withAdmin(async (admin) => {
        await create("pk-group");
        await produce("pk-group", numbers(5));
        await read("pk-grouped", "pk-group", 5);
        expect((await admin.listGroups()).get("pk-grouped")).toMatchObject({ id: "pk-grouped" });
        expect((await admin.describeGroups({ groups: ["pk-grouped"] })).get("pk-grouped")).toMatchObject({
          id: "pk-grouped",
        });
        const offset = async () =>
          (await admin.listConsumerGroupOffsets({ groups: ["pk-grouped"] }))[0]?.topics[0]?.partitions[0]?.committedOffset;
        expect(await offset()).toBe(5n);
        const topics = [{ name: "pk-group", partitionOffsets: [{ partition: 0, offset: 2n }] }];
        await admin.alterConsumerGroupOffsets({ groupId: "pk-grouped", topics });
        expect(await offset()).toBe(2n);
        await admin.deleteConsumerGroupOffsets({ groupId: "pk-grouped", topics: [{ name: "pk-group", partitionIndexes: [0] }] });
        expect(await offset()).toBeUndefined();
        await admin.deleteGroups({ groups: ["pk-grouped"] }).catch((error: unknown) => {
          // A group without members and offsets may have gone by itself.
          if (!(error as Error).message.includes("deleting groups")) throw error;
        });
        expect([...(await admin.listGroups()).keys()]).not.toContain("pk-grouped");
      }),
  };
}
