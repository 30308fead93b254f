export { clusterUp, openCluster, type ClusterUpOptions } from "./cluster/cluster.ts";
export type { ClusterHandle, MemberStatus } from "./cluster/handle.ts";
export type { ClusterOptions, ClusterSpec } from "./cluster/spec.ts";
export { startStandalone, type Standalone, type StandaloneOptions } from "./standalone/standalone.ts";
