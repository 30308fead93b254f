export * from "./broker-links.ts";
export * from "./object-reader.ts";
export * from "./produce-router.ts";
export * from "./segment-reader.ts";
export * from "./store-reader.ts";
export * from "./tail-follower.ts";
