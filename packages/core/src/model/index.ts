export * from "./cluster.ts";
export * from "./errors.ts";
export * from "./ids.ts";
export * from "./limits.ts";
export * from "./murmur2.ts";
export * from "./names.ts";
export * from "./timers.ts";
export * from "./topic-config.ts";
