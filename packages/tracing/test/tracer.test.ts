import { describe, expect, test } from "@jest/globals";
import { InMemorySpanExporter } from "@opentelemetry/sdk-trace";
import { traceParentBytes, traceParentText } from "@sluice/core/log";
import { silentLogger } from "@sluice/runtime";
import { ManualClock } from "@sluice/runtime/testing";
import { createTracing, tracesUrl } from "../src/index.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";
const parent = (flags: string): Uint8Array => traceParentBytes(`00-${TRACE}-${PARENT}-${flags}`) as Uint8Array;

function setup(sampleOneIn = 0) {
  const exporter = new InMemorySpanExporter();
  // The exporter forgets at its end, which the queue does not wait for.
  const exported: ReturnType<InMemorySpanExporter["getFinishedSpans"]> = [];
  const keep = { export: exporter.export.bind(exporter), shutdown: async () => void exported.push(...exporter.getFinishedSpans()) };
  const options = {
    service: "broker",
    id: "b-1",
    version: "1",
    endpoint: "http://127.0.0.1:1",
    clock: new ManualClock(),
    logger: silentLogger,
  };
  return { ...createTracing({ ...options, sampleOneIn, exporter: keep }), exported };
}

describe("tracer", () => {
  test("a span below its parent, which the next hop goes on with", async () => {
    const { tracer, close, exported } = setup();
    const span = tracer.begin("append orders", parent("01"), { "sluice.bytes": 7 });
    const [version, traceId, spanId, flags] = traceParentText(span?.context as Uint8Array).split("-");
    span?.end("OVERLOADED");
    await close();
    expect([version, traceId, flags]).toEqual(["00", TRACE, "01"]);
    expect(exported).toHaveLength(1);
    expect(exported[0]).toMatchObject({
      name: "append orders",
      parentSpanContext: { traceId: TRACE, spanId: PARENT },
      attributes: { "messaging.system": "sluice", "sluice.bytes": 7, "error.type": "OVERLOADED" },
      status: { code: 2 },
      resource: { attributes: { "service.name": "sluice-broker", "service.instance.id": "b-1" } },
    });
    expect(exported[0]?.spanContext()).toMatchObject({ traceId: TRACE, spanId });
  });
  test("nothing below a parent that is not recorded", () => {
    const { tracer } = setup();
    expect(tracer.begin("x", parent("00"), {})).toBeUndefined();
    expect(tracer.begin("x", new Uint8Array(3), {})).toBeUndefined();
  });
  test("begins a trace with one in so many", async () => {
    expect(
      Array.from(
        { length: 7 },
        function (this: ReturnType<typeof setup>) {
          return this.tracer.beginsHere();
        },
        setup(3),
      ),
    ).toEqual([true, false, false, true, false, false, true]);
    const { tracer, close, exported } = setup(1);
    tracer.begin("produce", undefined, {})?.end();
    await close();
    expect(exported[0]?.parentSpanContext).toBeUndefined();
    expect(setup().tracer.beginsHere()).toBe(false);
  });
  test("the path is added to the endpoint, as the specification has it", () => {
    expect(tracesUrl("http://collector:4318")).toBe("http://collector:4318/v1/traces");
    expect(tracesUrl("https://collector/otlp/")).toBe("https://collector/otlp/v1/traces");
  });
});
