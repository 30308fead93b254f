import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as otel from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { SimpleSpanProcessor, StackContextManager, TracerProvider } from "@opentelemetry/sdk-trace";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { openTelemetry, type Sluice } from "@sluice/client";
import { freePort, startOtlpCollector, tempDir, type CollectedSpan, type OtlpCollector } from "@sluice/test-support";
import { createTopic, TestCluster, until } from "./support/cluster.ts";
import { moreNodeOptions, withEnvironment } from "./support/environment.ts";

const noteModules = new URL("./support/note-modules.ts", import.meta.url).href;
interface Traced extends AsyncDisposable {
  readonly cluster: TestCluster;
  /** Services that have loaded something of OpenTelemetry, by name. */
  loaded(): Promise<string[]>;
}
/** The services take the endpoint from the environment that they are started in. */
async function startTraced(name: string, endpoint: string | undefined): Promise<Traced> {
  const dir = await tempDir(`modules-${name}`);
  const file = join(dir.path, "modules");
  await writeFile(file, "");
  const variables = {
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint ?? "",
    // What a collector that is away may take of a test's time; ten seconds otherwise.
    OTEL_EXPORTER_OTLP_TIMEOUT: "1500",
    TEST_MODULES_FILE: file,
    NODE_OPTIONS: moreNodeOptions(`--import ${noteModules}`),
  };
  const cluster = await withEnvironment(variables, () => TestCluster.start({ name, brokers: 1, proxies: 1, stores: 3 }));
  return {
    cluster,
    async loaded() {
      const pids = new Set((await readFile(file, "utf8")).split("\n").map((line) => Number(line.split(" ")[0])));
      return Object.keys(cluster.handle.spec.processes)
        .filter((id) => pids.has(cluster.pid(id)))
        .toSorted();
    },
    async [Symbol.asyncDispose]() {
      await cluster[Symbol.asyncDispose]();
      await dir[Symbol.asyncDispose]();
    },
  };
}
const TRACED = ["broker-1", "proxy-1", "store-1", "store-2", "store-3"];

/** An application that has set up OpenTelemetry. */
class Application {
  readonly #provider: TracerProvider;
  readonly #tracer: otel.Tracer;
  constructor(collector: OtlpCollector) {
    otel.context.setGlobalContextManager(new StackContextManager().enable());
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes({ "service.name": "application" }),
      spanProcessors: [new SimpleSpanProcessor({ exporter: new OTLPTraceExporter({ url: `${collector.url}/v1/traces` }) })],
    });
    otel.trace.setGlobalTracerProvider(this.#provider);
    this.#tracer = otel.trace.getTracer("application");
  }
  /** Runs `work` within a span that begins a trace; returns the trace's id. */
  async span(name: string, work: () => Promise<unknown>): Promise<string> {
    const span = this.#tracer.startSpan(name, { root: true });
    try {
      await otel.context.with(otel.trace.setSpan(otel.context.active(), span), work);
    } finally {
      span.end();
    }
    return span.spanContext().traceId;
  }
  async close(): Promise<void> {
    await this.#provider.shutdown();
    otel.context.disable();
    otel.trace.disable();
  }
}

/** A trace as a tree in words, siblings in order: "application: work > ...". */
function tree(spans: readonly CollectedSpan[], parentId = "", depth = 0): string[] {
  return spans
    .filter((span) => span.parentId === parentId)
    .toSorted((a, b) => `${a.service}${a.instance}`.localeCompare(`${b.service}${b.instance}`))
    .flatMap((span) => [`${"  ".repeat(depth)}${span.service}: ${span.name}`, ...tree(spans, span.spanId, depth + 1)]);
}

