import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Large buffers live outside V8's heap but are counted in it, and only a collection frees them. V8 answers tens of MB of new ones with a full
 * mark of the whole heap: at hundreds of MB/s of slabs that is several marks a second, more CPU than everything else together (measured:
 * 509 ms of CPU per GB of 1 MiB slabs, 50 with this). Slabs die young, so a collection of the young generation alone, a fraction of a
 * millisecond, frees them before V8 counts that far.
 *
 *   slab slab slab ... 16 MiB ─► minor collection ─► slab slab ...
 */
const MINOR_EVERY_BYTES = 16 * 1024 * 1024;

type Collect = (options: { readonly type: "minor"; readonly execution: "sync" }) => void;

/** The collector of the running V8, without a command line flag; undefined where that does not work, and then nothing happens. */
function findCollector(): Collect | undefined {
  try {
    setFlagsFromString("--expose-gc");
    const gc: unknown = runInNewContext("gc");
    // Contexts that others make later are as they would have been.
    setFlagsFromString("--no-expose-gc");
    return typeof gc === "function" ? (gc as Collect) : undefined;
  } catch {
    return undefined;
  }
}

let collect: Collect | undefined;
let looked = false;
let bytesSince = 0;

/** Whoever allocates buffers at the rate of the data path tells it here. */
export function noteBufferAllocated(bytes: number): void {
  bytesSince += bytes;
  if (bytesSince < MINOR_EVERY_BYTES) return;
  bytesSince = 0;
  if (!looked) {
    looked = true;
    collect = findCollector();
  }
  collect?.({ type: "minor", execution: "sync" });
}
/** Memory of its own, as the last user left it, at the rate of the data path. */
export function allocateBuffer(bytes: number): Buffer<ArrayBuffer> {
  noteBufferAllocated(bytes);
  return Buffer.allocUnsafeSlow(bytes);
}
