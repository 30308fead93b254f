import { expect, test } from "@jest/globals";
import { apis } from "@sluice/kafka-wire";
import { systemClock } from "@sluice/runtime";
import { FakeCluster } from "../support/fake-cluster.ts";
import { batchOf, eventually, startProxy } from "../support/proxy.ts";

const UNKNOWN_TOPIC_OR_PARTITION = 3;
/** Of the requests; what is held to its end takes at least as long. */
const timeoutMs = 20_000;
const PROMPT_MS = 2_000;

test("what waits for the owner of a topic that is deleted is answered at once, and so is what is behind it on the connection", async () => {
  await using cluster = new FakeCluster();
  await cluster.start();
  await using p = await startProxy(cluster);
  const topic = await cluster.topic("t", 1);
  await cluster.topic("other", 1);
  await using client = await p.kafka();
  const produce = (name: string) =>
    client.call(apis.Produce, 9, {
      acks: -1,
      timeoutMs,
      topicData: [{ name, partitionData: [{ index: 0, records: batchOf([name]) }] }],
    });
  const errorOf = ({ responses }: Awaited<ReturnType<typeof produce>>) => responses[0]?.partitionResponses[0]?.errorCode;
  for (const name of ["t", "other"]) expect(errorOf(await produce(name))).toBe(0);

  // The owner has heard of the deletion; the proxy has not.
  cluster.logs.delete(`${topic.topicId}/0`);
  const held = produce("t");
  const behind = produce("other");
  await using second = await p.kafka();
  const end = second.call(apis.ListOffsets, 10, {
    replicaId: -1,
    topics: [{ name: "t", partitions: [{ partitionIndex: 0, timestamp: -1 }] }],
    timeoutMs,
  });
  const data = { case: "batch", value: batchOf(["t"]) } as const;
  const overGrpc = expect(p.produce.produce({ topic: "t", partition: 0, data }, { timeoutMs })).rejects.toMatchObject({
    code: "UNKNOWN_TOPIC",
  });
  await eventually(
    async () => ((await p.metrics.value("sluice_proxy_produce_held_bytes")) ?? 0) >= 2 * data.value.length,
    "two held batches",
  );
  const beganMs = systemClock.monotonicMs();
  await p.admin.deleteTopic({ name: "t" }, { timeoutMs });
  expect(errorOf(await held)).toBe(UNKNOWN_TOPIC_OR_PARTITION);
  expect(errorOf(await behind)).toBe(0);
  expect((await end).topics[0]?.partitions[0]?.errorCode).toBe(UNKNOWN_TOPIC_OR_PARTITION);
  await overGrpc;
  expect(systemClock.monotonicMs() - beganMs).toBeLessThan(PROMPT_MS);
});
