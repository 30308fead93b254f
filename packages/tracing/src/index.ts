export * from "./span-queue.ts";
export * from "./tracer.ts";
