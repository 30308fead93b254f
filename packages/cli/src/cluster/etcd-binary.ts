import { execFile } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { typed } from "../command-line.ts";
import { CommandFailure, UsageError } from "../exit.ts";

const VERSION_TIMEOUT_MS = 5_000;
const VERSION_BYTES_MAX = 65_536;
const SHOWN_CHARS_MAX = 200;

/** The etcd to run: the given one, or the first of the PATH. It was asked for its version: what is no etcd is found before a folder is made. */
export async function findEtcd(given: string | undefined, path: string | undefined): Promise<string> {
  if (given !== undefined) {
    const binary = etcdPath(given);
    if (!(await isProgram(binary))) throw new UsageError(`--etcd ${given}: not a program`);
    const other = await notEtcd(binary);
    if (other !== undefined) throw new UsageError(`--etcd ${given} is no etcd: asked for --version, ${other}`);
    return binary;
  }
  for (const folder of [...(path ?? "").split(delimiter), "/usr/local/bin", "/usr/bin"]) {
    const binary = join(folder, "etcd");
    if (folder === "" || !(await isProgram(binary))) continue;
    const other = await notEtcd(binary);
    if (other !== undefined)
      throw new CommandFailure(`${binary}, the etcd of the PATH, is none: asked for --version, ${other}\n  Name another with --etcd PATH`);
    return binary;
  }
  throw new CommandFailure(
    "etcd is not on this machine, and a cluster of processes keeps its metadata there.\n" +
      "  Debian and Ubuntu: apt-get install etcd-server; macOS: brew install etcd; or name one with --etcd PATH.\n" +
      `  Without etcd, everything in one process: ${typed("standalone")}`,
  );
}
export const etcdPath = (given: string): string => (isAbsolute(given) ? given : resolve(given));
export const isProgram = (path: string): Promise<boolean> =>
  access(path, constants.X_OK).then(
    () => true,
    () => false,
  );

/** What it did instead of telling etcd's version. */
async function notEtcd(binary: string): Promise<string | undefined> {
  const options = { timeout: VERSION_TIMEOUT_MS, killSignal: "SIGKILL", maxBuffer: VERSION_BYTES_MAX } as const;
  const { error, printed } = await new Promise<{ error: Error | null; printed: string }>((done) => {
    execFile(binary, ["--version"], options, (failed, stdout, stderr) => done({ error: failed, printed: `${stdout}${stderr}`.trim() }));
  });
  if (error === null && /^etcd version/im.test(printed)) return undefined;
  const said = printed === "" ? "it printed nothing" : `it printed ${JSON.stringify(printed.split("\n", 1)[0]!.slice(0, SHOWN_CHARS_MAX))}`;
  const { code, killed, message } = (error ?? { message: "" }) as { code?: unknown; killed?: boolean; message: string };
  if (error === null) return said;
  if (killed === true) return `${said} and did not end within ${VERSION_TIMEOUT_MS / 1_000} s`;
  return typeof code === "number" ? `${said} and ended with ${code}` : message;
}
