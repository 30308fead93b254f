import { describe, expect, test } from "@jest/globals";
import { openTelemetry, type ClientSpan, type ClientTracing, type OpenTelemetryApi } from "../src/index.ts";
import * as otel from "@opentelemetry/api";
import { failure, until, world } from "./support.ts";

const context = (n: number, flags = "01"): string => `00-0af7651916cd43dd8448eb211c80319c-${String(n).padStart(16, "0")}-${flags}`;

/** A tracer that notes what it is asked; spans are numbered from 1. */
class Noted implements ClientTracing {
  readonly lines: string[] = [];
  active = true;
  #count = 0;
  send(topic: string, records: number): ClientSpan | undefined {
    if (!this.active) return undefined;
    const n = ++this.#count;
    const note = (line: string): void => void this.lines.push(`${n} ${line}`);
    note(`send ${topic} ${records}`);
    return { traceparent: context(n), link: (to) => note(`linked to ${to}`), end: (error) => note(error ?? "ended") };
  }
  received(topic: string, partition: number, records: number, traceparent: string): void {
    this.lines.push(`received ${topic}/${partition} ${records} ${traceparent}`);
  }
}

describe("spans of calls that write", () => {
  test("one a call; the first of a batch goes to the servers, the others are linked to it", async () => {
    const tracing = new Noted();
    await using w = await world({ connect: { tracing } });
    await using producer = w.sluice.producer({ topic: "t" });
    const one = producer.send({ value: "a" });
    const two = producer.sendMany([{ value: "b" }, { value: "c" }]);
    await Promise.all([one, two]);
    expect(w.cluster.arrivals.map((a) => a.request.traceparent)).toEqual([context(1)]);
    expect(tracing.lines).toEqual([
      "1 send t 1",
      "2 send t 2",
      `2 linked to ${context(1)}`,
      `2 linked to ${context(1)}`,
      "1 ended",
      "2 ended",
    ]);
  });
  test("records carry the span that sent them; batches have one too", async () => {
    const tracing = new Noted();
    await using w = await world({ connect: { tracing } });
    await using producer = w.sluice.producer({ topic: "t" });
    await producer.sendBatch({ partition: 0, records: [{ value: "a" }, { value: "b", traceparent: context(77) }] });
    await using consumer = w.sluice.consumer({ topic: "t", from: "earliest", untilEnd: true });
    const headers: string[] = [];
    for await (const record of consumer) headers.push(Buffer.from(record.header("traceparent") ?? []).toString());
    expect(headers).toEqual([context(1), context(77)]);
    expect(w.cluster.arrivals.map((a) => a.request.traceparent)).toEqual([context(1)]);
    expect(tracing.lines).toEqual(["1 send t 2", "1 ended"]);
  });
  test("a failure ends them with its code", async () => {
    const tracing = new Noted();
    await using w = await world({ connect: { tracing } });
    await using producer = w.sluice.producer({ topic: "t" });
    expect(await failure(producer.send({ value: "a", partition: 9 }))).toBe("UNKNOWN_PARTITION");
    expect(await failure(producer.sendBatch({ partition: 9, records: [{ value: "a" }] }))).toBe("UNKNOWN_PARTITION");
    expect(tracing.lines.filter((line) => line.endsWith("UNKNOWN_PARTITION"))).toHaveLength(2);
  });
  test("nothing active, nothing recorded; a context alone goes on when it is sampled", async () => {
    const tracing = new Noted();
    tracing.active = false;
    let caller: string | undefined;
    await using w = await world({ connect: { tracing, traceparent: () => caller } });
    await using producer = w.sluice.producer({ topic: "t" });
    for (caller of [undefined, context(5, "00"), context(6), "no context"]) await producer.send({ value: "x" });
    expect(w.cluster.arrivals.map((a) => a.request.traceparent)).toEqual(["", "", context(6), ""]);
    expect(tracing.lines).toEqual([]);
  });
});

describe("spans of records that are received", () => {
  test("what comes with a trace is told once, when it is given", async () => {
    const tracing = new Noted();
    await using w = await world({ connect: { tracing } });
    await using producer = w.sluice.producer({ topic: "t" });
    tracing.active = false;
    await producer.sendMany([{ value: "a" }, { value: "b" }]);
    w.cluster.deliveryTrace = context(9);
    await using consumer = w.sluice.consumer({ topic: "t", from: "earliest", untilEnd: true });
    for await (const record of consumer) expect(record.valueText()).toMatch(/[ab]/);
    expect(tracing.lines).toEqual([`received t/0 2 ${context(9)}`]);
  });
});

describe("OpenTelemetry's API", () => {
  test("fits, and without a provider records nothing", async () => {
    const api: OpenTelemetryApi = otel;
    await using w = await world({ connect: { tracing: openTelemetry(api) } });
    await using producer = w.sluice.producer({ topic: "t" });
    await producer.send({ value: "a" });
    await until(() => w.cluster.arrivals.length === 1);
    expect(w.cluster.arrivals[0]?.request.traceparent).toBe("");
  });
});
