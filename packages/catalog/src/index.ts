export * from "./keys.ts";
export * from "./object-keys.ts";
export * from "./membership.ts";
export * from "./unwritable.ts";
export * from "./values.ts";
export * from "./view.ts";
