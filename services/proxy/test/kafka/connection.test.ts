import { afterEach, describe, expect, test } from "@jest/globals";
import { apis } from "@sluice/kafka-wire";
import type { ReadPath } from "@sluice/link";
import { createListener, createMetrics, silentLogger, systemClock, type Clock, type Metrics } from "@sluice/runtime";
import { ManualClock } from "@sluice/runtime/testing";
import { defineHandler, type AnyHandler } from "../../src/kafka/api.ts";
import { apiVersions } from "../../src/kafka/handlers/api-versions.ts";
import { kafkaLimits } from "../../src/kafka/limits.ts";
import { KafkaListener } from "../../src/kafka/listener.ts";
import { encodeRequest, KafkaClient } from "../support/kafka-client.ts";
import { eventually } from "../support/proxy.ts";

const MiB = 1024 * 1024;
const ANSWER_BYTES = 4 * MiB;

/** A gate that the test opens and closes. */
class Gate {
  full = false;
  readonly waiting = new Set<() => void>();
  onRoom(fn: () => void): void {
    this.waiting.add(fn);
  }
  offRoom(fn: () => void): void {
    this.waiting.delete(fn);
  }
  open(): void {
    this.full = false;
    const waiting = [...this.waiting];
    this.waiting.clear();
    for (const fn of waiting) fn();
  }
}

describe("a connection at its limits", () => {
  let gate: Gate;
  let listener: KafkaListener;
  let metrics: Metrics;
  let client: KafkaClient;
  /** Produces and metadata requests under way, in order. */
  let held: (() => void)[];

  const start = async (clock: Clock = systemClock, readPath: ReadPath = "auto"): Promise<void> => {
    gate = new Gate();
    held = [];
    metrics = createMetrics({ service: "proxy" });
    const wait = (): Promise<never> => new Promise((resolve) => held.push(() => resolve({} as never)));
    const bytes = Buffer.alloc(ANSWER_BYTES);
    const handlers: readonly AnyHandler[] = [
      apiVersions(() => handlers),
      defineHandler({ api: apis.Produce, toldMin: 0, access: "open", pipelined: true, handle: wait }),
      defineHandler({ api: apis.Metadata, access: "open", handle: wait }),
      defineHandler({ api: apis.Fetch, access: "open", handle: () => ({ responses: [{ partitions: [{ records: [bytes] }] }] }) }),
    ];
    const at = createListener("kafka", { bind: "127.0.0.1:0" });
    const doors = [{ endpoint: "kafka" as const, listener: at, handlers }];
    listener = new KafkaListener({ doors, clock, logger: silentLogger, metrics, gate, readPath, hasOthers: () => false });
    await listener.start();
    client = await KafkaClient.connect(String(listener.advertised.kafka));
  };
  afterEach(async () => {
    await client[Symbol.asyncDispose]();
    await listener.stop();
  });
  const heldBytes = async (): Promise<number> => (await metrics.value("sluice_proxy_kafka_held_bytes")) ?? 0;
  /** The client has taken what it takes, and there is more. */
  const stalled = (): Promise<void> =>
    eventually(async () => {
      const before = await heldBytes();
      await systemClock.sleep(50);
      return before > 0 && (await heldBytes()) === before;
    }, "answers that are not taken");
  const fetch = () => client.call(apis.Fetch, 11, {});

  test.each<ReadPath>(["slab", "data"])(
    "thousands of small requests in one chunk (%s): no more than may be under way are taken, and all are answered",
    async (path) => {
      await start(systemClock, path);
      const first = client.call(apis.Metadata, 9, {});
      await eventually(() => held.length === 1, "the first");
      const firstBytes = await heldBytes();
      const count = 20_000;
      const requests = Array.from({ length: count }, (_, i) => encodeRequest(apis.ApiVersions, 0, 100 + i, {}));
      const [one] = requests as [Uint8Array];
      client.socket.write(Buffer.concat(requests));
      const most = firstBytes + (kafkaLimits.inFlightRequestsMax - 1) * (one.length - 4);
      await eventually(async () => (await heldBytes()) >= most, "the limit");
      await systemClock.sleep(30);
      expect(await heldBytes()).toBe(most);
      held[0]?.();
      await first;
      await eventually(() => client.stray.length === count, "all answers");
      expect(client.stray.every((answer, i) => answer.readInt32BE(0) === 100 + i)).toBe(true);
      expect(await heldBytes()).toBe(0);
    },
  );

  test("while the proxy is full a busy connection is not read; then it goes on", async () => {
    await start();
    const big = { acks: -1, timeoutMs: 1_000, topicData: [{ name: "t", partitionData: [{ index: 0, records: new Uint8Array(MiB) }] }] };
    gate.full = true;
    const all = Array.from({ length: 12 }, () => client.call(apis.Produce, 9, big));
    await eventually(() => held.length === 1 && gate.waiting.size === 1, "the first");
    await systemClock.sleep(50);
    expect(held).toHaveLength(1);
    // What had come in the same chunk as the end of the first is no whole request.
    expect(await heldBytes()).toBeLessThan(1.1 * MiB);
    gate.open();
    await eventually(() => held.length === 12, "all of them");
    for (const finish of held) finish();
    await Promise.all(all);
  });

  test("one request goes at a time while the proxy is full", async () => {
    await start();
    gate.full = true;
    const all = [1, 2, 3].map(() => client.call(apis.Produce, 9, { acks: -1, timeoutMs: 1_000, topicData: [] }));
    for (const i of [1, 2, 3]) {
      await eventually(() => held.length === i, `request ${i}`);
      held[i - 1]?.();
    }
    await Promise.all(all);
  });

  test("a client that does not take its answers is closed in the end, one that takes them slowly is not", async () => {
    const clock = new ManualClock();
    await start(clock);
    client.socket.pause();
    const all = Array.from({ length: 16 }, () => fetch().catch(() => "closed"));
    await stalled();
    clock.advance(kafkaLimits.frameMs);
    client.socket.resume();
    await all[0];
    client.socket.pause();
    await stalled();
    clock.advance(kafkaLimits.frameMs);
    expect(await metrics.value("sluice_proxy_kafka_closed_total", { reason: "slow" })).toBeUndefined();
    // The rest of what was on its way at the lowest rate.
    clock.advance(3 * kafkaLimits.frameMs);
    expect(await metrics.value("sluice_proxy_kafka_closed_total", { reason: "slow" })).toBe(1);
    client.socket.resume();
    expect(await all[15]).toBe("closed");
  });

  test("an answer that is on its way when the proxy drains arrives, however long the client takes within the limit", async () => {
    const clock = new ManualClock();
    await start(clock);
    client.socket.pause();
    const answer = fetch();
    await stalled();
    const drained = listener.drain({ signal: new AbortController().signal, remainingMs: () => 5_000 });
    clock.advance(kafkaLimits.frameMs);
    client.socket.resume();
    expect((await answer).responses[0]?.partitions[0]?.records).toHaveLength(ANSWER_BYTES);
    await client.closed;
    await drained;
  });

  test("a client that does not take its last answer does not hold up the end", async () => {
    const clock = new ManualClock();
    await start(clock);
    client.socket.pause();
    const answer = fetch().catch(() => "closed");
    await stalled();
    const drained = listener.drain({ signal: new AbortController().signal, remainingMs: () => 5_000 });
    clock.advance(kafkaLimits.frameMs + 2_000);
    await drained;
    client.socket.resume();
    expect(await answer).toBe("closed");
  });
});
