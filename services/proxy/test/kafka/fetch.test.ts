import { describe, expect, jest, test } from "@jest/globals";
import { partitionKey, SluiceError } from "@sluice/core/model";
import { apis, type FetchResponse, type Input, type FetchRequest } from "@sluice/kafka-wire";
import { systemClock } from "@sluice/runtime";
import { FakeCluster, offsetsIn } from "../support/fake-cluster.ts";
import type { KafkaClient } from "../support/kafka-client.ts";
import { batchOf, eventually, startProxy } from "../support/proxy.ts";

const MiB = 1024 * 1024;
type Asked = readonly [partition: number, offset: number, maxBytes?: number];
const ask = (name: string, asked: readonly Asked[], more: Input<FetchRequest> = {}): Input<FetchRequest> => ({
  maxWaitMs: 0,
  minBytes: 1,
  maxBytes: 50 * MiB,
  topics: [
    {
      topic: name,
      partitions: asked.map(([partition, fetchOffset, partitionMaxBytes = MiB]) => ({ partition, fetchOffset, partitionMaxBytes })),
    },
  ],
  ...more,
});
const partsOf = (response: FetchResponse) => response.responses.flatMap(({ partitions }) => partitions);
const offsetsOf = (response: FetchResponse): number[][] => partsOf(response).map(({ records }) => offsetsIn(records ?? new Uint8Array(0)));
/** The first fetch at an end asks the owner; the marks are there with a later one. */
const warm = (client: KafkaClient, name: string, end: number) =>
  eventually(async () => partsOf(await client.call(apis.Fetch, 11, ask(name, [[0, end]])))[0]?.highWatermark === end, "marks");

