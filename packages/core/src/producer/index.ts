export * from "./sequence.ts";
export * from "./snapshot.ts";
export * from "./table.ts";
