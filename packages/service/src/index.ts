export * from "./config.ts";
export * from "./environment.ts";
export * from "./shell.ts";
