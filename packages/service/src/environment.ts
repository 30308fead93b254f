import { createKeys, type Keys } from "@sluice/catalog";
import {
  checkName,
  codeOf,
  instanceId,
  memberId,
  scaleTimers,
  SluiceError,
  type InstanceId,
  type MemberId,
  type ServiceKind,
  type Timers,
} from "@sluice/core/model";
import { openEtcdMetadata, type MetadataStore } from "@sluice/metadata";
import { openObjectStore, type ObjectStore } from "@sluice/object-store";
import type { Clock, ConfigOf, Logger, Metrics, Random, Tracer } from "@sluice/runtime";
import type { SamplingConfig, SharedConfig, TracingConfig } from "./config.ts";

/** Version of the software, told in member records, health endpoints and `--version`. */
export const VERSION = "0.1.0";

/** The components that every service takes. Whoever made them closes them: a service never does. */
export interface ServiceEnvironment {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly timers: Timers;
  readonly store: MetadataStore;
  readonly keys: Keys;
  /** Undefined: segments stay on the storage nodes. */
  readonly objectStore: ObjectStore | undefined;
  /** Shared by the services of the cluster; undefined: links ask for no proof. */
  readonly secret: Uint8Array | undefined;
  readonly version: string;
  /** Absent: no request is recorded, and nothing of OpenTelemetry is loaded. */
  readonly tracer?: Tracer;
}
/** Who a service is. */
export interface ServiceIdentity {
  readonly id: MemberId;
  /** Made anew at each start. */
  readonly instance: InstanceId;
  readonly zone: string;
}

export interface OpenedEnvironment {
  readonly environment: ServiceEnvironment;
  readonly identity: ServiceIdentity;
  /** Closes metadata and object store. */
  close(): Promise<void>;
}

const utf8 = new TextEncoder();

/** An orchestrator that knows no zone of a machine gives an empty one; copies are then kept apart by machine. */
const DEFAULT_ZONE = "default";
export function failureDomain(zone: string, host: string | undefined): string {
  if (zone !== "") return zone;
  // Zones are short; the machine's own name comes first in a long one.
  return host === undefined || host === "" ? DEFAULT_ZONE : host.slice(0, 64);
}

/** A value that only its user can judge is refused like any other: with the name of its key. */
async function naming<T>(key: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (codeOf(cause) !== "INVALID_ARGUMENT" && codeOf(cause) !== "INVALID_NAME") throw cause;
    throw new SluiceError("INVALID_CONFIG", `${key}: ${(cause as SluiceError).message}`, { cause });
  }
}

interface Tracing {
  readonly tracer: Tracer;
  close(): Promise<void>;
}
/** Loads OpenTelemetry when there is somebody to send spans to, and only then. Throws INVALID_CONFIG for what is no URL. */
async function openTracing(
  service: ServiceKind,
  id: string,
  config: Partial<ConfigOf<TracingConfig["spec"] & SamplingConfig["spec"]>>,
  parts: { readonly clock: Clock; readonly logger: Logger; readonly metrics?: Metrics },
): Promise<Tracing | undefined> {
  const endpoint = config["tracing.endpoint"];
  if (endpoint === undefined || endpoint === "") return undefined;
  if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? ""))
    throw new SluiceError("INVALID_CONFIG", `tracing.endpoint: ${JSON.stringify(endpoint)} is no http or https URL`);
  const { clock, logger, metrics } = parts;
  const { createTracing } = await import("@sluice/tracing");
  const name = (what: string): string => `sluice_${metrics?.service}_trace_spans_${what}_total`;
  const counts = metrics && {
    exported: metrics.counter(name("exported"), "Spans that the trace collector has taken."),
    dropped: metrics.counter(name("dropped"), "Spans that found the queue full, or that the collector did not take."),
  };
  return createTracing({ service, id, version: VERSION, endpoint, sampleOneIn: config["tracing.sampleOneIn"] ?? 0, clock, logger, counts });
}

/** Opens what the shared configuration names. Waits for nothing: a metadata store or object store that is away shows at the first call. */
export async function openEnvironment(
  service: ServiceKind,
  config: ConfigOf<SharedConfig["spec"]> & Partial<ConfigOf<TracingConfig["spec"] & SamplingConfig["spec"]>>,
  parts: { readonly clock: Clock; readonly random: Random; readonly logger: Logger; readonly metrics?: Metrics },
): Promise<OpenedEnvironment> {
  const { clock, random } = parts;
  const id = config.id ?? `${service}-${random.uuid().slice(0, 8)}`;
  await naming("id", async () => checkName("member", id));
  const logger = parts.logger.child({ id });
  const tracing = await openTracing(service, id, config, { ...parts, logger });
  const store = openEtcdMetadata({ endpoints: [...config["metadata.endpoints"]], clock, random, logger });
  const accessKey = config["objectStore.accessKey"];
  const secretKey = config["objectStore.secretKey"];
  const url = config["objectStore.url"];
  const objectStore =
    url === undefined
      ? undefined
      : await naming("objectStore.url", () =>
          openObjectStore(url, {
            clock,
            random,
            logger,
            createBucket: config["objectStore.createBucket"],
            ...(accessKey === undefined || secretKey === undefined ? {} : { credentials: { accessKey, secretKey } }),
          }),
        );
  const secret = config["cluster.secret"];
  const timers = scaleTimers(config["timers.scalePercent"] / 100);
  const drainMs = config["drain.timeout"];
  const environment: ServiceEnvironment = {
    clock,
    random,
    logger,
    timers: drainMs === undefined ? timers : { ...timers, shutdownMs: drainMs },
    store,
    keys: createKeys(config["metadata.prefix"]),
    objectStore,
    secret: secret === undefined ? undefined : utf8.encode(secret),
    version: VERSION,
    ...(tracing && { tracer: tracing.tracer }),
  };
  return {
    environment,
    identity: { id: memberId(id), instance: instanceId(random.uuid()), zone: failureDomain(config.zone, config.host) },
    async close() {
      await objectStore?.close();
      await store.close();
      await tracing?.close();
    },
  };
}
