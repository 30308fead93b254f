export * from "./batch-builder.ts";
export * from "./batch-run.ts";
export * from "./batch.ts";
export * from "./chain-hash.ts";
export * from "./checksum.ts";
export * from "./compression.ts";
export * from "./records.ts";
export { SparseIndex } from "./sparse-index.ts";
export * from "./validate.ts";
