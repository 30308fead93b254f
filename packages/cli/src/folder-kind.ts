import { mkdir, readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { typed } from "./command-line.ts";
import { CommandFailure, exitCodes } from "./exit.ts";

/** What a data folder holds. */
export type FolderKind = "standalone" | "cluster";

/** Names at the top of a folder of each kind, the one that proves the kind, and the command that goes on with it. */
interface Layout {
  readonly marker: string;
  readonly names: readonly string[];
  readonly what: string;
  readonly command: (dir: string) => string;
}
const LAYOUTS: Readonly<Record<FolderKind, Layout>> = {
  standalone: {
    marker: "metadata.sqlite",
    names: [
      "metadata.sqlite",
      "metadata.sqlite-wal",
      "metadata.sqlite-shm",
      "metadata.sqlite-journal",
      "stores",
      "objects",
      "standalone.json",
    ],
    what: "the data of a standalone",
    command: (dir) => typed("standalone", "--data", dir),
  },
  cluster: {
    marker: "cluster.json",
    names: ["cluster.json", "cluster.json.next", "logs", "data", "secrets", "lock"],
    what: "a cluster of processes",
    command: (dir) => typed("cluster", "up", "--dir", dir),
  },
};
/** Made by file systems and desktops, not by people. */
const IGNORED = new Set(["lost+found", ".DS_Store"]);
const PROCESS_LOG = /^(etcd|controller|store|broker|coordinator|proxy)-\d+\.log$/;

/**
 * Throws, before anything is written, unless `dir` is not there, empty, or of the kind: two kinds of data in one folder would be mixed for
 * good, and a folder of somebody else's files is most likely a mistyped name. `flag` names it in messages. Resolves with whether it is new.
 */
export async function checkFolder(dir: string, kind: FolderKind, flag: string): Promise<"new" | "known"> {
  const names = (await listFolder(dir, flag)).filter((name) => !IGNORED.has(name));
  const own = LAYOUTS[kind];
  if (names.length === 0) return "new";
  if (names.includes(own.marker)) return "known";
  const other = Object.values(LAYOUTS).find((layout) => layout !== own && names.includes(layout.marker));
  if (other !== undefined)
    throw taken(`${flag} ${dir} holds ${other.what}, which this command does not take over`, `Go on with it: ${other.command(dir)}; or`);
  if (names.every((name) => own.names.includes(name)) && (await isHalfMade(dir, kind, names))) return "known";
  const stranger = names.find((name) => !own.names.includes(name)) ?? names[0];
  throw taken(`${flag} ${dir} holds other files (${JSON.stringify(stranger)})`, "Check the name; or");
}
const taken = (message: string, hint: string): CommandFailure =>
  new CommandFailure(`${message}; nothing was changed\n  ${hint} choose an empty folder or a new name`, exitCodes.folderInUse);

/** A first start that died early has left no marker; "logs" and "data" alone may as well be anybody's. */
async function isHalfMade(dir: string, kind: FolderKind, names: readonly string[]): Promise<boolean> {
  if (kind === "standalone" || names.includes("secrets") || names.includes("lock")) return kind === "cluster";
  const logs = names.includes("logs") ? await readdir(join(dir, "logs")) : [];
  return logs.length > 0 && logs.every((name) => PROCESS_LOG.test(name));
}

async function listFolder(dir: string, flag: string): Promise<string[]> {
  try {
    return await readdir(dir);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw unusable(dir, flag, error);
  }
}
/** What a person can mend by another name or by rights; the rest (a full disk) is no matter of usage. */
const NAMING = new Set(["ENOENT", "ENOTDIR", "EEXIST", "EACCES", "EPERM", "EROFS", "ENAMETOOLONG", "ELOOP", "EINVAL"]);
function unusable(dir: string, flag: string, cause: unknown, at = dir): CommandFailure {
  const { code = "", message } = cause as NodeJS.ErrnoException;
  const why = code === "ENOTDIR" || code === "EEXIST" ? "not a folder" : message.replace(/^E[A-Z]+: /, "").replace(/, \w+ '.*$/, "");
  const where = at === dir ? "" : ` (${at})`;
  return new CommandFailure(`${flag} ${dir}: ${code}: ${why}${where}`, NAMING.has(code) ? exitCodes.usage : exitCodes.failure, { cause });
}

/**
 * Makes the folder and those above it. Gives back the uppermost that was not there before. Step by step: the system's own recursion does not
 * end where a file system lets nobody make folders and says so by "not there" (/proc).
 */
export async function makeFolder(dir: string, flag: string): Promise<string | undefined> {
  const missing: string[] = [];
  for (let at = dir; ; at = dirname(at)) {
    try {
      if (!(await stat(at)).isDirectory()) throw Object.assign(new Error("not a folder"), { code: "ENOTDIR" });
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || at === dirname(at)) throw unusable(dir, flag, error, at);
      missing.push(at);
    }
  }
  for (const at of missing.toReversed()) {
    try {
      await mkdir(at);
    } catch (error) {
      // Another process may make it at the same moment.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw unusable(dir, flag, error, at);
    }
  }
  return missing.at(-1);
}
