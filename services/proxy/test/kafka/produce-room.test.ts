import { beforeEach, describe, expect, test } from "@jest/globals";
import { crc32c, nativeCodecs } from "@sluice/codec";
import { errorNumber, scaleTimers, topicId, type TopicRecord } from "@sluice/core/model";
import type { ProduceRequest, ProduceResponse } from "@sluice/kafka-wire";
import type { ProduceCall, ProduceOutcome } from "@sluice/partition-client";
import { anonymous } from "@sluice/rpc";
import { createMetrics, type Metrics } from "@sluice/runtime";
import { ManualClock } from "@sluice/runtime/testing";
import { BatchEncoder } from "../../src/batch-encoder.ts";
import type { KafkaCall } from "../../src/kafka/api.ts";
import type { KafkaContext } from "../../src/kafka/context.ts";
import { produce } from "../../src/kafka/handlers/produce.ts";
import { createProxyMetrics } from "../../src/metrics.ts";
import { ProducePath } from "../../src/produce-path.ts";
import { batchOf } from "../support/proxy.ts";

const HELD_MAX = 1_000;
const stored: ProduceOutcome = { code: 0, baseOffset: 0, lastOffset: 0, appendTimeMs: -1, logStart: 0, throttleMs: 0 };

/** Counts what it holds, refuses what is over, and ends a call when the test says so, or at once. */
class FakeRouter {
  heldBytes = 0;
  atOnce = false;
  readonly taken: ProduceCall[] = [];
  refused = 0;
  produce(call: ProduceCall): void {
    if (this.heldBytes > 0 && this.heldBytes + call.batch.length > HELD_MAX) {
      this.refused += 1;
      return call.done({ ...stored, code: errorNumber("OVERLOADED"), throttleMs: 50 });
    }
    this.taken.push(call);
    this.heldBytes += call.batch.length;
    if (this.atOnce) this.end(call);
  }
  end(call: ProduceCall): void {
    this.heldBytes -= call.batch.length;
    call.done(stored);
  }
}

