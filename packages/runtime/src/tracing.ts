/**
 * Tracing, as a component that a process may have or not. Services ask for spans of requests that are being recorded, and pay one look at
 * `undefined` for all others. A trace parent is the W3C header in binary (core/log: `traceParentBytes`), 26 bytes that nobody here looks into.
 */
export interface Span {
  /** Trace parent for whoever goes on with the request. */
  readonly context: Uint8Array;
  /** Ends the span, once; `error` is a code of the catalogue. Times are the clock's at `begin` and here. */
  end(error?: string): void;
}
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;
export interface Tracer {
  /** Whether a trace begins with this request, which has no trace parent. Asked once a request. */
  beginsHere(): boolean;
  /** A span of this process below `parent`, or one that begins a trace. Undefined: the parent is not being recorded. */
  begin(name: string, parent: Uint8Array | undefined, attributes: SpanAttributes): Span | undefined;
}
/** Attribute names that several services use, as OpenTelemetry's conventions for messaging have them, and our own. */
export const spanAttributes = {
  system: "messaging.system",
  operation: "messaging.operation.name",
  destination: "messaging.destination.name",
  partition: "messaging.destination.partition.id",
  records: "messaging.batch.message_count",
  bytes: "sluice.bytes",
  firstOffset: "sluice.first_offset",
  segment: "sluice.segment",
  epoch: "sluice.epoch",
} as const;
