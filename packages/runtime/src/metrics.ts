import { monitorEventLoopDelay } from "node:perf_hooks";
import * as prom from "prom-client";

/** Series of one metric; further label values share the series "_overflow", so that a client cannot fill the memory. */
const SERIES_MAX_DEFAULT = 1_000;
const OVERFLOW = "_overflow";
const NAME = /^sluice_[a-z]+(_[a-z0-9]+)+$/;
const UNITS = ["bytes", "seconds", "total", "ratio", "count", "info", "epoch", "offset", "revision"];

export interface Counter {
  inc(by?: number): void;
}
export interface Gauge {
  set(value: number): void;
  inc(by?: number): void;
  dec(by?: number): void;
}
export interface Histogram {
  observe(value: number): void;
}
/** A metric with labels. `labels` binds values in the order of the names: do it once, keep the child, use it on the hot path. */
export interface Labelled<T> {
  labels(...values: readonly string[]): T;
  /** Forgets a series, when its topic or peer is gone. */
  remove(...values: readonly string[]): void;
}
export interface MetricOptions {
  readonly labels?: readonly string[];
  readonly seriesMax?: number;
}
export interface HistogramOptions extends MetricOptions {
  /** Upper bounds; default 0.5 ms to 10 s. */
  readonly buckets?: readonly number[];
}
const LATENCY_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** The metrics of one service instance: a registry of its own, since five services may share a process. */
export interface Metrics {
  /** The `<service>` part of the names. */
  readonly service: string;
  counter(name: string, help: string): Counter;
  counter(name: string, help: string, options: MetricOptions & { labels: readonly string[] }): Labelled<Counter> & Counter;
  gauge(name: string, help: string, options?: { readonly collect?: () => number }): Gauge;
  gauge(name: string, help: string, options: MetricOptions & { labels: readonly string[] }): Labelled<Gauge> & Gauge;
  histogram(name: string, help: string, options?: { readonly buckets?: readonly number[] }): Histogram;
  histogram(name: string, help: string, options: HistogramOptions & { labels: readonly string[] }): Labelled<Histogram> & Histogram;
  /** The value of a series, for tests and `status`; undefined when it was never touched. */
  value(name: string, labels?: Readonly<Record<string, string>>): Promise<number | undefined>;
  readonly registry: prom.Registry;
}

function checkName(name: string, service: string, kind: "counter" | "other"): void {
  const unit = name.slice(name.lastIndexOf("_") + 1);
  if (!NAME.test(name) || !name.startsWith(`sluice_${service}_`)) throw new Error(`metric ${name}: sluice_${service}_<what>_<unit>`);
  if (!UNITS.includes(unit)) throw new Error(`metric ${name} ends in none of ${UNITS.join(", ")}`);
  if ((kind === "counter") !== (unit === "total")) throw new Error(`metric ${name}: counters, and only they, end in _total`);
}

/** Bounds the children of a metric and hands each out once. */
function bound<T>(
  names: readonly string[],
  seriesMax: number,
  make: (values: string[]) => T,
  drop: (values: string[]) => void,
): Labelled<T> {
  const children = new Map<string, T>();
  return {
    labels(...values) {
      if (values.length !== names.length) throw new Error(`${values.length} label values for ${names.join(", ")}`);
      const key = values.join("\u0000");
      let child = children.get(key);
      if (child !== undefined) return child;
      if (children.size >= seriesMax) {
        const overflow = names.map(() => OVERFLOW);
        const overflowKey = overflow.join("\u0000");
        child = children.get(overflowKey) ?? make(overflow);
        children.set(overflowKey, child);
        return child;
      }
      child = make([...values]);
      children.set(key, child);
      return child;
    },
    remove(...values) {
      if (children.delete(values.join("\u0000"))) drop([...values]);
    },
  };
}

/**
 * @param options.service the `<service>` part of every name: letters only (proxy, broker, store, controller, coordinator, link …)
 * @param options.instance becomes the label `instance` of every series: two embedded services of one kind stay apart
 */
