export * from "./batch-run.ts";
export * from "./batch.ts";
export * from "./checksum.ts";
export * from "./compression.ts";
export * from "./validate.ts";
