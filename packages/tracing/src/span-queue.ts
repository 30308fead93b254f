import { ExportResultCode } from "@opentelemetry/core";
import type { Clock, Logger, Timer } from "@sluice/runtime";
import type { ReadableSpan, Span, SpanExporter, SpanProcessor } from "@opentelemetry/sdk-trace";

/** Spans that wait for the collector; more are dropped and counted. About 1 KiB each. */
export const SPANS_QUEUED_MAX = 2_048;
/** Spans of one request to the collector. */
export const SPANS_EXPORTED_MAX = 512;
/** From the end of a span to its request, ms: spans of one trace travel together. */
export const EXPORT_DELAY_MS = 500;
/** How long a stop waits for the collector, ms. */
export const LAST_EXPORT_MS = 2_000;

/** What becomes of spans, counted. */
export interface SpanCounts {
  readonly exported: { inc(by?: number): void };
  /** By the full queue, or because the collector did not take them. */
  readonly dropped: { inc(by?: number): void };
}
export interface SpanQueueOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly exporter: SpanExporter;
  readonly counts?: SpanCounts | undefined;
}

/**
 * Ended spans on their way to the collector: one request at a time, a log line when it goes away and one when it is back.
 *
 *   ended ─► queue (bounded; full: dropped) ─► after 500 ms, or 512 spans ─► exporter ─► gone, told or not
 *
 * A collector that is dead or slow costs the queue and nothing else.
 */
export class SpanQueue implements SpanProcessor {
  readonly #options: SpanQueueOptions;
  #queue: ReadableSpan[] = [];
  #timer: Timer | undefined;
  #exporting: Promise<void> | undefined;
  #down = false;
  #closed = false;

  constructor(options: SpanQueueOptions) {
    this.#options = options;
  }
  get length(): number {
    return this.#queue.length;
  }
  onStart(_span: Span): void {}
  onEnd(span: ReadableSpan): void {
    if (this.#closed || this.#queue.length >= SPANS_QUEUED_MAX) {
      this.#options.counts?.dropped.inc();
      return;
    }
    this.#queue.push(span);
    if (this.#exporting !== undefined) return;
    if (this.#queue.length >= SPANS_EXPORTED_MAX) void this.forceFlush();
    else this.#timer ??= this.#options.clock.setTimer(EXPORT_DELAY_MS, () => void this.forceFlush(), { unref: true });
  }
  /** Resolves when the queue is empty; never rejects. */
  forceFlush(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    return (this.#exporting ??= this.#exportAll().finally(() => {
      this.#exporting = undefined;
    }));
  }
  /** Gives the collector a last chance, for 2 s. */
  async shutdown(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const { clock, exporter, counts } = this.#options;
    const given = new AbortController();
    const late = clock.sleep(LAST_EXPORT_MS, given.signal).catch(() => undefined);
    await Promise.race([this.forceFlush(), late]);
    given.abort();
    counts?.dropped.inc(this.#queue.length);
    this.#queue = [];
    // It may wait for a request that nobody answers.
    void exporter.shutdown().catch(() => undefined);
  }

  async #exportAll(): Promise<void> {
    const { counts, exporter } = this.#options;
    while (this.#queue.length > 0) {
      const spans = this.#queue.splice(0, SPANS_EXPORTED_MAX);
      const problem = await new Promise<unknown>((resolve) => {
        try {
          exporter.export(spans, ({ code, error }) =>
            resolve(code === ExportResultCode.SUCCESS ? undefined : (error ?? new Error("the collector refused"))),
          );
        } catch (error) {
          resolve(error ?? new Error("the exporter failed"));
        }
      });
      (problem === undefined ? counts?.exported : counts?.dropped)?.inc(spans.length);
      this.#tell(problem);
    }
  }
  #tell(problem: unknown): void {
    const { logger } = this.#options;
    if (problem !== undefined && !this.#down) logger.warn("trace collector down: spans are dropped until it is back", { err: problem });
    else if (problem === undefined && this.#down) logger.info("trace collector up", {});
    this.#down = problem !== undefined;
  }
}
