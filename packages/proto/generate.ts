/** Generates all TypeScript from .proto files with buf and protoc-gen-es; `--check` only says whether the committed code is fresh. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";

const packages = join(import.meta.dirname, "..");
const bin = join(packages, "../node_modules/.bin");

interface Target {
  /** Folder with buf.yaml, below packages. */
  readonly folder: string;
  readonly template: string;
  /** What the template writes, below the folder. */
  readonly out: string;
}
const targets: readonly Target[] = [
  { folder: "proto", template: "buf.gen.yaml", out: "src/gen" },
  { folder: "rpc", template: "buf.gen.yaml", out: "src/gen" },
  { folder: "rpc", template: "buf.gen.test.yaml", out: "test/gen" },
];

function files(dir: string, base = dir): string[] {
  if (!existsSync(dir)) return [];
  return readdirSync(dir).flatMap((name) => {
    const path = join(dir, name);
    return statSync(path).isDirectory() ? files(path, base) : [relative(base, path)];
  });
}
function generate(target: Target, into: string): void {
  const run = spawnSync(join(bin, "buf"), ["generate", "--template", target.template, "-o", into], {
    cwd: join(packages, target.folder),
    stdio: "inherit",
    env: { ...process.env, PATH: `${bin}:${process.env["PATH"] ?? ""}` },
  });
  if (run.status !== 0) process.exit(run.status ?? 1);
}
function isStale(target: Target): boolean {
  const temp = mkdtempSync(join(tmpdir(), "sluice-gen-"));
  try {
    generate(target, temp);
    const made = join(temp, target.out);
    const committed = join(packages, target.folder, target.out);
    const a = files(made).sort();
    const b = files(committed).sort();
    return a.length === 0 || a.join() !== b.join() || a.some((f) => !readFileSync(join(made, f)).equals(readFileSync(join(committed, f))));
  } finally {
    rmSync(temp, { recursive: true, force: true });
  }
}

if (process.argv.includes("--check")) {
  for (const target of targets) {
    if (!isStale(target)) continue;
    process.stderr.write(`packages/${target.folder}/${target.out} is stale: run \`npm run gen\` and commit the result\n`);
    process.exitCode = 1;
  }
} else {
  for (const target of targets) generate(target, join(packages, target.folder));
}
