export * from "./decide.ts";
export * from "./record.ts";
export * from "./shards.ts";
export * from "./snapshot.ts";
export * from "./state.ts";