export function createMetrics(options: { readonly service: string; readonly instance?: string }): Metrics {
  const registry = new prom.Registry();
  if (options.instance !== undefined) registry.setDefaultLabels({ instance: options.instance });
  const common = (name: string, help: string, given: MetricOptions, kind: "counter" | "other") => {
    checkName(name, options.service, kind);
    return { name, help, labelNames: [...(given.labels ?? [])], registers: [registry] };
  };
  return {
    service: options.service,
    registry,
    counter(name: string, help: string, given: MetricOptions = {}) {
      const metric = new prom.Counter(common(name, help, given, "counter"));
      const labelled = bound<Counter>(
        given.labels ?? [],
        given.seriesMax ?? SERIES_MAX_DEFAULT,
        (v) => metric.labels(...v),
        (v) => metric.remove(...v),
      );
      return { inc: (by = 1) => metric.inc(by), ...labelled };
    },
    gauge(name: string, help: string, given: MetricOptions & { readonly collect?: () => number } = {}) {
      const collect = given.collect;
      const metric: prom.Gauge = new prom.Gauge({
        ...common(name, help, given, "other"),
        ...(collect === undefined ? {} : { collect: () => metric.set(collect()) }),
      });
      const labelled = bound<Gauge>(
        given.labels ?? [],
        given.seriesMax ?? SERIES_MAX_DEFAULT,
        (v) => metric.labels(...v),
        (v) => metric.remove(...v),
      );
      return { set: (v: number) => metric.set(v), inc: (by = 1) => metric.inc(by), dec: (by = 1) => metric.dec(by), ...labelled };
    },
    histogram(name: string, help: string, given: HistogramOptions = {}) {
      const metric = new prom.Histogram({ ...common(name, help, given, "other"), buckets: [...(given.buckets ?? LATENCY_BUCKETS)] });
      const labelled = bound<Histogram>(
        given.labels ?? [],
        given.seriesMax ?? SERIES_MAX_DEFAULT,
        (v) => metric.labels(...v),
        (v) => metric.remove(...v),
      );
      return { observe: (v: number) => metric.observe(v), ...labelled };
    },
    async value(name, labels = {}) {
      const found = await registry.getSingleMetric(name)?.get();
      const wanted = Object.entries(labels);
      return found?.values.find((v) => wanted.every(([k, x]) => (v.labels as Record<string, unknown>)[k] === x))?.value;
    },
  } as Metrics;
}

export const metricsContentType = prom.Registry.PROMETHEUS_CONTENT_TYPE;

/** Text of several registries as one: HELP and TYPE once a name, series told apart by their `instance`. */
export async function renderMetrics(all: readonly { readonly registry: prom.Registry }[]): Promise<string> {
  const headers = new Map<string, string[]>();
  for (const { registry } of all) {
    for (const { name } of registry.getMetricsAsArray()) {
      const lines = (await registry.getSingleMetricAsString(name)).split("\n");
      const known = headers.get(name);
      if (known === undefined) headers.set(name, lines);
      else known.push(...lines.filter((line) => line !== "" && !line.startsWith("#")));
    }
  }
  return `${[...headers.values()].map((lines) => lines.filter((line) => line !== "").join("\n")).join("\n\n")}\n`;
}

let shared: { readonly registry: prom.Registry } | undefined;
/** CPU, memory, handles, garbage collection and event loop of the process: one registry, however many services ask. */
export function processMetrics(): { readonly registry: prom.Registry } {
  if (shared !== undefined) return shared;
  const registry = new prom.Registry();
  prom.collectDefaultMetrics({ register: registry });
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const gauge: prom.Gauge<"quantile"> = new prom.Gauge({
    name: "sluice_process_event_loop_delay_seconds",
    help: "How late the event loop was since the last scrape.",
    labelNames: ["quantile"],
    registers: [registry],
    collect() {
      for (const [quantile, ns] of [
        ["0.5", delay.percentile(50)],
        ["0.99", delay.percentile(99)],
        ["1", delay.max],
      ] as const) {
        gauge.set({ quantile }, Number.isFinite(ns) && delay.count > 0 ? ns / 1e9 : 0);
      }
      delay.reset();
    },
  });
  shared = { registry };
  return shared;
}
