export * from "./liveness.ts";
export * from "./move-window.ts";
export * from "./partitions.ts";
export * from "./replicas.ts";
