/**
 * Runs inside an image build: starts the program once with a flag that nobody knows, so that it loads its modules, refuses, and leaves
 * compiled code in NODE_COMPILE_CACHE; then what it loads later when it has a store on S3. Fails the build when the program does not load (a native module that misses a library, say) or
 * leaves nothing.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

const BAD_CONFIGURATION = 2;
const CACHED_MIN = 10;

const [program = ""] = process.argv.slice(2);
const cache = process.env["NODE_COMPILE_CACHE"] ?? "";
const run = spawnSync(process.execPath, [program, "--no-such-flag"], { encoding: "utf8" });
const s3 = join(import.meta.dirname, "packages/object-store/src/s3/store.ts");
const later = existsSync(s3) ? spawnSync(process.execPath, [s3], { encoding: "utf8" }) : { status: 0, stderr: "" };
const cached = readdirSync(cache, { recursive: true }).length;
if (run.status !== BAD_CONFIGURATION || later.status !== 0 || cached < CACHED_MIN) {
  process.stderr.write(
    `${program} ended with ${run.status}, ${cached} files in ${cache}\n${run.stdout}${run.stderr.slice(-2_000)}${later.stderr.slice(-2_000)}`,
  );
  process.exit(1);
}
process.stdout.write(`${program}: ${cached} files of compiled code\n`);
