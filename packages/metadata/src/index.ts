export * from "./port.ts";
export * from "./embedded/index.ts";
