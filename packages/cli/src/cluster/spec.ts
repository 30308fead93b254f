import type { ProcessRef } from "./pid.ts";

/** Kinds in the order in which a cluster is built up; it is taken down the other way round. */
export const clusterKinds = ["etcd", "controller", "store", "broker", "coordinator", "proxy"] as const;
export type ClusterKind = (typeof clusterKinds)[number];

/** What `cluster up` was asked for. Kept in cluster.json, because a second `up` of the folder must mean the same cluster. */
export interface ClusterOptions {
  readonly proxies: number;
  readonly brokers: number;
  readonly stores: number;
  readonly controllers: number;
  readonly coordinators: number;
  readonly zones: number;
  /** A folder (absolute) or an s3 URL. */
  readonly objectStore: string;
  /** First of a row of ports; undefined: any free ports. */
  readonly portBase: number | undefined;
  /** Configuration keys for all services that know them. */
  readonly config: Readonly<Record<string, string>>;
}
export const defaultCounts = { proxies: 2, brokers: 2, stores: 4, controllers: 1, coordinators: 1, zones: 3 } as const;
/** Processes of one kind on one machine: more is a slip of the finger. */
export const KIND_PROCESSES_MAX = 32;
export const ZONES_MAX = 26;

interface Entry {
  readonly id: string;
  readonly pid: number;
}
interface ServiceEntry extends Entry {
  readonly zone: string;
  readonly metrics: string;
}
export interface ProxyEntry extends ServiceEntry {
  readonly grpc: string;
  readonly kafka: string;
  /** null: this version does not serve it. */
  readonly http: string | null;
}
/** Brokers and storage nodes have a data link, the others only control calls. */
export interface NodeEntry extends ServiceEntry {
  readonly link: string;
  readonly rpc: string;
}
export interface ControlEntry extends ServiceEntry {
  readonly rpc: string;
}
export interface EtcdEntry extends Entry {
  readonly client: string;
}
/** What a restart of a process needs, and how to know it again. */
export interface ProcessRecord extends ProcessRef {
  readonly command: string;
  readonly argv: readonly string[];
  readonly log: string;
}

/** The content of DIR/cluster.json. `options` and `processes` are ours; the rest is what other tools read. */
export interface ClusterSpec {
  readonly proxies: readonly ProxyEntry[];
  readonly brokers: readonly NodeEntry[];
  readonly stores: readonly NodeEntry[];
  readonly controllers: readonly ControlEntry[];
  readonly coordinators: readonly ControlEntry[];
  readonly etcd: readonly EtcdEntry[];
  readonly options: ClusterOptions;
  readonly processes: Readonly<Record<string, ProcessRecord>>;
}

/** A process before it runs. */
export interface ProcessPlan {
  readonly kind: ClusterKind;
  readonly id: string;
  readonly zone: string;
  /** Listener names (grpc, link, rpc, metrics, client) to addresses. */
  readonly addresses: Readonly<Record<string, string>>;
  readonly command: string;
  readonly argv: readonly string[];
  readonly log: string;
}

/** The spec of plans and the processes that run, or last ran, for them. */
export function specOf(options: ClusterOptions, plans: readonly ProcessPlan[], refs: ReadonlyMap<string, ProcessRef>): ClusterSpec {
  const of = <T>(kind: ClusterKind, entry: (plan: ProcessPlan, base: Entry & { zone: string }) => T): T[] =>
    plans
      .filter((plan) => plan.kind === kind)
      .map((plan) => entry(plan, { id: plan.id, pid: refs.get(plan.id)?.pid ?? 0, zone: plan.zone }));
  const address = (plan: ProcessPlan, name: string): string => plan.addresses[name] ?? "";
  const node = (plan: ProcessPlan, base: Entry & { zone: string }): NodeEntry => ({
    ...base,
    link: address(plan, "link"),
    rpc: address(plan, "rpc"),
    metrics: address(plan, "metrics"),
  });
  const control = (plan: ProcessPlan, base: Entry & { zone: string }): ControlEntry => ({
    ...base,
    rpc: address(plan, "rpc"),
    metrics: address(plan, "metrics"),
  });
  return {
    proxies: of("proxy", (plan, base) => ({
      ...base,
      grpc: address(plan, "grpc"),
      kafka: address(plan, "kafka"),
      http: null,
      metrics: address(plan, "metrics"),
    })),
    brokers: of("broker", node),
    stores: of("store", node),
    controllers: of("controller", control),
    coordinators: of("coordinator", control),
    etcd: of("etcd", (plan, { id, pid }) => ({ id, pid, client: address(plan, "client") })),
    options,
    processes: Object.fromEntries(
      plans.map(({ id, command, argv, log }) => [
        id,
        { pid: refs.get(id)?.pid ?? 0, start: refs.get(id)?.start ?? "", command, argv, log },
      ]),
    ),
  };
}

export interface Member {
  readonly kind: ClusterKind;
  readonly entry: Entry & {
    readonly zone?: string;
    readonly metrics?: string;
    readonly client?: string;
    readonly grpc?: string;
    readonly rpc?: string;
  };
}
/** All processes in the order of `clusterKinds`. */
export const membersOf = (spec: ClusterSpec): Member[] => [
  ...spec.etcd.map((entry) => ({ kind: "etcd", entry }) as const),
  ...spec.controllers.map((entry) => ({ kind: "controller", entry }) as const),
  ...spec.stores.map((entry) => ({ kind: "store", entry }) as const),
  ...spec.brokers.map((entry) => ({ kind: "broker", entry }) as const),
  ...spec.coordinators.map((entry) => ({ kind: "coordinator", entry }) as const),
  ...spec.proxies.map((entry) => ({ kind: "proxy", entry }) as const),
];

/** The same spec with another process behind one id. */
export function withProcess(spec: ClusterSpec, id: string, ref: ProcessRef): ClusterSpec {
  const swap = <T extends Entry>(entries: readonly T[]): T[] =>
    entries.map((entry) => (entry.id === id ? { ...entry, pid: ref.pid } : entry));
  const record = spec.processes[id];
  return {
    ...spec,
    proxies: swap(spec.proxies),
    brokers: swap(spec.brokers),
    stores: swap(spec.stores),
    controllers: swap(spec.controllers),
    coordinators: swap(spec.coordinators),
    etcd: swap(spec.etcd),
    processes: record === undefined ? spec.processes : { ...spec.processes, [id]: { ...record, ...ref } },
  };
}
