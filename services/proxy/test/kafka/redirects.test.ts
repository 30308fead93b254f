import { describe, expect, test } from "@jest/globals";
import type { TopicRecord } from "@sluice/core/model";
import { apis } from "@sluice/kafka-wire";
import { systemClock } from "@sluice/runtime";
import { kafkaLimits } from "../../src/kafka/limits.ts";
import { FakeCluster } from "../support/fake-cluster.ts";
import type { KafkaClient } from "../support/kafka-client.ts";
import { batchOf, eventually, startProxy, type RunningProxy } from "../support/proxy.ts";

const NOT_LEADER = 6;
const MiB = 1024 * 1024;
const produce = (acks = -1) => ({
  acks,
  timeoutMs: 5_000,
  topicData: [{ name: "t", partitionData: [{ index: 0, records: batchOf(["a"]) }] }],
});
const fetch = (topicId: string, maxWaitMs: number) => ({
  maxWaitMs,
  minBytes: 1,
  maxBytes: MiB,
  topics: [{ topicId, partitions: [{ partition: 0, fetchOffset: 0, partitionMaxBytes: MiB }] }],
});
interface Scene {
  readonly cluster: FakeCluster;
  readonly staying: RunningProxy;
  readonly going: RunningProxy;
  /** Of one partition. */
  readonly topic: TopicRecord;
}
/** Two proxies that know each other. */
async function scene(work: (scene: Scene) => Promise<void>): Promise<void> {
  await using cluster = new FakeCluster();
  await cluster.start();
  await using staying = await startProxy(cluster, "proxy-1");
  await using going = await startProxy(cluster, "proxy-2");
  const topic = await cluster.topic("t", 1);
  await both(staying, going);
  await work({ cluster, staying, going, topic });
}
/** One at a time: a client of Kafka keeps a connection for each. */
const both = async (staying: RunningProxy, going: RunningProxy): Promise<void> => {
  for (const { kafka } of [staying, going]) {
    await using client = await kafka();
    await eventually(async () => (await client.call(apis.Metadata, 12, {})).brokers.length === 2, "both proxies");
  }
};
const producedBy = async (client: KafkaClient, acks = -1) =>
  (await client.call(apis.Produce, 12, produce(acks))).responses[0]?.partitionResponses[0];

describe("a proxy that goes away while others stay", () => {
  test(
    "names them while connections stay open: a poll that waits and a batch are told who leads, once, then the connections end",
    () =>
      scene(async ({ cluster, staying, going, topic }) => {
        await using consumer = await going.kafka();
        await using producer = await going.kafka();
        await eventually(async () => (await producedBy(producer))?.errorCode === 0, "the first batch");
        const [stored] = cluster.log(topic, 0).batches.slice(-1);
        const end = stored?.next ?? 0;
        const atEnd = { ...fetch(topic.topicId, 20_000) };
        atEnd.topics[0]!.partitions[0]!.fetchOffset = end;
        const waiting = consumer.call(apis.Fetch, 17, atEnd);
        await eventually(async () => (await going.metrics.value("sluice_proxy_tail_waiting_count")) === 1, "a parked fetch");

        const drained = going.proxy.drain();
        const told = await waiting;
        const leader = { leaderId: 1, leaderEpoch: 1 };
        expect(told.responses[0]?.partitions[0]).toMatchObject({ errorCode: NOT_LEADER, currentLeader: leader });
        const [host, port] = (staying.proxy.endpoints()["kafka"] as string).split(":");
        const endpoints = [{ nodeId: 1, host, port: Number(port), rack: "a" }];
        expect(told.nodeEndpoints).toEqual(endpoints);

        // Those behind it in the pipeline must not overtake the first.
        const refused = await Promise.all([1, 2, 3].map(() => producer.call(apis.Produce, 12, produce())));
        for (const { responses, nodeEndpoints } of refused) {
          expect(responses[0]?.partitionResponses[0]).toMatchObject({ errorCode: NOT_LEADER, baseOffset: -1, currentLeader: leader });
          expect(nodeEndpoints).toEqual(endpoints);
        }
        expect(cluster.log(topic, 0).next).toBe(end);

        // The metadata on a connection of before and on a new one lead to the other alone.
        await using fresh = await going.kafka();
        for (const client of [producer, fresh]) {
          const { brokers, topics } = await client.call(apis.Metadata, 12, { topics: [{ name: "t" }] });
          expect([brokers.map(({ nodeId }) => nodeId), topics[0]?.partitions[0]?.leaderId]).toEqual([[1, 2], 1]);
          const found = await client.call(apis.FindCoordinator, 4, { keyType: 0, coordinatorKeys: ["g"] });
          expect(found.coordinators[0]).toMatchObject({ errorCode: 0, nodeId: 1 });
        }
        // A client that stays loses nothing, and does not ask without a pause.
        await systemClock.sleep(kafkaLimits.redirectPipelineMs);
        expect(await producedBy(producer)).toMatchObject({ errorCode: 0, baseOffset: end });
        atEnd.topics[0]!.partitions[0]!.fetchOffset = end + 1;
        const fromMs = systemClock.monotonicMs();
        expect((await consumer.call(apis.Fetch, 17, atEnd)).responses[0]?.partitions[0]?.errorCode ?? 0).toBe(0);
        expect(systemClock.monotonicMs() - fromMs).toBeGreaterThanOrEqual(kafkaLimits.redirectFetchWaitMs - 1);

        await Promise.all([drained, consumer.closed, producer.closed, fresh.closed]);
        await expect(going.kafka()).rejects.toThrow();
      }),
    20_000,
  );

  test(
    "older versions have the code without the leader; with acks=0, where nobody hears it, a batch is taken",
    () =>
      scene(async ({ cluster, going, topic }) => {
        await using client = await going.kafka();
        await eventually(async () => (await producedBy(client))?.errorCode === 0, "the first batch");
        const end = cluster.log(topic, 0).next;
        const drained = going.proxy.drain();
        await systemClock.sleep(kafkaLimits.announceMs + 50);
        client.send(apis.Produce, 9, produce(0));
        await eventually(() => cluster.log(topic, 0).next === end + 1, "the batch without an answer");
        const old = await client.call(apis.Fetch, 11, {
          ...fetch("", 0),
          topics: [{ topic: "t", partitions: [{ partition: 0, fetchOffset: end }] }],
        });
        expect(old.responses[0]?.partitions[0]).toMatchObject({ errorCode: NOT_LEADER, currentLeader: { leaderId: -1 } });
        expect((await client.call(apis.Produce, 7, produce())).responses[0]?.partitionResponses[0]?.errorCode).toBe(NOT_LEADER);
        await drained;
      }),
    20_000,
  );

  test(
    "does not wait when there is nobody to tell, or nobody to go to",
    () =>
      scene(async ({ staying, going }) => {
        const took = async (p: RunningProxy): Promise<number> => {
          const fromMs = systemClock.monotonicMs();
          await p.proxy.drain();
          return systemClock.monotonicMs() - fromMs;
        };
        await eventually(async () => (await going.metrics.value("sluice_proxy_kafka_connections_count")) === 0, "no connection");
        expect(await took(going)).toBeLessThan(kafkaLimits.redirectQuietMs);
        await using last = await staying.kafka();
        await going.proxy.stop();
        await eventually(async () => (await last.call(apis.Metadata, 12, {})).brokers.length === 1, "one proxy");
        expect(await took(staying)).toBeLessThan(kafkaLimits.redirectQuietMs);
        await last.closed;
      }),
    20_000,
  );
});
