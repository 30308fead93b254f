export * from "./config.ts";
export * from "./environment.ts";
