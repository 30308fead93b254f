/** Generates src/gen from proto/ with buf and protoc-gen-es; `--check` only says whether the committed code is fresh. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";

const here = import.meta.dirname;
const bin = join(here, "../../node_modules/.bin");

function files(dir: string, base = dir): string[] {
  return readdirSync(dir).flatMap((name) => {
    const path = join(dir, name);
    return statSync(path).isDirectory() ? files(path, base) : [relative(base, path)];
  });
}

function generate(target: string): void {
  const run = spawnSync(join(bin, "buf"), ["generate", "-o", target], {
    cwd: here,
    stdio: "inherit",
    env: { ...process.env, PATH: `${bin}:${process.env["PATH"] ?? ""}` },
  });
  if (run.status !== 0) process.exit(run.status ?? 1);
}

if (process.argv.includes("--check")) {
  const temp = mkdtempSync(join(tmpdir(), "sluice-gen-"));
  cpSync(join(here, "src/gen"), join(temp, "committed"), { recursive: true });
  generate(temp);
  const made = join(temp, "src/gen");
  const a = files(made).sort();
  const b = files(join(temp, "committed")).sort();
  const stale =
    a.length !== b.length || a.some((f, i) => f !== b[i] || !readFileSync(join(made, f)).equals(readFileSync(join(temp, "committed", f))));
  rmSync(temp, { recursive: true, force: true });
  if (stale) {
    process.stderr.write("packages/proto/src/gen is stale: run `npm run gen` and commit the result\n");
    process.exit(1);
  }
  process.stdout.write("generated code is fresh\n");
} else {
  generate(here);
}
