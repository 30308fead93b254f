export * from "./clock.ts";
export * from "./logging.ts";
export * from "./random.ts";
