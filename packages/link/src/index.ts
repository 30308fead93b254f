export * from "./frame.ts";
export * from "./link.ts";
export * from "./messages/index.ts";
