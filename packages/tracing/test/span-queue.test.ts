import { describe, expect, test } from "@jest/globals";
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace";
import { ManualClock, RecordingLogger } from "@sluice/runtime/testing";
import { EXPORT_DELAY_MS, LAST_EXPORT_MS, SpanQueue, SPANS_EXPORTED_MAX, SPANS_QUEUED_MAX } from "../src/index.ts";

/** A collector that takes, refuses or ignores requests by the test's word. */
function setup() {
  const clock = new ManualClock();
  const logger = new RecordingLogger();
  const requests: { readonly spans: number; answer(problem?: Error): Promise<void> }[] = [];
  const exporter: SpanExporter = {
    export: (spans, done) =>
      void requests.push({
        spans: spans.length,
        async answer(problem) {
          done((problem === undefined ? { code: 0 } : { code: 1, error: problem }) as never);
          await clock.advanceAsync(0);
        },
      }),
    shutdown: () => new Promise(() => undefined),
  };
  const counts = { exported: counter(), dropped: counter() };
  const queue = new SpanQueue({ clock, logger, exporter, counts });
  const end = (count: number): void => {
    for (let i = 0; i < count; i++) queue.onEnd({} as ReadableSpan);
  };
  return { clock, logger, requests, counts, queue, end };
}
const counter = () => ({
  value: 0,
  inc(by = 1) {
    this.value += by;
  },
});

describe("span queue", () => {
  test("spans that end together travel together, a little later", async () => {
    const { clock, requests, counts, queue, end } = setup();
    end(3);
    await clock.advanceAsync(EXPORT_DELAY_MS - 1);
    expect(requests).toEqual([]);
    await clock.advanceAsync(1);
    expect(requests.map((r) => r.spans)).toEqual([3]);
    await requests[0]?.answer();
    expect([counts.exported.value, counts.dropped.value, queue.length]).toEqual([3, 0, 0]);
  });
  test("one request at a time, of at most so many spans", async () => {
    const { clock, requests, end } = setup();
    end(SPANS_EXPORTED_MAX + 10);
    await clock.advanceAsync(0);
    expect(requests.map((r) => r.spans)).toEqual([SPANS_EXPORTED_MAX]);
    await requests[0]?.answer();
    expect(requests.map((r) => r.spans)).toEqual([SPANS_EXPORTED_MAX, 10]);
  });
  test("a collector that does not answer: the queue is full, and what is more is dropped and counted", async () => {
    const { clock, requests, counts, queue, end } = setup();
    end(SPANS_EXPORTED_MAX);
    await clock.advanceAsync(0);
    end(SPANS_QUEUED_MAX + 5);
    await clock.advanceAsync(60_000);
    expect([requests.length, queue.length, counts.dropped.value]).toEqual([1, SPANS_QUEUED_MAX, 5]);
  });
  test("away and back are one line each", async () => {
    const { clock, logger, requests, counts, end } = setup();
    for (const problem of [new Error("refused"), new Error("refused"), undefined, undefined]) {
      end(1);
      await clock.advanceAsync(EXPORT_DELAY_MS);
      await requests.at(-1)?.answer(problem);
    }
    expect(logger.events()).toEqual(["trace collector down: spans are dropped until it is back", "trace collector up"]);
    expect([counts.exported.value, counts.dropped.value]).toEqual([2, 2]);
  });
  test("the end waits for the collector, and not for ever", async () => {
    const { clock, requests, counts, queue, end } = setup();
    end(2);
    let over = false;
    const shutdown = queue.shutdown().then(() => (over = true));
    await clock.advanceAsync(LAST_EXPORT_MS - 1);
    expect([requests.length, over]).toEqual([1, false]);
    await clock.advanceAsync(1);
    await shutdown;
    end(1);
    expect(counts.dropped.value).toBe(1);
    expect(clock.pendingTimers).toBe(0);
  });
});
