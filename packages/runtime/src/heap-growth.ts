import { setFlagsFromString } from "node:v8";

/** The heap may grow to this many percent above what a full collection left, before V8 begins the next. */
const GROWING_PERCENT = 300;

/**
 * After some ten seconds without load V8 keeps the limit of the heap close to what is in it. When the room that is left is less than the young
 * generation takes, V8 begins the next full collection as soon as one has ended, for as long as there is load:
 *
 *   load ──► idle 14 s ──► load: 34 MB in the heap, limit 50 MB: mark, mark, mark, ... four a second, half of all CPU
 *
 * Seen with `--trace-gc --trace-incremental-marking`, most with V8's memory reducer (which collects an idle heap), and without it too. With a fixed
 * growth the limit was 146 MB. Memory of an idle process still goes back to the system. Takes effect with the next full collection, so it can be
 * set while the process runs.
 */
export function letHeapGrow(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
}
