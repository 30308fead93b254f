export { clusterUp, openCluster, type ClusterHandle, type ClusterUpOptions, type MemberStatus } from "./cluster/cluster.ts";
export type { ClusterOptions, ClusterSpec } from "./cluster/spec.ts";
export { startStandalone, type Standalone, type StandaloneOptions } from "./standalone/standalone.ts";
