export * from "./entry-codec.ts";
export * from "./entry.ts";
export * from "./format.ts";
export * from "./scan.ts";
