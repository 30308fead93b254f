export { run } from "./run.ts";
export type { RunResult, RunSettings } from "./run.ts";
export { mutantNames } from "./world/options.ts";
