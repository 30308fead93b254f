import type { ClientSpan, ClientTracing } from "./tracing.ts";

/** The part of `@opentelemetry/api` (1.x) that is used: the application hands in its own, the client depends on none. */
export interface OpenTelemetryApi {
  readonly trace: {
    getTracer(name: string): OtelTracer;
    getSpan(context: OtelContext): { spanContext(): OtelSpanContext } | undefined;
    setSpanContext(context: OtelContext, spanContext: OtelSpanContext): OtelContext;
  };
  readonly context: { active(): OtelContext };
  readonly ROOT_CONTEXT: OtelContext;
}
/** Methods take what any version of the API calls a context. */
interface OtelContext {
  getValue(key: symbol): unknown;
  setValue(key: symbol, value: unknown): OtelContext;
  deleteValue(key: symbol): OtelContext;
}
interface OtelSpanContext {
  traceId: string;
  spanId: string;
  traceFlags: number;
  isRemote?: boolean;
}
interface OtelSpan {
  spanContext(): OtelSpanContext;
  setAttribute(key: string, value: string): unknown;
  setStatus(status: { code: number; message?: string }): unknown;
  addLink(link: { context: OtelSpanContext }): unknown;
  end(): void;
}
interface OtelTracer {
  startSpan(
    name: string,
    options: { kind: number; attributes: Record<string, string | number>; startTime?: number; links?: { context: OtelSpanContext }[] },
    context: OtelContext,
  ): OtelSpan;
}
/** Numbers of OpenTelemetry's SpanKind and SpanStatusCode. */
const CLIENT = 2;
const PRODUCER = 3;
const ERROR = 2;
const SAMPLED = 1;

/**
 * Spans of the client as part of the application's traces:
 *
 *   import * as otel from "@opentelemetry/api";
 *   const sluice = await connect({ endpoints, tracing: openTelemetry(otel) });
 *
 * Calls that write get a span when one is active and sampled where they are made. Records that come with a trace get one below it, or, when a
 * span is active where they are taken, below that and linked to theirs.
 */
export function openTelemetry(api: OpenTelemetryApi): ClientTracing {
  const tracer = api.trace.getTracer("sluice-client");
  const activeSpan = (): OtelSpanContext | undefined => {
    const span = api.trace.getSpan(api.context.active())?.spanContext();
    return span !== undefined && (span.traceFlags & SAMPLED) !== 0 ? span : undefined;
  };
  return {
    send(topic, records) {
      if (activeSpan() === undefined) return undefined;
      const attributes = { ...messaging("send", topic), "messaging.batch.message_count": records };
      return new Span(tracer.startSpan(`send ${topic}`, { kind: PRODUCER, attributes }, api.context.active()));
    },
    received(topic, partition, records, traceparent, startTime) {
      const sent = parse(traceparent);
      const attributes = {
        ...messaging("receive", topic),
        "messaging.destination.partition.id": String(partition),
        "messaging.batch.message_count": records,
      };
      const name = `receive ${topic}`;
      if (activeSpan() === undefined)
        tracer.startSpan(name, { kind: CLIENT, attributes, startTime }, api.trace.setSpanContext(api.ROOT_CONTEXT, sent)).end();
      else tracer.startSpan(name, { kind: CLIENT, attributes, startTime, links: [{ context: sent }] }, api.context.active()).end();
    },
  };
}

const messaging = (operation: string, topic: string) => ({
  "messaging.system": "sluice",
  "messaging.operation.name": operation,
  "messaging.destination.name": topic,
});
function parse(traceparent: string): OtelSpanContext {
  const [, traceId = "", spanId = ""] = traceparent.split("-");
  return { traceId, spanId, traceFlags: SAMPLED, isRemote: true };
}

class Span implements ClientSpan {
  readonly traceparent: string;
  readonly #span: OtelSpan;
  constructor(span: OtelSpan) {
    const { traceId, spanId, traceFlags } = span.spanContext();
    this.#span = span;
    this.traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
  }
  link(traceparent: string): void {
    this.#span.addLink({ context: parse(traceparent) });
  }
  end(error?: string): void {
    if (error !== undefined) {
      this.#span.setAttribute("error.type", error);
      this.#span.setStatus({ code: ERROR, message: error });
    }
    this.#span.end();
  }
}
