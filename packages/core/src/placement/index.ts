export * from "./liveness.ts";
export * from "./partitions.ts";
export * from "./replicas.ts";
