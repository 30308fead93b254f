/**
 * `npm test`: every stage in order, each within its budget of wall time, and one closing line `N passed, N failed`.
 * `node tools/test.ts unit e2e` runs only those stages.
 */
import { check } from "./check.ts";
import { jest, type Count } from "./jest.ts";
import { run } from "./run.ts";

/** A program that ends with `N passed, N failed`. */
async function program(args: readonly string[], budgetSeconds: number): Promise<Count> {
  const result = await run(args, { budgetSeconds });
  const counts = /^(\d+) passed, (\d+) failed$/.exec(result.lastLine);
  if (counts === null) return { passed: 0, failed: 1 };
  const failed = Number(counts[2]);
  return { passed: Number(counts[1]), failed: failed === 0 && !result.ok ? 1 : failed };
}

const stages: Record<string, () => Promise<Count>> = {
  check,
  setup: async () => {
    const result = await run(["node", "test/support/src/setup.ts"], { budgetSeconds: 900 });
    return { passed: result.ok ? 1 : 0, failed: result.ok ? 0 : 1 };
  },
  unit: () => jest("unit", 300),
  contract: () => jest("contract", 300),
  simulator: async () => {
    const clean = await program(["node", "sim/src/main.ts", "--seeds", "1..1000"], 300);
    const mutants = await program(["node", "sim/src/main.ts", "--mutants", "--within", "800"], 240);
    return { passed: clean.passed + mutants.passed, failed: clean.failed + mutants.failed };
  },
  chart: () => jest("chart", 180),
  e2e: () => jest("e2e", 900, 1),
  // The short form; the whole: npm run test:interop.
  interop: () => jest("interop", 300, 1),
};

const wanted = process.argv.slice(2);
for (const name of wanted) {
  if (!Object.hasOwn(stages, name)) {
    process.stderr.write(`unknown stage ${name}; stages: ${Object.keys(stages).join(", ")}\n`);
    process.exit(2);
  }
}
const total: Count = { passed: 0, failed: 0 };
for (const [name, stage] of Object.entries(stages)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  process.stdout.write(`\n== ${name}\n`);
  const started = Date.now();
  const count = await stage();
  total.passed += count.passed;
  total.failed += count.failed;
  process.stdout.write(`== ${name}: ${count.passed} passed, ${count.failed} failed, ${((Date.now() - started) / 1000).toFixed(1)} s\n`);
}
process.stdout.write(`\n${total.passed} passed, ${total.failed} failed\n`);
process.exit(total.failed === 0 ? 0 : 1);
