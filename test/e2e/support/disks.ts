import { spawnSync } from "node:child_process";
import { mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";

/** Whether a file system can be made for a test. */
export const canMount = process.platform === "linux" && process.getuid?.() === 0;

function run(command: string, ...argv: string[]): void {
  const done = spawnSync(command, argv, { encoding: "utf8" });
  if (done.status !== 0) throw new Error(`${command} ${argv.join(" ")}: ${done.error?.message ?? ""} ${done.stderr}`);
}
export const storeFolder = (dir: string, n: number): string => join(dir, "data", `store-${n}`);

/** Mounts a tmpfs for each storage node of a cluster that is about to be made in `dir`. */
export async function mountDisks(dir: string, stores: number, bytes: number, cleanUp: AsyncDisposableStack): Promise<void> {
  // A folder with secrets is a cluster's that was half made: taken over with what it has.
  await mkdir(join(dir, "secrets"), { mode: 0o700 });
  for (let n = 1; n <= stores; n++) {
    const path = storeFolder(dir, n);
    await mkdir(path, { recursive: true });
    run("mount", "-t", "tmpfs", "-o", `size=${bytes}`, "tmpfs", path);
    // Lazily: the last thread of a process that was killed may hold a file for a moment after its first one is gone.
    cleanUp.defer(() => run("umount", "--lazy", path));
  }
}

const BALLAST = "ballast";
const CHUNK = new Uint8Array(64 * 1024);
/** Writes until there is no room. */
export async function fillDisk(path: string): Promise<void> {
  const file = await open(join(path, BALLAST), "w");
  try {
    for (;;) await file.write(CHUNK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  } finally {
    await file.close();
  }
}
export const emptyDisk = (path: string): Promise<void> => rm(join(path, BALLAST), { force: true });
