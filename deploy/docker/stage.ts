/** Lays out what an image holds: the sources of one program and of the packages it needs, with their production dependencies. */
import { execFileSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";

export const root = join(import.meta.dirname, "../..");
export const targets = ["proxy", "broker", "segment-store", "controller", "coordinator", "cli"] as const;
export type Target = (typeof targets)[number];

interface Manifest {
  readonly name: string;
  readonly packageManager?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}
const manifest = (folder: string): Manifest => JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8")) as Manifest;

/** Folder of every package of the workspace, by name. */
function workspace(): Map<string, string> {
  const folders = globSync(["packages/*/package.json", "services/*/package.json"], { cwd: root }).map(dirname);
  return new Map(folders.map((folder) => [manifest(folder).name, folder]));
}
/** The folders of `name` and of every package of ours that it needs, directly or not. */
function closure(name: string, known: ReadonlyMap<string, string>): Set<string> {
  const found = new Set<string>();
  const pending = [name];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const folder = known.get(next);
    if (folder === undefined || found.has(folder)) continue;
    found.add(folder);
    pending.push(...Object.keys(manifest(folder).dependencies ?? {}));
  }
  return found;
}

/** What only an editor or a debugger reads; licences stay. */
const UNREAD = /\.(d\.[cm]?ts|map|tsbuildinfo)$/;
/** The workspace's own Node.js: an image has that of its base. And types and package scripts, which nothing loads. */
const UNUSED = /^(node-linux-.*|@types\+.*|@types|\.bin)$/;
function prune(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (UNUSED.test(entry.name) || (entry.isFile() && UNREAD.test(entry.name))) rmSync(path, { recursive: true });
    else if (entry.isDirectory()) prune(path);
  }
}

/** Fills `folder` with the application of `target`. Takes about two seconds when the package manager's store has everything. */
export function stage(target: Target, folder: string): void {
  const known = workspace();
  const name = `@sluice/${target}`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const file of ["package.json", "pnpm-lock.yaml", "pnpm-workspace.yaml", ".npmrc", "LICENSE"])
    cpSync(join(root, file), join(folder, file));
  for (const path of closure(name, known)) {
    const kept = (from: string): boolean => !["node_modules", "test", "README.md"].includes(basename(from));
    cpSync(join(root, path), join(folder, path), { recursive: true, filter: kept });
  }
  const [version] = (manifest(".").packageManager ?? "pnpm").split("+");
  const install = ["--yes", version ?? "pnpm", "install", "--prod", "--frozen-lockfile", "--prefer-offline", "--filter", `${name}...`];
  execFileSync("npx", install, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  prune(join(folder, "node_modules"));
  for (const file of ["pnpm-lock.yaml", "pnpm-workspace.yaml", ".npmrc"]) rmSync(join(folder, file));
  cpSync(join(import.meta.dirname, "warm.ts"), join(folder, "warm.ts"));
}
