import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";

/*
 * Programs that tests need and the package manager does not bring. What has to be built is built once per machine, into a cache
 * outside the tree:
 *
 *   $SLUICE_TOOLS_DIR (default ~/.cache/sluice-tools)/<tool>-<version>/<program>
 *   .../<tool>-<version>.lock     held while one process builds, released by the kernel if it dies
 */
export const toolsDir = (): string => process.env["SLUICE_TOOLS_DIR"] ?? join(homedir(), ".cache", "sluice-tools");

export const ETCD_CURRENT_VERSION = "3.7.3";
const BUILD_TIMEOUT_MS = 600_000;
const SQLITE_BUSY = 5;

export interface Tool {
  readonly path: string;
  readonly version: string;
}

/** One line on standard error: set-up says what it does, and why something is missing. */
export const say = (line: string): void => void process.stderr.write(`${line}\n`);

/** Where a program of PATH is; undefined when there is none. */
export function findProgram(name: string, more: readonly string[] = []): string | undefined {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), ...more];
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

/** Runs a program to its end; standard output as text. Throws with the last lines that it wrote when it fails. */
export function run(
  program: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: Record<string, string>; readonly timeoutMs?: number } = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(
      program,
      [...args],
      {
        cwd: options.cwd,
        env: { ...process.env, ...options.env },
        timeout: options.timeoutMs ?? BUILD_TIMEOUT_MS,
        maxBuffer: 64 * 1024 * 1024,
      },
      (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(new Error(`${program} ${args.join(" ")}: ${lastLines(stderr) || error.message}`));
      },
    );
  });
}
const lastLines = (text: string): string => text.trim().split("\n").slice(-5).join("\n");

/** Runs `work` while no other process of this machine runs it under the same name. SQLite's file lock dies with its holder. */
export async function withToolLock<T>(name: string, work: () => Promise<T>): Promise<T> {
  await mkdir(toolsDir(), { recursive: true });
  const db = new DatabaseSync(join(toolsDir(), `${name}.lock`), { timeout: 0 });
  try {
    for (const endMs = performance.now() + BUILD_TIMEOUT_MS; !tryLock(db);) {
      if (performance.now() > endMs) throw new Error(`${name}: another process has held its lock for ${BUILD_TIMEOUT_MS} ms`);
      await sleep(100);
    }
    return await work();
  } finally {
    db.close();
  }
}
function tryLock(db: DatabaseSync): boolean {
  try {
    db.exec("BEGIN EXCLUSIVE");
    return true;
  } catch (error) {
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return false;
    throw error;
  }
}

/**
 * A program of the cache, built at most once: `build` gets an empty folder and leaves the program there under `program`.
 * The folder gets its final name only after the build, so a half-built one is never used.
 */
export async function cachedTool(name: string, version: string, program: string, build: (dir: string) => Promise<void>): Promise<Tool> {
  const home = join(toolsDir(), `${name}-${version}`);
  const tool: Tool = { path: join(home, program), version };
  if (existsSync(tool.path)) return tool;
  return withToolLock(`${name}-${version}`, async () => {
    if (existsSync(tool.path)) return tool;
    const dir = `${home}.building`;
    await rm(dir, { recursive: true, force: true });
    await mkdir(dir, { recursive: true });
    say(`building ${name} ${version}, once on this machine`);
    await build(dir);
    if (!existsSync(join(dir, program))) throw new Error(`the build of ${name} ${version} left no ${program}`);
    await rm(home, { recursive: true, force: true });
    await rename(dir, home);
    return tool;
  });
}

/** Go's compiler, also where it is not on PATH. */
export const findGo = (): string | undefined => findProgram("go", ["/usr/local/go/bin", "/usr/lib/go/bin"]);

/** Builds `pkg` of a Go module at `version` in a module of its own (modules with replace directives refuse `go install`). */
export async function goBuild(go: string, dir: string, module: string, version: string, pkg: string, program: string): Promise<void> {
  const source = join(dir, "module");
  await mkdir(source);
  const options = { cwd: source, env: { GOFLAGS: "-buildvcs=false -mod=mod" } };
  await run(go, ["mod", "init", "build"], options);
  await run(go, ["get", `${module}@v${version}`], options);
  await run(go, ["build", "-trimpath", "-ldflags=-s -w", "-o", join(dir, program), pkg], options);
}

/** Installs Debian packages; needs root and apt-get. */
export async function aptInstall(packages: readonly string[]): Promise<void> {
  const apt = findProgram("apt-get", ["/usr/bin"]);
  if (apt === undefined || process.getuid?.() !== 0) {
    throw new Error(`install ${packages.join(" ")} first (this needs ${apt === undefined ? "apt-get, which is not here" : "root"})`);
  }
  await withToolLock("apt", async () => {
    const install = ["install", "-y", "--no-install-recommends", ...packages];
    const env = { DEBIAN_FRONTEND: "noninteractive" };
    say(`installing ${packages.join(" ")}`);
    try {
      await run(apt, install, { env });
    } catch {
      await run(apt, ["update"], { env });
      await run(apt, install, { env });
    }
  });
}

/** The etcd of the system (Debian 12: 3.4), installed when missing. Throws with what to do when it cannot be. */
export async function ensureEtcd34(): Promise<Tool> {
  const more = ["/usr/bin"];
  if (findProgram("etcd", more) === undefined) await aptInstall(["etcd-server"]);
  const path = findProgram("etcd", more);
  if (path === undefined) throw new Error("etcd is not on PATH after its installation");
  return { path, version: await etcdVersion(path) };
}

/** A current etcd, built with Go; undefined, with a line that says why, where that cannot be done. */
export async function ensureEtcdCurrent(): Promise<Tool | undefined> {
  const version = ETCD_CURRENT_VERSION;
  const go = findGo();
  if (go === undefined && !existsSync(join(toolsDir(), `etcd-${version}`, "etcd"))) {
    say(`no etcd ${version}: Go is not on this machine`);
    return undefined;
  }
  try {
    return await cachedTool("etcd", version, "etcd", async (dir) => {
      await goBuild(go ?? "go", dir, "go.etcd.io/etcd/server/v3", version, "go.etcd.io/etcd/server/v3", "etcd");
      await rm(join(dir, "module"), { recursive: true, force: true });
    });
  } catch (error) {
    say(`no etcd ${version}: ${(error as Error).message}`);
    return undefined;
  }
}

async function etcdVersion(path: string): Promise<string> {
  const text = await run(path, ["--version"], { timeoutMs: 10_000 });
  return /etcd Version: (\S+)/.exec(text)?.[1] ?? "unknown";
}
