/**
 * Loaded into every process of a test cluster (`--import`): Node.js writes compiled code to its cache when a process ends by itself, and here
 * most are killed. So it is written while they live, once what a start needs has been compiled. Where all of it is there already this does nothing.
 */
import { flushCompileCache } from "node:module";

const COMPILED_AFTER_MS = 3_000;

setTimeout(flushCompileCache, COMPILED_AFTER_MS).unref();
