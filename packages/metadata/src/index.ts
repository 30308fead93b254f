export * from "./port.ts";
export * from "./embedded/index.ts";
export * from "./etcd/index.ts";
export * from "./faulty.ts";
