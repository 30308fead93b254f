export * from "./filesystem/store.ts";
export * from "./keys.ts";
export * from "./limits.ts";
export * from "./memory.ts";
export * from "./port.ts";
