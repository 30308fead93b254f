/**
 * The schema of the chart's values, made from the configuration of the services: a key that a service does not know, or that the chart
 * sets itself, is refused by `helm install` with its name. Written to sluice/values.schema.json by tools/docs.ts.
 */
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const root = join(import.meta.dirname, "../..");
const load = (path: string): Promise<Record<string, unknown>> =>
  import(pathToFileURL(join(root, path)).href) as Promise<Record<string, unknown>>;

type Schema = Readonly<Record<string, unknown>>;
type Properties = Readonly<Record<string, Schema>>;

/** Keys that the chart sets: from other values, from the pod, or as the same for all pods. */
const SET_BY_CHART =
  /^(id|zone|host|metadata\..*|cluster\.secret|objectStore\..*|drain\.timeout|data\.folder|tracing\.endpoint|listener\..*|timers\.scalePercent)$/;

const object = (properties: Properties, description?: string): Schema => ({
  type: "object",
  ...(description === undefined ? {} : { description }),
  additionalProperties: false,
  properties,
});
/** What Kubernetes itself checks. */
const free = (description: string): Schema => ({ type: "object", description });
const list = (items: Schema, description?: string): Schema => ({
  type: "array",
  items,
  ...(description === undefined ? {} : { description }),
});
const text: Schema = { type: "string" };
const flag: Schema = { type: "boolean" };
const strings: Schema = { type: "object", additionalProperties: { type: "string" } };
const count = (minimum: number, maximum: number): Schema => ({ type: "integer", minimum, maximum });
/** "latest" says nothing, and is another image tomorrow. */
const tag: Schema = { type: "string", pattern: "^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$", not: { const: "latest" } };
const hostPort: Schema = { type: "string", pattern: "^(\\[[0-9a-fA-F:.]+\\]|[A-Za-z0-9._-]+):[0-9]{1,5}$" };
const quantity: Schema = { type: "string", pattern: "^[0-9]+(\\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$" };
const image = object({ repository: { type: "string", minLength: 1 }, tag });
const storage = object({ size: quantity, storageClass: text });
const spread: Schema = { enum: ["ScheduleAnyway", "DoNotSchedule"] };
const probe = object({
  periodSeconds: count(1, 300),
  timeoutSeconds: count(1, 60),
  failureThreshold: count(1, 10_000),
  initialDelaySeconds: count(0, 3_600),
});

function component(config: Properties, replicasMin: number, more: Properties = {}): Schema {
  return object({
    replicas: count(replicasMin, 1_000),
    image,
    resources: free("Requests and limits of the container."),
    config: object(config, "Keys of the service's configuration."),
    drain: object({ timeoutSeconds: count(1, 3_600), preStopSeconds: count(1, 300) }),
    probes: object({ startup: probe, readiness: probe, liveness: probe }),
    podDisruptionBudget: object({ enabled: flag, maxUnavailable: count(1, 1_000) }),
    topologySpread: object({ enabled: flag, nodes: spread, zones: spread }),
    serviceAccount: object({ create: flag, name: text, annotations: strings }),
    service: object({ annotations: strings }),
    podAnnotations: strings,
    podLabels: strings,
    nodeSelector: strings,
    tolerations: list(free("A toleration.")),
    affinity: free("Affinity of the pods."),
    priorityClassName: text,
    extraEnv: list(free("An environment variable of the container.")),
    ...more,
  });
}

async function configOf(service: string): Promise<Properties> {
  const { configJsonSchema } = (await load("packages/runtime/src/config/reference.ts")) as {
    configJsonSchema: (def: unknown, title: string) => { readonly properties: Properties };
  };
  const { commonConfig } = await load("packages/runtime/src/run-service.ts");
  const module = await load(`services/${service}/src/config.ts`);
  const def = Object.values(module).find((value) => typeof value === "object" && value !== null && "spec" in value);
  const all = { ...configJsonSchema(commonConfig, "").properties, ...configJsonSchema(def, "").properties };
  return Object.fromEntries(Object.entries(all).filter(([key]) => !SET_BY_CHART.test(key)));
}

/** The text of values.schema.json. */
export async function valuesSchema(): Promise<string> {
  const trial = { enabled: flag, resources: free("Requests and limits of the container."), storage, nodeSelector: strings };
  const trialImage = object({ repository: { type: "string", minLength: 1 }, tag });
  const schema = {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Values of the chart sluice",
    ...object({
      global: free("Of a chart that has this one as a part; not read here."),
      nameOverride: text,
      fullnameOverride: text,
      commonLabels: strings,
      image: object({
        registry: { type: "string", pattern: "^([^/].*[^/])?$" },
        tag,
        pullPolicy: { enum: ["IfNotPresent", "Always", "Never"] },
        pullSecrets: list(text),
      }),
      allowUnauthenticated: flag,
      metadata: object({ endpoints: { ...list(hostPort), maxItems: 16 }, prefix: { type: "string", minLength: 1, maxLength: 200 } }),
      objectStore: object({
        url: { type: "string", pattern: "^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?(\\?.*)?)?$" },
        createBucket: flag,
        existingSecret: text,
      }),
      clusterSecret: object({ existingSecret: text }),
      tracing: object({ endpoint: { type: "string", pattern: "^(https?://[^/ ]+(/.*)?)?$" } }),
      zone: { type: "string", maxLength: 64 },
      proxy: component(await configOf("proxy"), 1, {
        kafkaOutside: object({
          advertised: { type: "string", pattern: "^(.+:[0-9]{1,5})?$", maxLength: 300 },
          service: object({
            type: { enum: ["NodePort", "LoadBalancer", "ClusterIP"] },
            nodePort: count(0, 65_535),
            annotations: strings,
          }),
        }),
      }),
      broker: component(await configOf("broker"), 1),
      segmentStore: component(await configOf("segment-store"), 2, { storage }),
      controller: component(await configOf("controller"), 1),
      coordinator: component(await configOf("coordinator"), 0),
      tests: object({ enabled: flag, image }),
      trial: object({
        etcd: object({ ...trial, image: trialImage }),
        s3: object({
          ...trial,
          image: trialImage,
          command: list(text),
          bucket: { type: "string", pattern: "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$" },
          accessKey: { type: "string", minLength: 1 },
          secretKey: { type: "string", minLength: 1 },
        }),
      }),
    }),
  };
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}
