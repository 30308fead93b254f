export * from "./manual-clock.ts";
export * from "./recording-logger.ts";
export * from "./seeded-random.ts";
