import type { ServiceKind } from "@sluice/core/model";
import { defineConfig, listenerKeys } from "@sluice/runtime";

/** Port of the health and metrics endpoint of every service. */
const HEALTH_PORT = 9600;

/** The keys that every service has. */
export const sharedConfig = (service: ServiceKind) =>
  defineConfig({
    id: { type: "string", max: 64, doc: `Name of this ${service}, unique among its kind; a new random one at each start unless given.` },
    zone: {
      type: "string",
      default: "default",
      max: 64,
      doc: "Failure domain of this process; copies are spread over zones. Empty: the machine, when `host` names it.",
    },
    host: { type: "string", max: 253, doc: "Machine that this process runs on: its failure domain when the zone is empty." },
    "drain.timeout": {
      type: "duration",
      min: 100,
      max: 3_600_000,
      doc: "How long a stop may take to hand over and to finish what is open; 10s unless given.",
    },
    "metadata.endpoints": { type: "list", default: ["127.0.0.1:2379"], min: 1, max: 16, doc: "etcd endpoints, host:port each." },
    "metadata.prefix": { type: "string", default: "sluice", max: 200, doc: "Prefix of all keys: several clusters can share an etcd." },
    "cluster.secret": {
      type: "string",
      secret: true,
      doc: "Secret that the services of the cluster share: they prove to each other on the data link that they know it.",
    },
    "objectStore.url": {
      type: "string",
      doc: "Where the history goes: a folder, or s3://bucket/prefix?endpoint=http://host:port. Without it, segments stay on the storage nodes.",
    },
    "objectStore.accessKey": { type: "string", secret: true, doc: "Access key of the S3 store." },
    "objectStore.secretKey": { type: "string", secret: true, doc: "Secret key of the S3 store." },
    "objectStore.createBucket": { type: "bool", default: false, doc: "Make the bucket when it is not there." },
    "timers.scalePercent": {
      type: "int",
      default: 100,
      min: 1,
      max: 1000,
      doc: "All timers of the protocol, in percent of their defaults. Tests make them shorter; all services of a cluster must agree.",
    },
    ...listenerKeys("health", `127.0.0.1:${HEALTH_PORT}`, "Health and metrics endpoint"),
  });
export type SharedConfig = ReturnType<typeof sharedConfig>;

/** The keys of the services that records pass through. */
export const tracingConfig = defineConfig({
  "tracing.endpoint": {
    type: "string",
    sharedEnvironment: "OTEL_EXPORTER_OTLP_ENDPOINT",
    doc: "OpenTelemetry collector that is sent the spans of traced requests: OTLP over HTTP, such as http://collector:4318. Without it, nothing is recorded.",
  },
});
export type TracingConfig = typeof tracingConfig;
/** Of the services that requests come in by. */
export const samplingConfig = defineConfig({
  "tracing.sampleOneIn": {
    type: "int",
    default: 0,
    max: 1_000_000_000,
    doc: "One write of so many that come without a trace context begins a trace here; 0 = none. Writes with one are traced when it says so.",
  },
});
export type SamplingConfig = typeof samplingConfig;
