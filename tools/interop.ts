/**
 * `npm run test:interop`: Kafka clients that are not ours, all their suites, against a cluster. Ends with `N passed, N failed`.
 *
 *   npm run test:interop -- [--short] [--write] [--baseline [--kafka HOST:PORT,...]] [SUITE...]
 *   npm run test:interop -- --checkout DIR [--write] [--baseline] SUITE
 *
 * SUITE: part of a test file's path, such as `kcat` or `java`. `--write` keeps the results in test/interop/results and makes docs/compatibility.md
 * of them; `--baseline` runs the same against a real Apache Kafka and keeps that in test/interop/baselines (`--kafka`: one that runs already). `--short` is what npm test runs.
 * `--checkout`: a client's own tests that no registry holds, from a checkout of its repository; SUITE is kafka-python or platformatic.
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { jest } from "./jest.ts";
import { run } from "./run.ts";

const BUDGET_S = 720;
// A real Kafka starts slower, and whole suites of others take their time; neither is part of CI.
const LONG_BUDGET_S = 3_600;
const BUILD_BUDGET_S = 1_800;

const { values: flags, positionals: suites } = parseArgs({
  allowPositionals: true,
  options: {
    short: { type: "boolean" },
    write: { type: "boolean" },
    baseline: { type: "boolean" },
    checkout: { type: "string" },
    kafka: { type: "string" },
  },
});
const baseline = flags.baseline === true;
const write = flags.write === true || baseline;
const checkout = flags.checkout === undefined ? "" : resolve(process.env["INIT_CWD"] ?? ".", flags.checkout);
const isWhole = flags.short !== true && checkout === "" && suites.length === 0;
// Compiled once on a machine, ahead of the time that the tests have.
if (isWhole) await run(["node", "test/support/src/setup.ts", "suites"], { budgetSeconds: BUILD_BUDGET_S });
const count = await jest("interop", baseline || checkout !== "" ? LONG_BUDGET_S : BUDGET_S, 1, {
  files: suites.map((name) => `test/interop/.*${name}${checkout === "" ? "" : ".*checkout"}`),
  loud: true,
  environment: {
    SLUICE_INTEROP: flags.short === true ? "short" : "full",
    SLUICE_INTEROP_TARGET: baseline ? "kafka" : "sluice",
    SLUICE_INTEROP_WRITE: write ? "1" : "",
    SLUICE_INTEROP_CHECKOUT: checkout,
    SLUICE_INTEROP_KAFKA: flags.kafka ?? "",
  },
});
if (write) await run(["node", "tools/docs.ts"], { budgetSeconds: 60 });
process.stdout.write(`\n${count.passed} passed, ${count.failed} failed\n`);
process.exit(count.failed === 0 ? 0 : 1);
