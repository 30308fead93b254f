import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { apis, readResponseHeader, type Api } from "@sluice/kafka-wire";
import { createListener, createMetrics, silentLogger, systemClock, type Metrics } from "@sluice/runtime";
import { defineHandler, type AnyHandler, type KafkaCall } from "../../src/kafka/api.ts";
import { apiVersions } from "../../src/kafka/handlers/api-versions.ts";
import { kafkaLimits } from "../../src/kafka/limits.ts";
import { KafkaListener } from "../../src/kafka/listener.ts";
import { encodeRequest, KafkaClient } from "../support/kafka-client.ts";
import { eventually } from "../support/proxy.ts";

const frame = (...parts: (number | readonly [number, number] | string)[]): Buffer => {
  const body = Buffer.concat(
    parts.map((part) => {
      if (typeof part === "string") return Buffer.from(part, "hex");
      const [value, bytes] = typeof part === "number" ? [part, 2] : part;
      const out = Buffer.alloc(bytes);
      out.writeIntBE(value, 0, bytes);
      return out;
    }),
  );
  const length = Buffer.alloc(4);
  length.writeInt32BE(body.length);
  return Buffer.concat([length, body]);
};
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

/** Handlers that are scripts: a produce waits until it is let go, a metadata request too. */
class Script {
  readonly started: string[] = [];
  readonly calls: KafkaCall[] = [];
  readonly #open = new Map<string, () => void>();
  readonly handlers: readonly AnyHandler[];
  constructor() {
    this.handlers = [apiVersions(() => this.handlers), this.#held(apis.Produce, true), this.#held(apis.Metadata, false)];
  }
  finish(name: string): void {
    this.#open.get(name)?.();
  }
  #held<Request extends object, Response>(api: Api<Request, Response>, pipelined: boolean): AnyHandler {
    return defineHandler({
      api,
      ...(pipelined ? { toldMin: 0 } : {}),
      access: "open",
      pipelined,
      handle: (request: Request, call) => {
        const name = `${api.name} ${this.started.length + 1}`;
        this.started.push(name);
        this.calls.push(call);
        if (name === "Metadata 1") throw new Error("a fault of the handler");
        return new Promise((resolve) =>
          this.#open.set(name, () => resolve("acks" in request && request.acks === 0 ? undefined : ({} as never))),
        );
      },
    });
  }
}

