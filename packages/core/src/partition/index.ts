export * from "./effect.ts";
export * from "./input.ts";
export * from "./state.ts";
