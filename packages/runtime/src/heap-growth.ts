import { setFlagsFromString } from "node:v8";

/** The heap may grow to this many percent above what a full collection left, before V8 begins the next. */
const GROWING_PERCENT = 300;

/**
 * A server that has been idle for ten seconds is collected by V8's memory reducer, and from then on V8 lets its heap grow by a third at most between two full collections.
 * When that is less than the young generation, V8 begins the next collection as soon as one has ended, for as long as there is load:
 *
 *   load ──► idle 8 s ──► full collection, limit 34 MB x 1.3 ──► load: mark, mark, mark, ... five a second, half of all CPU
 *
 * The fixed percentage is what V8 itself gives a heap that was never idle. Memory of an idle process still goes back to the system.
 * Takes effect with the next full collection, so it can be set while the process runs.
 */
export function letHeapGrow(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
}
