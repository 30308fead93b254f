import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface TempDir {
  readonly path: string;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A new empty folder under `parent` (default: the system's temporary folder); removed with everything in it on dispose. */
export async function tempDir(name = "test", parent = tmpdir()): Promise<TempDir> {
  const path = await mkdtemp(join(parent, `sluice-${name}-`));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 }) };
}