describe("a connection of a Kafka client", () => {
  let script: Script;
  let listener: KafkaListener;
  let metrics: Metrics;
  let client: KafkaClient;
  const gate = { full: false, onRoom: () => undefined, offRoom: () => undefined };
  const produce = { acks: -1, timeoutMs: 1_000, topicData: [] };

  beforeEach(async () => {
    script = new Script();
    metrics = createMetrics({ service: "proxy" });
    const at = createListener("kafka", { bind: "127.0.0.1:0" });
    listener = new KafkaListener({
      doors: [{ endpoint: "kafka", listener: at, handlers: script.handlers }],
      clock: systemClock,
      logger: silentLogger,
      metrics,
      gate,
      hasOthers: () => false,
    });
    await listener.start();
    client = await KafkaClient.connect(String(listener.advertised.kafka));
  });
  afterEach(async () => {
    await client[Symbol.asyncDispose]();
    await listener.stop();
  });
  const startedAll = (count: number) => eventually(() => script.started.length === count, `${count} requests have started`);

  test("what is served is told, with Produce from version 0 on", async () => {
    const told = await client.call(apis.ApiVersions, 3, { clientSoftwareName: "test-client", clientSoftwareVersion: "1.0" });
    expect(told.apiKeys.map(({ apiKey, minVersion, maxVersion }) => [apiKey, minVersion, maxVersion])).toEqual([
      [0, 0, 12],
      [3, 0, 13],
      [18, 0, 4],
    ]);
    const bad = await client.call(apis.ApiVersions, 3, { clientSoftwareName: "-", clientSoftwareVersion: "1" });
    expect(bad.errorCode).toBe(42);
  });

  test("an ApiVersions request of an unknown version is answered in version 0 with error 35 and the versions of itself", async () => {
    // Version 99, whose message nobody can read.
    const bytes = frame(18, 99, [7, 4], "ffffffff00");
    const body = await client.raw(bytes, 7, (answer) => answer);
    expect(hex(body)).toBe("00000007002300000001001200000004");
    // The connection lives on.
    expect((await client.call(apis.ApiVersions, 0, {})).errorCode).toBe(0);
  });

  test("the answer to ApiVersions 3 and later has the plain header", async () => {
    const bytes = encodeRequest(apis.ApiVersions, 4, 1, { clientSoftwareName: "c", clientSoftwareVersion: "1" });
    const body = await client.raw(bytes, 1, (answer) => answer);
    expect(readResponseHeader(body, apis.ApiVersions.key, true).bodyAt).toBe(4);
    expect(apis.ApiVersions.response.decode(4, body, 4).apiKeys).toHaveLength(3);
  });

  test("answers leave in the order of the requests, whatever is ready first", async () => {
    const order: number[] = [];
    const all = [1, 2, 3].map((i) => client.call(apis.Produce, 9, produce).then(() => order.push(i)));
    await startedAll(3);
    script.finish("Produce 3");
    script.finish("Produce 2");
    await systemClock.sleep(20);
    expect(order).toEqual([]);
    script.finish("Produce 1");
    await Promise.all(all);
    expect(order).toEqual([1, 2, 3]);
  });

  test("produces start beside one another; behind a request of another kind they wait for it", async () => {
    const all = [client.call(apis.Produce, 9, produce), client.call(apis.Metadata, 9, {}), client.call(apis.Produce, 9, produce)];
    await startedAll(2);
    await systemClock.sleep(20);
    expect(script.started).toEqual(["Produce 1", "Metadata 2"]);
    script.finish("Metadata 2");
    await startedAll(3);
    script.finish("Produce 3");
    script.finish("Produce 1");
    await Promise.all(all);
  });

  test("what a request keeps back starts after it says so", async () => {
    const all = [client.call(apis.Produce, 9, produce)];
    await startedAll(1);
    const held = Promise.withResolvers<void>();
    script.calls[0]?.startNextAfter(held.promise);
    all.push(client.call(apis.Produce, 9, produce));
    await systemClock.sleep(20);
    expect(script.started).toHaveLength(1);
    held.resolve();
    await startedAll(2);
    script.finish("Produce 1");
    script.finish("Produce 2");
    await Promise.all(all);
  });

  test("a request with acks=0 has no answer, and does not hold up those behind it", async () => {
    client.send(apis.Produce, 9, { ...produce, acks: 0 });
    const second = client.call(apis.Produce, 9, produce);
    await startedAll(2);
    script.finish("Produce 2");
    script.finish("Produce 1");
    await second;
    expect(client.stray).toEqual([]);
    // What went wrong with acks=0 can only be told by closing.
    script.calls[0]?.disconnect("not written");
    await client.closed;
  });

  test("a produce of version 0 to 2 is refused with error 35 for each partition, in its own layout", async () => {
    // acks -1, timeout, topics [ "t", [ partition 3, two bytes of messages ] ]
    const body = (version: number) => frame(0, version, [version, 4], -1, -1, [1_000, 4], [1, 4], "000174", [1, 4], [3, 4], [2, 4], "0102");
    const answer = (version: number): Promise<string> => client.raw(body(version), version, hex);
    const common = "0000000100017400000001000000030023ffffffffffffffff";
    expect(await answer(0)).toBe("00000000" + common);
    expect(await answer(1)).toBe(`00000001${common}00000000`);
    expect(await answer(2)).toBe(`00000002${common}ffffffffffffffff00000000`);
    expect(script.started).toEqual([]);
  });

  test.each([
    ["an API that is not served", frame(1, 4, [1, 4], -1), "unsupported"],
    ["a version that is not served", frame(3, 14, [1, 4], -1), "unsupported"],
    ["a message that is cut off", frame(3, 1, [1, 4], -1, "0000"), "malformed"],
    ["a frame shorter than a header", Buffer.from("0000000300000000", "hex"), "malformed"],
    ["a frame over the limit", Buffer.from("7fffffff0000", "hex"), "too large"],
  ])("%s closes the connection and no other", async (_, bytes, reason) => {
    await using other = await KafkaClient.connect(String(listener.advertised.kafka));
    client.socket.write(bytes);
    await client.closed;
    expect(await metrics.value("sluice_proxy_kafka_closed_total", { reason })).toBe(1);
    expect((await other.call(apis.ApiVersions, 0, {})).errorCode).toBe(0);
  });

  test("a fault of a handler costs its connection alone", async () => {
    await using other = await KafkaClient.connect(String(listener.advertised.kafka));
    await expect(client.call(apis.Metadata, 1, {})).rejects.toThrow("closed");
    expect((await other.call(apis.ApiVersions, 0, {})).errorCode).toBe(0);
  });

  test("a client that sends more than may be in flight is not read until answers leave", async () => {
    const records = new Uint8Array(1024 * 1024);
    const big = { ...produce, topicData: [{ name: "t", partitionData: [{ index: 0, records }] }] };
    const count = 40;
    const all = Array.from({ length: count }, () => client.call(apis.Produce, 9, big));
    const limit = kafkaLimits.inFlightBytesMax / records.length;
    await eventually(() => script.started.length >= limit, "the limit");
    await systemClock.sleep(50);
    // One chunk beyond the limit may have been read already.
    expect(script.started.length).toBeLessThanOrEqual(limit + 1);
    for (let i = 1; i <= count; i += 1) {
      await eventually(() => script.started.length >= i, `request ${i} has started`);
      script.finish(`Produce ${i}`);
    }
    await Promise.all(all);
  });

  test("when the proxy drains, what is under way is answered, then the connection ends", async () => {
    const last = client.call(apis.Produce, 9, produce);
    await startedAll(1);
    const deadline = new AbortController();
    const drained = listener.drain({ signal: deadline.signal, remainingMs: () => 5_000 });
    expect([script.calls[0]?.ending.aborted, script.calls[0]?.signal.aborted]).toEqual([true, false]);
    script.finish("Produce 1");
    await last;
    await client.closed;
    await drained;
    await expect(KafkaClient.connect(String(listener.advertised.kafka))).rejects.toThrow();
  });
});
