import { beforeAll, describe, expect, test } from "@jest/globals";
import { brokerConfig } from "@sluice/broker/config";
import { controllerConfig } from "@sluice/controller/config";
import { coordinatorConfig } from "@sluice/coordinator/config";
import { proxyConfig } from "@sluice/proxy/config";
import { commonConfig, listenerOf, loadConfig, mergeConfig, optionalListenerOf, parseHostPort, type ConfigDef } from "@sluice/runtime";
import { segmentStoreConfig } from "@sluice/segment-store/config";
import { Chart, type Item } from "./support.ts";

const services: readonly (readonly [string, ConfigDef, readonly string[]])[] = [
  ["proxy", proxyConfig, ["grpc", "kafka"]],
  ["broker", brokerConfig, ["link", "rpc"]],
  ["segment-store", segmentStoreConfig, ["link", "rpc"]],
  ["controller", controllerConfig, ["rpc"]],
  ["coordinator", coordinatorConfig, ["rpc"]],
];
const cases = ["minimal", "all-on", "trial"] as const;
const POD_IP = "10.9.8.7";
/** What Kubernetes would fill in. */
const fields: Readonly<Record<string, string>> = {
  "status.podIP": POD_IP,
  "metadata.name": `${"r".repeat(34)}-coordinator-0123456789-abcde`,
  "spec.nodeName": "node-3",
  "metadata.labels['topology.kubernetes.io/zone']": "",
};

let chart: Chart;
const rendered = new Map<string, Item[]>();
beforeAll(async () => {
  chart = await Chart.open();
  for (const name of cases) rendered.set(name, chart.items(chart.render(name)));
}, 600_000);

/** The configuration as the service reads it in its pod. */
function configOf(items: readonly Item[], service: string, def: ConfigDef): Readonly<Record<string, unknown>> {
  const name = (one: Item): boolean => one.metadata.labels["app.kubernetes.io/component"] === service;
  const workload = items.find((one) => (one.kind === "Deployment" || one.kind === "StatefulSet") && name(one))!;
  const [container] = workload.spec.template.spec.containers;
  const env: Record<string, string> = {};
  for (const { name: key, value, valueFrom } of container!.env ?? []) {
    const field = (valueFrom as { fieldRef?: { fieldPath: string } } | undefined)?.fieldRef?.fieldPath;
    env[key] = field === undefined ? (value ?? "").replaceAll("$(POD_IP)", env["POD_IP"] ?? "") : fields[field]!;
  }
  const folders = (container!.volumeMounts ?? []).filter((mount) => mount.readOnly === true).map((mount) => mount.mountPath);
  const readFile = (path: string): string => {
    if (path === env["SLUICE_CONFIG"]) return items.find((one) => one.kind === "ConfigMap" && name(one))!.data!["config.json"]!;
    if (!folders.some((folder) => path.startsWith(`${folder}/`))) throw new Error(`${path} is not mounted`);
    return `contents of ${path}\n`;
  };
  return loadConfig(mergeConfig(commonConfig, def), { env, readFile });
}

describe.each(cases)("values %s", (name) => {
  test.each(services)("the %s starts with what its pod gives it", (service, def, listeners) => {
    const config = configOf(rendered.get(name)!, service, def);
    expect(String(config["id"]).length).toBeLessThanOrEqual(64);
    expect(config["host"]).toBe("node-3");
    for (const listener of [...listeners, "health"]) {
      const { host, port, advertised } = listenerOf(config as never, listener as never);
      expect(host).toBe("0.0.0.0");
      expect(parseHostPort(advertised ?? "")).toEqual({ host: POD_IP, port });
    }
  });
});
test("what is set arrives", () => {
  const items = rendered.get("all-on")!;
  expect(configOf(items, "proxy", proxyConfig)).toMatchObject({
    "log.level": "debug",
    "cache.tailBytes": 32 * 1024 * 1024,
    "produce.heldBytesMax": 268_435_456,
    "drain.timeout": 45_000,
    "tracing.endpoint": "https://collector.example.com:4318/otlp",
    "tracing.sampleOneIn": 1_000,
    "cluster.secret": "contents of /etc/sluice/cluster/secret",
    "objectStore.url": "s3://bucket/prefix?endpoint=https://s3.example.com&region=eu-west-1",
    "objectStore.accessKey": "contents of /etc/sluice/object-store/accessKey",
    "metadata.endpoints": ["etcd-0.example.com:2379", "etcd-1.example.com:2379"],
    zone: "eu-1a",
  });
  for (const [service, def] of [
    ["broker", brokerConfig],
    ["segment-store", segmentStoreConfig],
  ] as const)
    expect(configOf(items, service, def)).toMatchObject({ "tracing.endpoint": "https://collector.example.com:4318/otlp" });
  expect(configOf(items, "controller", controllerConfig)).toMatchObject({ "cluster.shards": 16 });
  expect(configOf(rendered.get("minimal")!, "broker", brokerConfig)["tracing.endpoint"]).toBeUndefined();
  expect(configOf(rendered.get("trial")!, "segment-store", segmentStoreConfig)).toMatchObject({
    "objectStore.url": "s3://sluice?endpoint=http://rel-sluice-trial-s3:7070&region=us-east-1",
    "objectStore.createBucket": true,
    "metadata.endpoints": ["rel-sluice-trial-etcd:2379"],
    zone: "",
  });
});
test("Kafka clients outside are told the address of the pod's node, when there is a way in for them", () => {
  const outside = (name: (typeof cases)[number]) =>
    optionalListenerOf(configOf(rendered.get(name)!, "proxy", proxyConfig) as never, "kafkaOutside" as never, { host: "node-3" });
  expect(outside("all-on")).toMatchObject({ host: "0.0.0.0", port: 9094, advertised: "node-3:31092" });
  expect(outside("minimal")).toBeUndefined();
  const service = (name: (typeof cases)[number]) =>
    rendered.get(name)!.find((one) => one.kind === "Service" && one.metadata.name.endsWith("-kafka-outside"));
  expect(service("all-on")?.spec).toMatchObject({ type: "NodePort", externalTrafficPolicy: "Local", ports: [{ nodePort: 31092 }] });
  expect(service("minimal")).toBeUndefined();
});
test("a closed installation names the key that keeps its services from starting", () => {
  const items = chart.items(chart.render("minimal", ["allowUnauthenticated=false"]));
  const config = configOf(items, "proxy", proxyConfig);
  expect(() => listenerOf(config as never, "grpc" as never)).toThrow(/listener\.grpc\.allowUnauthenticated=true/);
});