describe("Fetch", () => {
  test.each([4, 11, 12])("version %d: whole batches, the one that holds the offset first", async (version) => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 2);
    for (let i = 0; i < 4; i += 1) cluster.append(topic, 0, batchOf(["a", "b", "c"]));
    await using client = await p.kafka();
    const answer = await client.call(
      apis.Fetch,
      version,
      ask(
        "t",
        [
          [0, 4],
          [1, 0],
        ],
        { maxWaitMs: 2_000 },
      ),
    );
    expect(offsetsOf(answer)).toEqual([[3, 4, 5, 6, 7, 8, 9, 10, 11], []]);
    const [first] = partsOf(answer);
    expect([first?.errorCode, first?.highWatermark, first?.lastStableOffset]).toEqual([0, 12, 12]);
    expect([answer.sessionId, answer.errorCode]).toEqual([0, 0]);
  });

  test("version 13 and later name topics by id; an unknown id has an error of its own", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 1);
    cluster.append(topic, 0, batchOf(["a"]));
    await using client = await p.kafka();
    const partitions = [{ partition: 0, fetchOffset: 0, partitionMaxBytes: MiB }];
    const unknown = "0f8fad5b-d9cb-469f-a165-70867728950e";
    const answer = await client.call(apis.Fetch, 17, {
      maxWaitMs: 1_000,
      minBytes: 1,
      topics: [
        { topicId: topic.topicId, partitions },
        { topicId: unknown, partitions },
      ],
    });
    expect(answer.responses.map(({ topicId, partitions: [part] }) => [topicId, part?.errorCode])).toEqual([
      [topic.topicId, 0],
      [unknown, 100],
    ]);
  });

  test("a fetch at the end waits for any of its partitions", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 3);
    await using client = await p.kafka();
    await warm(client, "t", 0);
    const waiting = client.call(
      apis.Fetch,
      11,
      ask(
        "t",
        [
          [0, 0],
          [1, 0],
          [2, 0],
        ],
        { maxWaitMs: 10_000 },
      ),
    );
    await eventually(async () => ((await p.metrics.value("sluice_proxy_tail_waiting_count")) ?? 0) >= 3, "a parked fetch");
    cluster.append(topic, 2, batchOf(["x"]));
    expect(offsetsOf(await waiting)).toEqual([[], [], [0]]);
  });

  test("an empty answer comes when the wait is over, with the marks and no error", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    await using client = await p.kafka();
    await warm(client, "t", 0);
    const beganMs = systemClock.monotonicMs();
    const [part] = partsOf(await client.call(apis.Fetch, 11, ask("t", [[0, 0]], { maxWaitMs: 200 })));
    expect(systemClock.monotonicMs() - beganMs).toBeGreaterThanOrEqual(195);
    expect([part?.errorCode, part?.highWatermark, part?.records?.length]).toEqual([0, 0, 0]);
  });

  test("a partition whose end is not known yet is not told to end where the client is: one that reads to the end would be done", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 2);
    cluster.append(topic, 0, batchOf(["a"]));
    // Its owner says nothing of it.
    cluster.logs.delete(partitionKey({ topicId: topic.topicId, partition: 1 }));
    await using client = await p.kafka();
    const both: [number, number][] = [
      [0, 0],
      [1, 0],
    ];
    const [known, unknown] = partsOf(await client.call(apis.Fetch, 11, ask("t", both, { maxWaitMs: 2_000 })));
    expect([known?.errorCode, known?.highWatermark, offsetsIn(known?.records ?? new Uint8Array(0))]).toEqual([0, 1, [0]]);
    expect([unknown?.errorCode, unknown?.highWatermark, unknown?.lastStableOffset, unknown?.records?.length]).toEqual([0, 1, 1, 0]);
  });

  test("a fetch waits until minBytes are there, adding what comes", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 2);
    await using client = await p.kafka();
    await warm(client, "t", 0);
    const batch = batchOf(["x".repeat(400)]);
    const waiting = client.call(
      apis.Fetch,
      11,
      ask(
        "t",
        [
          [0, 0],
          [1, 0],
        ],
        { maxWaitMs: 10_000, minBytes: batch.length * 3 },
      ),
    );
    for (const partition of [0, 1, 0]) {
      await systemClock.sleep(30);
      cluster.append(topic, partition, batch);
    }
    expect(offsetsOf(await waiting)).toEqual([[0, 1], [0]]);
  });

  test("limits: the first batch always comes, the others fit; partitions in the order of the request", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 3);
    const batch = batchOf(["x".repeat(1_000)]);
    for (const partition of [0, 1, 2]) for (let i = 0; i < 5; i += 1) cluster.append(topic, partition, batch);
    await using client = await p.kafka();
    for (const partition of [0, 1, 2]) await client.call(apis.Fetch, 11, ask("t", [[partition, 0]], { maxWaitMs: 2_000 }));
    const fetch = async (asked: readonly Asked[], maxBytes: number) =>
      offsetsOf(await client.call(apis.Fetch, 11, ask("t", asked, { maxBytes, maxWaitMs: 1_000 }))).map((offsets) => offsets.length);
    expect(
      await fetch(
        [
          [1, 0],
          [0, 0],
        ],
        10,
      ),
    ).toEqual([1, 0]);
    expect(
      await fetch(
        [
          [2, 0, 10],
          [0, 0, 10],
          [1, 0, 10],
        ],
        MiB,
      ),
    ).toEqual([1, 1, 1]);
    expect(
      await fetch(
        [
          [0, 0],
          [1, 0],
          [2, 0],
        ],
        batch.length * 7,
      ),
    ).toEqual([5, 2, 0]);
    expect(
      await fetch(
        [
          [0, 0, batch.length * 2],
          [1, 0],
          [2, 0],
        ],
        batch.length * 4,
      ),
    ).toEqual([2, 2, 0]);
  });

  test.each([
    ["its limit is used up", 1],
    ["less is left than its next batch needs", 1.5],
  ])("a partition of which %s is not waited for, however much a client wants", async (_, batches) => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 2);
    await using client = await p.kafka();
    await warm(client, "t", 0);
    const batch = batchOf(["x".repeat(1_000)]);
    for (let i = 0; i < 3; i += 1) cluster.append(topic, 0, batch);
    await warm(client, "t", 3);
    const limit = Math.floor(batch.length * batches);
    const want = { maxWaitMs: 5_000, minBytes: batch.length * 2 };
    const beganMs = systemClock.monotonicMs();
    const alone = await client.call(apis.Fetch, 11, ask("t", [[0, 0, limit]], want));
    expect(offsetsOf(alone)).toEqual([[0]]);
    expect(systemClock.monotonicMs() - beganMs).toBeLessThan(2_000);
    // Beside one that has room the wait goes on, and leaves the proxy alone meanwhile.
    const reads = cluster.reads;
    const beside = client.call(
      apis.Fetch,
      11,
      ask(
        "t",
        [
          [0, 0, limit],
          [1, 0],
        ],
        want,
      ),
    );
    await eventually(async () => ((await p.metrics.value("sluice_proxy_tail_waiting_count")) ?? 0) >= 1, "a parked fetch");
    cluster.append(topic, 1, batch);
    expect(offsetsOf(await beside)).toEqual([[0], [0]]);
    expect(cluster.reads - reads).toBeLessThan(10);
  });

  test("many partitions: all that fit are answered", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 40);
    for (let i = 0; i < 40; i += 1) cluster.append(topic, i, batchOf([`v${i}`]));
    await using client = await p.kafka();
    const asked = Array.from({ length: 40 }, (_, i) => [i, 0] as const);
    const got = new Set<number>();
    await eventually(async () => {
      const left = asked.filter(([partition]) => !got.has(partition));
      const answer = await client.call(apis.Fetch, 11, ask("t", left, { maxWaitMs: 500 }));
      for (const { partitionIndex, records } of partsOf(answer)) if ((records?.length ?? 0) > 0) got.add(partitionIndex);
      return got.size === 40;
    }, "every partition");
  });

  test("errors of a partition are told at once and alone", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 2);
    cluster.append(topic, 0, batchOf(["a"]));
    await using client = await p.kafka();
    const codes = async (asked: readonly Asked[], name = "t") =>
      partsOf(await client.call(apis.Fetch, 11, ask(name, asked, { maxWaitMs: 3_000 }))).map(({ errorCode }) => errorCode);
    expect(
      await codes([
        [0, 0],
        [5, 0],
      ]),
    ).toEqual([0, 3]);
    expect(await codes([[0, -5]])).toEqual([1]);
    expect(await codes([[0, 99]])).toEqual([1]);
    expect(await codes([[0, 0]], "absent")).toEqual([3]);
  });

  test("an older leader epoch is right, one that never was is refused", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 1);
    cluster.append(topic, 0, batchOf(["a"]));
    await using client = await p.kafka();
    const code = async (currentLeaderEpoch: number) => {
      const partitions = [{ partition: 0, fetchOffset: 0, currentLeaderEpoch, partitionMaxBytes: MiB }];
      return partsOf(await client.call(apis.Fetch, 11, { maxWaitMs: 500, minBytes: 1, topics: [{ topic: "t", partitions }] }))[0]
        ?.errorCode;
    };
    expect([await code(-1), await code(0), await code(1), await code(2)]).toEqual([0, 0, 0, 75]);
  });

  test("a failure that may pass is a code that clients ask again after; epochs are looked up once each, some at a time", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("t", 100);
    await using client = await p.kafka();
    await warm(client, "t", 0);
    let running = 0;
    let most = 0;
    const keys: string[] = [];
    const get = jest.spyOn(cluster.store, "get").mockImplementation(async (key) => {
      keys.push(key);
      running += 1;
      most = Math.max(most, running);
      await systemClock.sleep(2);
      running -= 1;
      throw new SluiceError("METADATA_UNAVAILABLE", "away");
    });
    const codes = async (name: string, numbers: readonly number[]): Promise<number[]> => {
      const partitions = numbers.map((partition) => ({ partition, fetchOffset: 0, currentLeaderEpoch: 9, partitionMaxBytes: MiB }));
      const answer = await client.call(apis.Fetch, 11, { maxWaitMs: 500, minBytes: 1, topics: [{ topic: name, partitions }] });
      return partsOf(answer).map(({ errorCode }) => errorCode);
    };
    try {
      const numbers = Array.from({ length: 100 }, (_, i) => i);
      expect(await codes("t", [...numbers, 7, 7])).toEqual(Array.from({ length: 102 }, () => 9));
      const states = keys.filter((key) => numbers.some((n) => key === cluster.keys.state({ topicId: topic.topicId, partition: n })));
      expect([states.length, most]).toEqual([100, 16]);
      expect(await codes("unknown", [0])).toEqual([9]);
    } finally {
      get.mockRestore();
    }
  });

  test("the cluster's own topics are not read, by name or by id", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const topic = await cluster.topic("__sluice_groups", 1);
    cluster.append(topic, 0, batchOf(["a"]));
    await using client = await p.kafka();
    const partitions = [{ partition: 0, fetchOffset: 0, partitionMaxBytes: MiB }];
    const wait = { maxWaitMs: 500, minBytes: 1 };
    const byName = await client.call(apis.Fetch, 12, { ...wait, topics: [{ topic: topic.name, partitions }] });
    const byId = await client.call(apis.Fetch, 13, { ...wait, topics: [{ topicId: topic.topicId, partitions }] });
    expect([byName, byId].flatMap(partsOf).map(({ errorCode, records }) => [errorCode, records?.length])).toEqual([
      [29, 0],
      [29, 0],
    ]);
  });

  test("a topic that is deleted under a waiting fetch is told", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    await using client = await p.kafka();
    await warm(client, "t", 0);
    const waiting = client.call(apis.Fetch, 11, ask("t", [[0, 0]], { maxWaitMs: 10_000 }));
    await eventually(async () => (await p.metrics.value("sluice_proxy_tail_waiting_count")) === 1, "a parked fetch");
    await using admin = await p.kafka();
    await admin.call(apis.DeleteTopics, 5, { topicNames: ["t"], timeoutMs: 1_000 });
    expect(partsOf(await waiting)[0]?.errorCode).toBe(3);
  });

  test("a long poll ends when the proxy drains", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("t", 1);
    await using client = await p.kafka();
    await warm(client, "t", 0);
    const waiting = client.call(apis.Fetch, 11, ask("t", [[0, 0]], { maxWaitMs: 20_000 }));
    await eventually(async () => (await p.metrics.value("sluice_proxy_tail_waiting_count")) === 1, "a parked fetch");
    await p.proxy.drain();
    expect(partsOf(await waiting)[0]?.errorCode).toBe(0);
    await client.closed;
  });
});
