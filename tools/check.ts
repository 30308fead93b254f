/** `npm run check`: types, purity, lint, format, dead code, generated code, protocol compatibility, repository rules. */
import { execFileSync } from "node:child_process";
import { pathToFileURL } from "node:url";
import { root, run } from "./run.ts";

/** The last published state of the protocol: the newest version tag, else the main branch of the remote. */
function baseline(): string | undefined {
  const git = (args: string[]): string => {
    try {
      return execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
    } catch {
      return "";
    }
  };
  const tag = git(["describe", "--tags", "--abbrev=0", "--match", "v*"]);
  if (tag !== "") return `.git#tag=${tag},subdir=packages/proto`;
  for (const ref of ["refs/remotes/origin/main", "HEAD"]) {
    if (git(["ls-tree", ref, "packages/proto/buf.yaml"]) !== "") return `.git#ref=${git(["rev-parse", ref])},subdir=packages/proto`;
  }
  return undefined;
}

const checks: ReadonlyArray<readonly [string, readonly string[]]> = [
  ["types", ["tsc", "-p", "tsconfig.check.json"]],
  ["types of the pure core", ["tsc", "-p", "tsconfig.pure.json"]],
  ["lint", ["oxlint", "--type-aware", "--deny-warnings"]],
  ["format", ["oxfmt", "--check"]],
  ["dead code", ["knip"]],
  ["protocol lint", ["buf", "lint", "packages/proto"]],
  ["generated code", ["node", "packages/proto/generate.ts", "--check"]],
  ["generated pages", ["node", "tools/docs.ts", "--check"]],
  [
    "repository rules",
    [
      "node",
      "--experimental-vm-modules",
      "--disable-warning=ExperimentalWarning",
      "node_modules/jest/bin/jest.js",
      "--selectProjects",
      "repo",
    ],
  ],
];

export async function check(): Promise<{ passed: number; failed: number }> {
  let passed = 0;
  let failed = 0;
  const against = baseline();
  const all =
    against === undefined
      ? checks
      : [...checks, ["protocol compatibility", ["buf", "breaking", "packages/proto", "--against", against]] as const];
  for (const [name, args] of all) {
    const result = await run(args, { budgetSeconds: 120, quiet: true });
    process.stdout.write(`${result.ok ? "ok    " : "FAILED"} ${name} (${result.seconds.toFixed(1)} s)\n`);
    if (result.ok) passed += 1;
    else failed += 1;
  }
  return { passed, failed };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { passed, failed } = await check();
  process.stdout.write(`\n${passed} passed, ${failed} failed\n`);
  process.exit(failed === 0 ? 0 : 1);
}
