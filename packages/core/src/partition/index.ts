export * from "./effect.ts";
export * from "./input.ts";
export { brokenInvariant, brokenPipeline } from "./invariants.ts";
export { createPartition, starvation } from "./machine.ts";
export * from "./state.ts";
export { step } from "./step.ts";