describe("a produce while the proxy is full", () => {
  const zero = (): number => 0;
  const batch = batchOf(["x"]);
  const topic: TopicRecord = {
    tenant: "default",
    name: "t",
    topicId: topicId("0f8fad5b-d9cb-469f-a165-70867728950e"),
    partitions: 3,
    config: {},
    phase: "ACTIVE",
    createdAtMs: 0,
  };
  let clock: ManualClock;
  let router: FakeRouter;
  let metrics: Metrics;
  let path: ProducePath;
  let checks: number;
  let gone: AbortController;
  let held: Promise<unknown>[];

  beforeEach(() => {
    clock = new ManualClock();
    router = new FakeRouter();
    metrics = createMetrics({ service: "proxy" });
    checks = 0;
    gone = new AbortController();
    held = [];
    const counted = (...args: Parameters<typeof crc32c>): number => {
      checks += 1;
      return crc32c(...args);
    };
    const live = {
      heldBytes: zero,
      waitingBytes: () => path.waitingBytes,
      tailBytes: zero,
      tailPartitions: zero,
      tailWaiting: zero,
      blockBytes: zero,
    };
    const encoder = new BatchEncoder({ crc32c: counted, codecs: nativeCodecs, clock });
    path = new ProducePath({ clock, router, encoder, metrics: createProxyMetrics(metrics, live), heldBytesMax: HELD_MAX });
  });
  const send = (
    partitions: readonly number[],
    timeoutMs = 5_000,
    topics: object = { known: () => topic },
  ): Promise<ProduceResponse | undefined> => {
    const redirects = { produce: () => undefined };
    const context = { clock, timers: scaleTimers(1), path, topics, redirects } as unknown as KafkaContext;
    const call = {
      version: 9,
      principal: anonymous,
      signal: gone.signal,
      may: () => true,
      startNextAfter: (done: Promise<unknown>) => held.push(done),
    } as unknown as KafkaCall;
    const request = {
      acks: -1,
      transactionalId: null,
      timeoutMs,
      topicData: [{ name: "t", partitionData: partitions.map((index) => ({ index, records: batch })) }],
    } as unknown as ProduceRequest;
    return Promise.resolve(produce(context).handle(request as never, call)) as Promise<ProduceResponse | undefined>;
  };
  const codesOf = (response: ProduceResponse | undefined) =>
    response?.responses.flatMap(({ partitionResponses }) => partitionResponses.map(({ index, errorCode }) => [index, errorCode ?? 0]));
  /** Somebody else's batches take all of the room; the function gives it back. */
  const fill = (): (() => void) => {
    router.heldBytes = HELD_MAX - 1;
    return () => {
      router.heldBytes = 0;
      // A batch of another stream ends through the path, which tells those that wait.
      path.produce(topic, { partition: 0, batch, records: undefined, expectedBaseOffset: -1, fenceToken: -1 }, clock.monotonicMs(), zero);
      const last = router.taken.at(-1);
      if (!router.atOnce && last !== undefined) router.end(last);
    };
  };

  test("every partition is in the answer, when those that waited end at once too", async () => {
    const free = fill();
    router.atOnce = true;
    // Read at once, as a connection encodes it.
    const answer = send([0, 1, 2]).then(codesOf);
    free();
    await clock.advanceAsync(100);
    expect(await answer).toEqual([
      [0, 0],
      [1, 0],
      [2, 0],
    ]);
    expect(held).toHaveLength(1);
  });

  test("the batch is checked once, and a wait is no failure", async () => {
    const free = fill();
    const before = checks;
    const answer = send([0]);
    await clock.advanceAsync(500);
    expect(checks - before).toBe(1);
    expect([router.refused, router.taken.length]).toEqual([0, 0]);
    router.atOnce = true;
    free();
    expect(codesOf(await answer)).toEqual([[0, 0]]);
    expect(await metrics.value("sluice_proxy_produce_failures_total", { code: "OVERLOADED" })).toBe(0);
  });

  test("what waits takes the room in turn: what does not fit waits on", async () => {
    const free = fill();
    const all = Array.from({ length: 20 }, () => send([0]));
    free();
    const fits = Math.floor(HELD_MAX / batch.length);
    // The first of those taken was the one that made the room.
    expect(router.taken.length - 1).toBe(Math.min(20, fits));
    for (let i = 1; i < router.taken.length; i += 1) router.end(router.taken[i] as ProduceCall);
    expect(router.refused).toBe(0);
    for (const answer of all) expect(codesOf(await answer)).toEqual([[0, 0]]);
  });

  test("a full proxy is told when the time is over, a little before the client gives up", async () => {
    fill();
    let answered: ProduceResponse | undefined;
    void send([0, 1], 2_000).then((response) => (answered = response));
    await clock.advanceAsync(1_899);
    expect(answered).toBeUndefined();
    await clock.advanceAsync(2);
    expect(codesOf(answered)).toEqual([
      [0, 7],
      [1, 7],
    ]);
    expect(clock.pendingTimers).toBe(0);
  });

  test("what waits for room or for its topic counts as held, until it is sent", async () => {
    const free = fill();
    router.heldBytes = HELD_MAX / 2;
    const waiting = Array.from({ length: 10 }, () => send([0, 1]));
    const fits = router.taken.length;
    expect(path.waitingBytes).toBe((10 - Math.floor(fits / 2)) * 2 * batch.length);
    expect(path.full).toBe(true);
    let isTold = false;
    path.onRoom(() => (isTold = true));
    router.atOnce = true;
    for (const call of router.taken.slice()) router.end(call);
    free();
    await Promise.all(waiting);
    await clock.advanceAsync(0);
    expect([path.waitingBytes, path.full, isTold]).toEqual([0, false, true]);
    // A topic that has to be looked up.
    const found = Promise.withResolvers<TopicRecord>();
    const looked = send([0], 5_000, { known: () => undefined, find: () => found.promise });
    expect(await metrics.value("sluice_proxy_produce_waiting_bytes")).toBe(batch.length);
    expect(path.waitingBytes).toBe(batch.length);
    found.resolve(topic);
    await looked;
    await clock.advanceAsync(0);
    expect(path.waitingBytes).toBe(0);
  });

  test("nothing is sent for a client that is gone", async () => {
    const free = fill();
    const answer = send([0, 1]);
    gone.abort(new Error("gone"));
    expect(codesOf(await answer)).toEqual([]);
    free();
    expect(router.taken).toHaveLength(1);
  });

  test.each([
    [2_000, 1_900],
    [100, 90],
  ])("of a timeout of %d ms the router gets %d", (timeoutMs, routerMs) => {
    void send([0], timeoutMs);
    expect(router.taken[0]?.deadlineMs).toBe(clock.monotonicMs() + routerMs);
  });
});
