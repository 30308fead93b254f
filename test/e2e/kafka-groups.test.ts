import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { Admin, Consumer as PlatformaticConsumer, stringDeserializers } from "@platformatic/kafka";
import { Kafka, logLevel, type Consumer } from "kafkajs";
import type { Sluice } from "@sluice/client";
import { startKcat } from "@sluice/test-support";
import { createTopic, TestCluster, until } from "./support/cluster.ts";

const numbers = (count: number, prefix = ""): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
const WAIT_MS = 20_000;
/** Less than a session: members that say goodbye are gone at once. */
const LEFT_MS = 5_000;

describe("groups of Kafka clients that are not ours", () => {
  let cluster: TestCluster;
  let sluice: Sluice;
  let kafka: Kafka;
  beforeAll(async () => {
    cluster = await TestCluster.start({ name: "kafka-groups", zones: 1, config: { "group.consumer.heartbeat.interval.ms": "1000" } });
    sluice = await cluster.connect();
    kafka = new Kafka({ clientId: "js", brokers: cluster.kafka, logLevel: logLevel.NOTHING });
  }, 120_000);
  afterAll(async () => {
    await sluice?.close();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  async function send(topic: string, values: readonly string[]): Promise<void> {
    const producer = sluice.producer();
    await Promise.all(values.map((value, i) => producer.send({ topic, partition: i % 4, value: new TextEncoder().encode(value) })));
    await producer.close();
  }

  interface Member extends AsyncDisposable {
    readonly consumer: Consumer;
    readonly values: string[];
    readonly partitions: readonly number[];
  }
  async function kafkajsMember(groupId: string, topic: string): Promise<Member> {
    const consumer = kafka.consumer({
      groupId,
      heartbeatInterval: 300,
      sessionTimeout: 10_000,
      rebalanceTimeout: 10_000,
      maxWaitTimeInMs: 200,
    });
    const values: string[] = [];
    let partitions: readonly number[] = [];
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => (partitions = payload.memberAssignment[topic] ?? []));
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({
      autoCommitThreshold: 1,
      eachMessage: async ({ message }) => void values.push(String(message.value)),
    });
    return {
      consumer,
      values,
      get partitions() {
        return partitions;
      },
      [Symbol.asyncDispose]: () => consumer.disconnect(),
    };
  }

  test(
    "kafkajs: two members share the partitions, one goes, offsets outlive the members and a coordinator",
    () =>
      cluster.run(async () => {
        await createTopic(sluice, "shared", 4);
        await send("shared", numbers(40, "a"));
        const first = await kafkajsMember("js", "shared");
        await until("the first member has all", WAIT_MS, () => first.partitions.length === 4 && first.values.length === 40);
        const second = await kafkajsMember("js", "shared");
        await until("two each", WAIT_MS, () => first.partitions.length === 2 && second.partitions.length === 2);
        expect([...first.partitions, ...second.partitions].toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3]);
        // What the members say to each other is told where it has the form of Kafka's consumers.
        const { members } = await sluice.groups.describe("js");
        expect(members.map((m) => m.topics)).toEqual([["shared"], ["shared"]]);
        expect(members.flatMap((m) => m.assigned.map((p) => p.partition)).toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3]);
        await send("shared", numbers(40, "b"));
        await until("both read", WAIT_MS, () => first.values.length + second.values.length === 80);
        expect(second.values).toHaveLength(20);
        await first[Symbol.asyncDispose]();
        await until("the other takes over", WAIT_MS, () => second.partitions.length === 4);
        await second[Symbol.asyncDispose]();
        expect([...first.values, ...second.values].toSorted()).toEqual([...numbers(40, "a"), ...numbers(40, "b")].toSorted());

        const coordinator = Object.keys(cluster.handle.spec.processes).find((id) => id.startsWith("coordinator"))!;
        await cluster.handle.kill(coordinator);
        await cluster.handle.start(coordinator);
        const admin = kafka.admin();
        await admin.connect();
        const [committed] = await admin.fetchOffsets({ groupId: "js", topics: ["shared"] });
        expect(committed?.partitions.map(({ offset }) => offset)).toEqual(["20", "20", "20", "20"]);
        await admin.disconnect();
        await using third = await kafkajsMember("js", "shared");
        await send("shared", numbers(4, "c"));
        await until("only what is new", WAIT_MS, () => third.values.length === 4);
        expect(third.values.toSorted()).toEqual(numbers(4, "c"));
      }),
    90_000,
  );

  test.each(["classic", "consumer"] as const)(
    "@platformatic/kafka, group protocol %s: commits, and goes on there",
    (groupProtocol) => cluster.run(() => platformatic(groupProtocol)),
    60_000,
  );
  async function platformatic(groupProtocol: "classic" | "consumer"): Promise<void> {
    const topic = `plt-${groupProtocol}`;
    await createTopic(sluice, topic, 4);
    await send(topic, numbers(20, "a"));
    const read = async (count: number): Promise<string[]> => {
      const consumer = new PlatformaticConsumer({
        clientId: "plt",
        groupId: topic,
        bootstrapBrokers: cluster.kafka,
        deserializers: stringDeserializers,
        ...(groupProtocol === "classic" ? { groupProtocol } : { groupProtocol }),
      });
      const stream = await consumer.consume({
        topics: [topic],
        mode: "committed",
        fallbackMode: "earliest",
        autocommit: false,
        maxWaitTime: 200,
      });
      const values: string[] = [];
      for await (const message of stream) {
        values.push(message.value ?? "");
        await message.commit();
        if (values.length === count) break;
      }
      await consumer.close(true);
      return values.toSorted();
    };
    expect(await read(20)).toEqual(numbers(20, "a").toSorted());
    await send(topic, numbers(4, "b"));
    expect(await read(4)).toEqual(numbers(4, "b"));
    const admin = new Admin({ clientId: "plt", bootstrapBrokers: cluster.kafka });
    const groups = await admin.listGroups({ types: [groupProtocol] });
    expect(groups.get(topic)).toMatchObject({ id: topic, groupType: groupProtocol });
    await until("the members have left", LEFT_MS, async () => {
      await admin.deleteGroups({ groups: [topic] });
      return true;
    });
    expect([...(await admin.listGroups()).keys()]).not.toContain(topic);
    await admin.close();
  }

  test(
    "kcat -G: a librdkafka member reads all, the next one goes on where it was, and two share",
    () =>
      cluster.run(async () => {
        await createTopic(sluice, "rdk", 4);
        await send("rdk", numbers(40, "a"));
        const member = (count: number): ReturnType<typeof startKcat> =>
          startKcat(["-b", cluster.kafka.join(","), "-u", "-G", "rdk", "-X", "auto.offset.reset=earliest", "-c", String(count), "rdk"]);
        const first = await (await member(40)).done;
        expect({ code: first.code, values: first.out.trim().split("\n").toSorted() }).toEqual({
          code: 0,
          values: numbers(40, "a").toSorted(),
        });
        await send("rdk", numbers(8, "b"));
        const second = await (await member(8)).done;
        expect({ code: second.code, values: second.out.trim().split("\n").toSorted() }).toEqual({ code: 0, values: numbers(8, "b") });

        const pair = await Promise.all([member(1_000), member(1_000)]);
        const halves = (): boolean => pair.every(({ out }) => out() !== "");
        await until("both have something to read", WAIT_MS, async () => {
          await send("rdk", numbers(4, "c"));
          return halves();
        });
        for (const { child } of pair) child.kill("SIGTERM");
        await Promise.all(pair.map(({ done }) => done));
      }),
    60_000,
  );
});
