import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { commonConfig, loadConfig, mergeConfig, type ConfigDef } from "@sluice/runtime";
import { UsageError } from "../exit.ts";
import type { ClusterKind, ClusterOptions, ProcessPlan } from "./spec.ts";

/** Loaded when a cluster is laid out, not when the command line starts. */
const loadConfigs = async (): Promise<Record<Exclude<ClusterKind, "etcd">, ConfigDef>> => {
  const [controller, store, broker, coordinator, proxy] = await Promise.all([
    import("@sluice/controller/config"),
    import("@sluice/segment-store/config"),
    import("@sluice/broker/config"),
    import("@sluice/coordinator/config"),
    import("@sluice/proxy/config"),
  ]);
  return {
    controller: controller.controllerConfig,
    store: store.segmentStoreConfig,
    broker: broker.brokerConfig,
    coordinator: coordinator.coordinatorConfig,
    proxy: proxy.proxyConfig,
  };
};
const FOLDERS: Readonly<Record<Exclude<ClusterKind, "etcd">, string>> = {
  controller: "controller",
  store: "segment-store",
  broker: "broker",
  coordinator: "coordinator",
  proxy: "proxy",
};
const mainOf = (kind: Exclude<ClusterKind, "etcd">): string =>
  fileURLToPath(new URL(`../../../../services/${FOLDERS[kind]}/src/main.ts`, import.meta.url));

/** Ports of one process by listener name. A proxy's four lie as in the standalone, whether they are served yet or not. */
interface Slots {
  readonly kind: ClusterKind;
  readonly id: string;
  readonly zone: string;
  readonly names: readonly string[];
}
const PROXY_PORTS = ["grpc", "kafka", "http", "metrics"];
const ETCD_PORTS = ["client", "peer"];
/** Set by the layout itself, one value a process. */
const OWN_KEYS = new Set(["id", "zone", "data.folder", "metadata.endpoints", "objectStore.url"]);

/** Those that are always open, in the order of the configuration, health last. */
const listenersOf = (def: ConfigDef): string[] => {
  const isOpen = (key: string): boolean => def.spec[key]?.default !== undefined;
  const names = Object.keys(def.spec).flatMap((key) => (isOpen(key) && /^listener\.([A-Za-z0-9]+)\.bind$/.exec(key)?.[1]) || []);
  return [...names.filter((name) => name !== "health"), ...names.filter((name) => name === "health")];
};
const addressName = (listener: string): string => (listener === "health" ? "metrics" : listener);

export interface LayoutInput {
  readonly dir: string;
  readonly options: ClusterOptions;
  readonly etcdBinary: string;
  readonly secretFiles: Readonly<Record<string, string>>;
}
export interface Layout {
  readonly portCount: number;
  /** Ports in the order in which they are used: proxies first, so that `--port-base` is the first proxy's gRPC port. */
  plan(ports: readonly number[]): ProcessPlan[];
}

/** Lays out the processes: names, zones, listeners and flags. Throws UsageError for a configuration key that no service knows, INVALID_CONFIG for a value that does not fit. */
export async function layOut(input: LayoutInput): Promise<Layout> {
  const { dir, options, etcdBinary } = input;
  const configs = await loadConfigs();
  checkConfig(options.config, Object.values(configs));
  const counts: Readonly<Record<Exclude<ClusterKind, "etcd">, number>> = {
    proxy: options.proxies,
    broker: options.brokers,
    store: options.stores,
    controller: options.controllers,
    coordinator: options.coordinators,
  };
  const slots: Slots[] = [];
  let offset = 0;
  for (const kind of ["proxy", "broker", "store", "controller", "coordinator"] as const) {
    const names = kind === "proxy" ? PROXY_PORTS : listenersOf(configs[kind]).map(addressName);
    for (let i = 0; i < counts[kind]; i++)
      slots.push({ kind, id: `${kind}-${i + 1}`, zone: String.fromCodePoint(97 + ((i + offset) % options.zones)), names });
    // The next kind begins in the next zone: one zone alone must not hold the first of everything.
    offset++;
  }
  slots.push({ kind: "etcd", id: "etcd-1", zone: "", names: ETCD_PORTS });
  return {
    portCount: slots.reduce((sum, slot) => sum + slot.names.length, 0),
    plan(ports) {
      let next = 0;
      const addressed = slots.map((slot) => ({
        slot,
        addresses: Object.fromEntries(slot.names.map((name) => [name, `127.0.0.1:${ports[next++]}`])),
      }));
      const etcd = addressed.filter(({ slot }) => slot.kind === "etcd").map(({ addresses }) => addresses["client"]!);
      const serviceFlags = (service: ServiceArguments): string[] => {
        const flags = serviceArgv(input, configs[service.kind], service);
        // As the service will do: a value that does not fit is found before anything runs.
        loadConfig(mergeConfig(commonConfig, configs[service.kind]), { argv: flags });
        return ["--disable-warning=ExperimentalWarning", mainOf(service.kind), ...flags];
      };
      return addressed.map(({ slot: { kind, id, zone }, addresses }) => ({
        kind,
        id,
        zone,
        addresses,
        log: join(dir, "logs", `${id}.log`),
        ...(kind === "etcd"
          ? { command: etcdBinary, argv: etcdArgv(join(dir, "data", id), id, addresses) }
          : { command: process.execPath, argv: serviceFlags({ kind, id, zone, addresses, etcd }) }),
      }));
    },
  };
}

function checkConfig(config: Readonly<Record<string, string>>, defs: readonly ConfigDef[]): void {
  for (const key of Object.keys(config)) {
    if (OWN_KEYS.has(key) || key.startsWith("listener.")) throw new UsageError(`--config ${key} is set by cluster up itself`);
    if (!defs.some((def) => Object.hasOwn(def.spec, key)) && key !== "log.level")
      throw new UsageError(`--config ${key}: no service has this key`);
  }
}

interface ServiceArguments {
  readonly kind: Exclude<ClusterKind, "etcd">;
  readonly id: string;
  readonly zone: string;
  readonly addresses: Readonly<Record<string, string>>;
  readonly etcd: readonly string[];
}
function serviceArgv({ dir, options, secretFiles }: LayoutInput, def: ConfigDef, service: ServiceArguments): string[] {
  const { id, zone, addresses, etcd } = service;
  const flags: Record<string, string> = { id, zone, "metadata.endpoints": etcd.join(",") };
  if (options.objectStore !== "none") flags["objectStore.url"] = options.objectStore;
  if (options.objectStore.startsWith("s3:")) flags["objectStore.createBucket"] = "true";
  for (const listener of listenersOf(def)) flags[`listener.${listener}.bind`] = addresses[addressName(listener)]!;
  if ("data.folder" in def.spec) flags["data.folder"] = join(dir, "data", id);
  for (const [key, value] of Object.entries(options.config)) if (key in def.spec || key === "log.level") flags[key] = value;
  for (const [key, path] of Object.entries(secretFiles)) flags[key] = `file:${path}`;
  return Object.entries(flags).map(([key, value]) => `--${key}=${value}`);
}

/** Short election times: a single member elects itself in a fraction of the default second. */
function etcdArgv(dataDir: string, id: string, addresses: Readonly<Record<string, string>>): string[] {
  const client = `http://${addresses["client"]}`;
  const peer = `http://${addresses["peer"]}`;
  return [
    `--name=${id}`,
    `--data-dir=${dataDir}`,
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=${id}=${peer}`,
    "--heartbeat-interval=20",
    "--election-timeout=200",
    "--logger=zap",
    "--log-level=warn",
  ];
}
