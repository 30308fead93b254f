/**
 * `npm run test:interop`: Kafka clients that are not ours, all their suites, against a cluster. Ends with `N passed, N failed`.
 *
 *   npm run test:interop -- [--short] [--write] [--baseline] [SUITE...]
 *
 * SUITE: part of a test file's path, such as `kcat` or `java`. `--write` keeps the results in test/interop/results and makes docs/compatibility.md
 * of them; `--baseline` runs the same against a real Apache Kafka and keeps that in test/interop/baselines. `--short` is what npm test runs.
 */
import { jest } from "./jest.ts";
import { run } from "./run.ts";

const BUDGET_S = 720;
// A real Kafka starts slower, and nothing is committed to a time there.
const BASELINE_BUDGET_S = 3_600;

const args = process.argv.slice(2);
const flags = args.filter((arg) => arg.startsWith("--"));
const known = ["--short", "--write", "--baseline"];
const unknown = flags.filter((flag) => !known.includes(flag));
if (unknown.length > 0) {
  process.stderr.write(`unknown option ${unknown.join(" ")}; options: ${known.join(" ")}\n`);
  process.exit(2);
}
const baseline = flags.includes("--baseline");
const write = flags.includes("--write") || baseline;
const count = await jest("interop", baseline ? BASELINE_BUDGET_S : BUDGET_S, 1, {
  files: args.filter((arg) => !arg.startsWith("--")).map((name) => `test/interop/.*${name}`),
  loud: true,
  environment: {
    SLUICE_INTEROP: flags.includes("--short") ? "short" : "full",
    SLUICE_INTEROP_TARGET: baseline ? "kafka" : "sluice",
    SLUICE_INTEROP_WRITE: write ? "1" : "",
  },
});
if (write) await run(["node", "tools/docs.ts"], { budgetSeconds: 60 });
process.stdout.write(`\n${count.passed} passed, ${count.failed} failed\n`);
process.exit(count.failed === 0 ? 0 : 1);
