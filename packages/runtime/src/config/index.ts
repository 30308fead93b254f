export * from "./listener.ts";
export * from "./load.ts";
export * from "./reference.ts";
export * from "./spec.ts";
export { formatHostPort, parseHostPort } from "./values.ts";
