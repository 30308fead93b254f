import type { RecordSink, Settlement } from "./out-batch.ts";
import type { RecordMetadata } from "./types.ts";
import type { SluiceError } from "@sluice/core/model";

/** What the client asks of the application's tracer. `openTelemetry(api)` makes one of OpenTelemetry's. */
export interface ClientTracing {
  /** The span of a call that writes; undefined when nothing is being recorded where it is called. */
  send(topic: string, records: number): ClientSpan | undefined;
  /** Records have been given to the application that a trace goes on with: a span below `traceparent`, from `startMs` (since 1970) to now. */
  received(topic: string, partition: number, records: number, traceparent: string, startMs: number): void;
}
export interface ClientSpan {
  /** W3C trace context of the span. */
  readonly traceparent: string;
  /** The records travel in a batch that the servers record under another trace. */
  link(traceparent: string): void;
  /** `error` is a code of the catalogue. */
  end(error?: string): void;
}

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]$/;
/** The context when it says that the trace is being recorded. */
export const sampled = (traceparent: string | undefined): string | undefined =>
  traceparent !== undefined && TRACEPARENT.test(traceparent) ? traceparent : undefined;

/** Ends the span of a call with the last of its records. */
export class TracedSink implements RecordSink {
  readonly #sink: RecordSink;
  readonly #span: ClientSpan;
  #left: number;
  #error: string | undefined;
  constructor(sink: RecordSink, span: ClientSpan, records: number) {
    this.#sink = sink;
    this.#span = span;
    this.#left = records;
  }
  stored(index: number, metadata: RecordMetadata): void {
    this.#one();
    this.#sink.stored(index, metadata);
  }
  failed(index: number, error: SluiceError): void {
    this.#error ??= error.code;
    this.#one();
    this.#sink.failed(index, error);
  }
  #one(): void {
    if (--this.#left === 0) this.#span.end(this.#error);
  }
}
/** Ends the span of a call that writes one batch. */
export class TracedSettlement implements Settlement {
  readonly #settlement: Settlement;
  readonly #span: ClientSpan;
  constructor(settlement: Settlement, span: ClientSpan) {
    this.#settlement = settlement;
    this.#span = span;
  }
  stored(partition: number, baseOffset: number, lastOffset: number, appendTimeMs: number): void {
    this.#span.end();
    this.#settlement.stored(partition, baseOffset, lastOffset, appendTimeMs);
  }
  failed(error: SluiceError): void {
    this.#span.end(error.code);
    this.#settlement.failed(error);
  }
}
