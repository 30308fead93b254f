import { access, constants } from "node:fs/promises";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { typed } from "../command-line.ts";
import { CommandFailure, UsageError } from "../exit.ts";

/** The etcd to run: the given one, or the first of the PATH. */
export async function findEtcd(given: string | undefined, path: string | undefined): Promise<string> {
  if (given !== undefined) {
    const binary = isAbsolute(given) ? given : resolve(given);
    if (await executable(binary)) return binary;
    throw new UsageError(`--etcd ${given}: not a program`);
  }
  for (const folder of [...(path ?? "").split(delimiter), "/usr/local/bin", "/usr/bin"]) {
    if (folder !== "" && (await executable(join(folder, "etcd")))) return join(folder, "etcd");
  }
  throw new CommandFailure(
    "etcd is not on this machine, and a cluster of processes keeps its metadata there.\n" +
      "  Debian and Ubuntu: apt-get install etcd-server; macOS: brew install etcd; or name one with --etcd PATH.\n" +
      `  Without etcd, everything in one process: ${typed("standalone")}`,
  );
}
const executable = (path: string): Promise<boolean> =>
  access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