describe("with a collector", () => {
  let collector: OtlpCollector;
  let traced: Traced;
  let cluster: TestCluster;
  let app: Application;
  let client: Sluice;
  beforeAll(async () => {
    collector = await startOtlpCollector();
    traced = await startTraced("tracing", collector.url);
    cluster = traced.cluster;
    app = new Application(collector);
    client = await cluster.connect({ tracing: openTelemetry(otel) });
    await createTopic(client, "orders", 1);
  }, 120_000);
  afterAll(async () => {
    await client?.close();
    await app?.close();
    await traced?.[Symbol.asyncDispose]();
    await collector?.[Symbol.asyncDispose]();
  }, 60_000);
  const traceOf = (id: string): CollectedSpan[] => collector.spans.filter((span) => span.traceId === id);

  test(
    "one write and its delivery are one trace over all hops",
    () =>
      cluster.run(async () => {
        await using consumer = client.consumer({ topic: "orders", from: "latest" });
        const received = consumer[Symbol.asyncIterator]().next();
        await consumer.ready();
        // Near the end it is pushed what is written; before that it reads what is stored, and nobody knows the trace of that.
        await until(
          "the proxy follows the tail",
          10_000,
          async () => (await cluster.metric("broker-1", "sluice_broker_tail_subscriptions_count")) === 1,
        );
        await using producer = client.producer({ topic: "orders" });
        const id = await app.span("checkout", () => producer.send({ value: "a traced record" }));
        const record = (await received).value;
        expect(record?.valueText()).toBe("a traced record");
        await until("all spans are told", 15_000, () => traceOf(id).length === 9 || tree(traceOf(id)).join("\n"));
        const spans = traceOf(id);
        expect(tree(spans)).toEqual([
          "application: checkout",
          "  application: send orders",
          "    sluice-proxy: produce orders",
          "      sluice-broker: append orders",
          "        sluice-proxy: deliver orders",
          "          application: receive orders",
          "        sluice-segment-store: journal append",
          "        sluice-segment-store: journal append",
          "        sluice-segment-store: journal append",
        ]);
        const stores = spans.filter((span) => span.service === "sluice-segment-store");
        expect(new Set(stores.map((span) => span.instance)).size).toBe(3);
        for (const span of spans) {
          expect(span.endMs).toBeGreaterThanOrEqual(span.startMs);
          expect(span.status).toBe(0);
        }
        const append = spans.find((span) => span.service === "sluice-broker");
        expect(append?.attributes).toMatchObject({
          "messaging.system": "sluice",
          "messaging.destination.name": "orders",
          "messaging.destination.partition.id": "0",
          "messaging.batch.message_count": 1,
        });
        // The record itself carries the span that sent it, for whoever works on it later.
        const header = Buffer.from(record?.header("traceparent") ?? []).toString();
        expect(header).toBe(`00-${id}-${spans.find((span) => span.name === "send orders")?.spanId}-01`);
      }),
    60_000,
  );

  test("it is loaded by the services that records pass through, and by no other", async () =>
    expect(await traced.loaded()).toEqual(TRACED));

  test(
    "traces that share a batch: the first goes on, the others are linked to it",
    () =>
      cluster.run(async () => {
        await using producer = client.producer({ topic: "orders" });
        const sent: Promise<unknown>[] = [];
        const first = await app.span("first", async () => void sent.push(producer.send({ value: "1" })));
        const second = app.span("second", async () => void sent.push(producer.send({ value: "2" })));
        await Promise.all(sent);
        const id = await second;
        await until("the spans are told", 15_000, () => traceOf(first).length === 7 && traceOf(id).length === 2);
        const carried = traceOf(first).find((span) => span.name === "send orders");
        expect(tree(traceOf(id))).toEqual(["application: second", "  application: send orders"]);
        expect(traceOf(id).find((span) => span.name === "send orders")?.links).toEqual([carried?.spanId]);
      }),
    60_000,
  );

  test(
    "what is not sampled, or not in a trace, is not recorded by anybody",
    () =>
      cluster.run(async () => {
        await using producer = client.producer({ topic: "orders" });
        const before = collector.spans.length;
        await producer.send({ value: "without a trace" });
        await producer.send({ value: "not sampled", traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00" });
        // A recorded one behind them, which the services tell later.
        const id = await app.span("last", () => producer.send({ value: "recorded" }));
        await until("the spans are told", 15_000, () => traceOf(id).length === 7);
        expect(collector.spans.slice(before).filter((span) => span.traceId !== id)).toEqual([]);
      }),
    60_000,
  );
});

describe("without a collector that answers", () => {
  test("a dead one costs its spans, a log line and nothing else", async () => {
    const port = await freePort();
    await using traced = await startTraced("tracing-dead", `http://127.0.0.1:${port}`);
    const { cluster } = traced;
    await cluster.run(async () => {
      await using client = await cluster.connect({ traceparent: () => "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" });
      await createTopic(client, "orders", 1);
      await using producer = client.producer({ topic: "orders" });
      for (let i = 0; i < 300; i++) await producer.send({ value: String(i) });
      for (const id of TRACED) {
        const service = id.split("-")[0];
        await until(
          `${id} has given spans up`,
          30_000,
          async () => (await cluster.metric(id, `sluice_${service}_trace_spans_dropped_total`)) > 0,
        );
        const told = (await cluster.log(id)).filter((line) => line.includes("trace collector"));
        expect(told).toHaveLength(1);
        expect(await cluster.metric(id, `sluice_${service}_trace_spans_exported_total`)).toBe(0);
      }
      // Back on its port, it is told what happens from then on.
      await using collector = await startOtlpCollector({ port });
      await until("spans arrive again", 30_000, async () => {
        await producer.send({ value: "again" });
        return new Set(collector.spans.map((span) => span.instance)).size === 5;
      });
    });
  }, 150_000);

  test("no endpoint: nothing of OpenTelemetry is loaded", async () => {
    await using traced = await startTraced("tracing-off", undefined);
    const { cluster } = traced;
    await cluster.run(async () => {
      await using client = await cluster.connect({ traceparent: () => "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" });
      await createTopic(client, "orders", 1);
      await using producer = client.producer({ topic: "orders" });
      await producer.send({ value: "a record" });
      expect(await traced.loaded()).toEqual([]);
    });
  }, 90_000);
});
