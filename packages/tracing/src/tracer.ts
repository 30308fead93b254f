import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Span as OtelSpan,
  type Tracer as OtelTracer,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { AlwaysOnSampler, TracerProvider, type SpanExporter } from "@opentelemetry/sdk-trace";
import { isSampled, traceParentBytes, traceParentText } from "@sluice/core/log";
import { spanAttributes, type Clock, type Logger, type Span, type SpanAttributes, type Tracer } from "@sluice/runtime";
import { SpanQueue, type SpanCounts } from "./span-queue.ts";

export interface TracingOptions {
  /** `proxy`, `broker`: shown as `sluice-proxy`. */
  readonly service: string;
  /** Name of this process among its kind. */
  readonly id: string;
  readonly version: string;
  /** OTLP over HTTP, such as `http://collector:4318`; `/v1/traces` is added. */
  readonly endpoint: string;
  /** One request of so many that come without a trace parent begins a trace; 0 = none. */
  readonly sampleOneIn?: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly counts?: SpanCounts | undefined;
  /** Replaces the one that sends to `endpoint`, in tests. */
  readonly exporter?: SpanExporter;
}
export interface Tracing {
  readonly tracer: Tracer;
  /** Sends what waits, for 2 s at most. */
  readonly close: () => Promise<void>;
}

/**
 * Spans by hand, sent in batches. Nothing of OpenTelemetry is made global and nothing is instrumented: who calls `begin` gets a span, and
 * nobody else is touched.
 */
export function createTracing(options: TracingOptions): Tracing {
  const { service, id, version, endpoint, clock, logger, counts } = options;
  const exporter = options.exporter ?? new OTLPTraceExporter({ url: tracesUrl(endpoint), concurrencyLimit: 1 });
  const queue = new SpanQueue({ clock, logger, exporter, counts });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      "service.namespace": "sluice",
      "service.name": `sluice-${service}`,
      "service.instance.id": id,
      "service.version": version,
    }),
    // `begin` has decided before a span is made.
    sampler: new AlwaysOnSampler(),
    spanProcessors: [queue],
  });
  return { tracer: new ServiceTracer(provider.getTracer("sluice", version), options.sampleOneIn ?? 0), close: () => queue.shutdown() };
}
/** As the OpenTelemetry specification makes it of OTEL_EXPORTER_OTLP_ENDPOINT. */
export const tracesUrl = (endpoint: string): string => `${endpoint.replace(/\/+$/, "")}/v1/traces`;

class ServiceTracer implements Tracer {
  readonly #tracer: OtelTracer;
  readonly #sampleOneIn: number;
  #parentless = 0;

  constructor(tracer: OtelTracer, sampleOneIn: number) {
    this.#tracer = tracer;
    this.#sampleOneIn = sampleOneIn;
  }
  beginsHere(): boolean {
    return this.#sampleOneIn > 0 && this.#parentless++ % this.#sampleOneIn === 0;
  }
  begin(name: string, parent: Uint8Array | undefined, attributes: SpanAttributes): Span | undefined {
    if (parent !== undefined && !isSampled(parent)) return undefined;
    const options = { kind: SpanKind.SERVER, attributes: { [spanAttributes.system]: "sluice", ...attributes } };
    return new ServiceSpan(this.#tracer.startSpan(name, options, parent === undefined ? ROOT_CONTEXT : below(parent)));
  }
}
function below(parent: Uint8Array) {
  const [, traceId = "", spanId = ""] = traceParentText(parent).split("-");
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true });
}

class ServiceSpan implements Span {
  readonly context: Uint8Array;
  readonly #span: OtelSpan;
  constructor(span: OtelSpan) {
    const { traceId, spanId } = span.spanContext();
    this.#span = span;
    this.context = traceParentBytes(`00-${traceId}-${spanId}-01`) as Uint8Array;
  }
  end(error?: string): void {
    if (error !== undefined) {
      this.#span.setAttribute("error.type", error);
      this.#span.setStatus({ code: SpanStatusCode.ERROR, message: error });
    }
    this.#span.end();
  }
}
