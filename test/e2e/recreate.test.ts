import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Kafka, logLevel, type Producer } from "kafkajs";
import type { Sluice } from "@sluice/client";
import { kcat } from "@sluice/test-support";
import { createTopic, TestCluster, until } from "./support/cluster.ts";
import { Inside } from "./support/inside.ts";
import { sluice as runSluice } from "./support/sluice-command.ts";

const ROUNDS = 4;
/** In each one there is a moment, milliseconds long, in which the owner has let go of a partition that the proxy still knows. */
const FLOW_ROUNDS = 8;
const PER_ROUND = 20;
const NAME = "again";
const COMMAND_NAME = "typed";
const WRITTEN_NAME = "written";
const OTHER_NAME = "other";
/** An answer that waits for nothing takes milliseconds; one that is held takes the request time-out, 30 s. */
const PROMPT_MS = 5_000;
const GROUP = "readers";
const values = (round: string): string[] => Array.from({ length: PER_ROUND }, (_, n) => `${round}-${n}`);

describe("topics that are deleted", () => {
  let cluster: TestCluster;
  let client: Sluice;
  let inside: Inside;
  /** Topics that are to leave nothing. */
  const gone = new Set<string>();
  beforeAll(async () => {
    // The group has one member: nobody else is to be waited for.
    const config = { "group.initial.rebalance.delay.ms": "0" };
    cluster = await TestCluster.start({ name: "recreate", proxies: 2, stores: 3, config });
    client = await cluster.connect();
    inside = await Inside.open(cluster);
  }, 120_000);
  afterAll(async () => {
    await inside?.[Symbol.asyncDispose]();
    await client?.close();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  const idNow = async (name: string): Promise<string> => (await client.admin.describeTopic(name)).topicId;

  // The first of all: no other topic is there.
  test("deleted while the owner of its partitions is dead: the next owner ends what the dead one held, without running in circles", async () => {
    await cluster.run(async () => {
      await createTopic(client, "t", 8);
      const producer = client.producer({ topic: "t" });
      await producer.sendMany(Array.from({ length: 80 }, (_, i) => ({ partition: i % 8, value: `${i}` })));
      await producer.close();
      const victim = (await client.admin.describeTopic("t", { includePartitions: true })).partitionDetails[0]!.owner;
      const other = victim === "broker-1" ? "broker-2" : "broker-1";
      await cluster.handle.kill(victim);
      await client.admin.deleteTopic("t");
      expect(await client.admin.listTopics()).toEqual([]);
      await until("nothing is left of the topic", 20_000, async () => {
        const logs = await Promise.all(cluster.handle.spec.controllers.map(({ id }) => cluster.log(id)));
        return logs.flat().some((line) => line.includes("topic removed"));
      });
      const log = await cluster.log(other);
      expect(log.filter((line) => line.includes("partition.stepped-down")).length).toBeLessThan(40);
      await createTopic(client, "t", 8);
      await cluster.handle.start(victim);
    });
  }, 90_000);

  test("and made again at once, through the Kafka port: again and again, one producer for all, and nobody reads an old record or an old group's offset", async () => {
    await cluster.run(async () => {
      const kafka = new Kafka({ clientId: "recreate", brokers: cluster.kafka, logLevel: logLevel.NOTHING });
      const admin = kafka.admin();
      const producer = kafka.producer();
      await Promise.all([admin.connect(), producer.connect()]);
      const make = () =>
        admin.createTopics({
          topics: [{ topic: NAME, numPartitions: 2, configEntries: [{ name: "segment.ms", value: "200" }] }],
          waitForLeaders: true,
        });
      expect(await make()).toBe(true);
      for (let round = 0; round < ROUNDS; round += 1) {
        const id = await idNow(NAME);
        expect(gone).not.toContain(id);
        expect((await admin.fetchTopicOffsets(NAME)).map(({ high }) => high)).toEqual(["0", "0"]);
        expect(await committed(admin)).toEqual(["-1", "-1"]);
        await producer.send({ topic: NAME, messages: values(`${round}`).map((value) => ({ value })) });
        expect(await readAll()).toEqual(values(`${round}`).toSorted());
        await commit(kafka, `${round + 1}`);
        expect(await committed(admin)).toEqual([`${round + 1}`, `${round + 1}`]);
        // Once with history in the object store.
        if (round === 0) await until("objects", 20_000, async () => (await objectsOf([id])).length > 0);
        await admin.deleteTopics({ topics: [NAME] });
        gone.add(id);
        expect(await admin.listTopics()).not.toContain(NAME);
        expect(await make()).toBe(true);
      }
      gone.add(await idNow(NAME));
      await admin.deleteTopics({ topics: [NAME] });
      await Promise.all([admin.disconnect(), producer.disconnect()]);
    });
  }, 180_000);

  test("and made again at once, through the command line: again and again", async () => {
    await cluster.run(async () => {
      const endpoint = cluster.proxies[0]!;
      const ok = async (...args: readonly string[]): Promise<void> => {
        expect(await runSluice(args, { endpoint })).toMatchObject({ code: 0, err: "" });
      };
      const create = ["topic", "create", COMMAND_NAME, "--partitions", "1"];
      await ok(...create);
      for (let round = 0; round < ROUNDS; round += 1) {
        gone.add(await idNow(COMMAND_NAME));
        const producer = client.producer({ topic: COMMAND_NAME });
        await producer.sendMany(values(`${round}`).map((value) => ({ value })));
        await producer.close();
        expect(await read(COMMAND_NAME)).toEqual(values(`${round}`));
        await ok("topic", "delete", COMMAND_NAME);
        expect((await client.admin.listTopics()).map(({ name }) => name)).not.toContain(COMMAND_NAME);
        await ok(...create);
      }
      gone.add(await idNow(COMMAND_NAME));
      await ok("topic", "delete", COMMAND_NAME);
    });
  }, 180_000);

  test("and made again while a Kafka producer goes on: nothing that it writes to another topic on the same connections is held", async () => {
    await cluster.run(async () => {
      const kafka = new Kafka({ clientId: "going-on", brokers: cluster.kafka, logLevel: logLevel.NOTHING });
      const admin = kafka.admin();
      const producer = kafka.producer({ allowAutoTopicCreation: false });
      await Promise.all([admin.connect(), producer.connect()]);
      const make = (topic: string) => admin.createTopics({ topics: [{ topic, numPartitions: 2 }], waitForLeaders: true });
      expect([await make(WRITTEN_NAME), await make(OTHER_NAME)]).toEqual([true, true]);
      const flow = new Flow(producer, [WRITTEN_NAME, OTHER_NAME]);
      try {
        for (let round = 0; round < FLOW_ROUNDS; round += 1) {
          gone.add(await idNow(WRITTEN_NAME));
          await flow.goOn(WRITTEN_NAME);
          await admin.deleteTopics({ topics: [WRITTEN_NAME] });
          expect(await make(WRITTEN_NAME)).toBe(true);
        }
        await flow.goOn(WRITTEN_NAME);
      } finally {
        await flow.end();
      }
      expect(flow.failed(OTHER_NAME)).toEqual([]);
      expect(flow.slowestMs(OTHER_NAME)).toBeLessThan(PROMPT_MS);
      expect(flow.slowestMs(WRITTEN_NAME)).toBeLessThan(PROMPT_MS);
      gone.add(await idNow(WRITTEN_NAME));
      await admin.deleteTopics({ topics: [WRITTEN_NAME] });
      await Promise.all([admin.disconnect(), producer.disconnect()]);
    });
  }, 180_000);

  test("nothing is left of all of them: no key, no copy on a storage node, no object", async () => {
    await cluster.run(async () => {
      expect(gone.size).toBe(2 * (ROUNDS + 1) + FLOW_ROUNDS + 1);
      await until("the keys are gone", 60_000, async () => {
        const { entries } = await inside.store.list(inside.keys.deleted);
        return entries.length === 0 || `${entries.length} left`;
      });
      for (const id of gone) expect((await inside.store.list(`${inside.keys.partitions}${id}/`)).entries).toEqual([]);
      for (const { id } of cluster.handle.spec.stores) {
        const { segments, truncated } = await cluster.describeStore(id);
        expect(truncated).toBe(false);
        expect(segments.filter(({ address }) => gone.has(address?.topicId ?? ""))).toEqual([]);
      }
      expect(await objectsOf(gone)).toEqual([]);
    });
  }, 90_000);

  /** As a member of the group. (`admin.setOffsets` is one too, and fetches for 5 s what it does not want.) */
  async function commit(kafka: Kafka, offset: string): Promise<void> {
    const consumer = kafka.consumer({ groupId: GROUP, maxWaitTimeInMs: 100 });
    const joined = new Promise((resolve) => consumer.on(consumer.events.GROUP_JOIN, resolve));
    await consumer.connect();
    await consumer.subscribe({ topic: NAME });
    await consumer.run({ autoCommit: false, eachBatch: () => Promise.resolve() });
    await joined;
    await consumer.commitOffsets([0, 1].map((partition) => ({ topic: NAME, partition, offset })));
    await consumer.disconnect();
  }
  async function committed(admin: ReturnType<Kafka["admin"]>): Promise<string[]> {
    const [offsets] = await admin.fetchOffsets({ groupId: GROUP, topics: [NAME] });
    return (offsets?.partitions ?? []).map(({ offset }) => offset);
  }
  /** Names of objects of topics. */
  async function objectsOf(ids: Iterable<string>): Promise<string[]> {
    const wanted = [...ids];
    const found = await readdir(join(cluster.handle.dir, "data", "objects"), { recursive: true, withFileTypes: true });
    return found.filter((file) => file.isFile() && wanted.some((id) => file.parentPath.includes(id))).map(({ name }) => name);
  }
  async function read(topic: string): Promise<string[]> {
    const found: string[] = [];
    for await (const record of client.consumer({ topic, from: "earliest", untilEnd: true }))
      found.push(Buffer.from(record.value ?? []).toString());
    return found;
  }
  async function readAll(): Promise<string[]> {
    const { code, out, err } = await kcat(["-b", cluster.kafka.join(","), "-C", "-t", NAME, "-o", "beginning", "-e", "-q"]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    return out.trimEnd().split("\n").toSorted();
  }
});

/** Sends to each partition of the topics in turn, many at a time, and takes note of how long each takes. */
class Flow {
  readonly #producer: Producer;
  readonly #results: { readonly topic: string; readonly ms: number; readonly error: string | undefined }[] = [];
  readonly #open = new Set<Promise<void>>();
  readonly #timer: NodeJS.Timeout;

  constructor(producer: Producer, topics: readonly string[]) {
    this.#producer = producer;
    this.#timer = setInterval(() => {
      for (const topic of topics) for (const partition of [0, 1]) this.#send(topic, partition);
    }, 1);
  }
  #send(topic: string, partition: number): void {
    const beganMs = performance.now();
    const note = (error?: Error): void => {
      this.#results.push({ topic, ms: performance.now() - beganMs, error: error?.message });
    };
    const sent = this.#producer.send({ topic, messages: [{ partition, value: "v" }] }).then(() => note(), note);
    this.#open.add(sent);
    void sent.then(() => this.#open.delete(sent));
  }
  #stored(topic: string): number {
    return this.#results.filter((one) => one.topic === topic && one.error === undefined).length;
  }
  /** Until some more are stored. */
  async goOn(topic: string): Promise<void> {
    const before = this.#stored(topic);
    await until("the flow goes on", 60_000, async () => this.#stored(topic) >= before + 100);
  }
  async end(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#open);
  }
  failed(topic: string): string[] {
    return this.#results.flatMap((one) => (one.topic === topic && one.error !== undefined ? [one.error] : []));
  }
  slowestMs(topic: string): number {
    return Math.max(...this.#results.filter((one) => one.topic === topic).map(({ ms }) => ms));
  }
}
