import { run } from "./run.ts";
import { mutantNames } from "./world/options.ts";

/**
 * node sim/src/main.ts [--seed N | --seeds A..B] [--mutant M4 | --mutants] [--within N] [--short] [--verbose]
 * --mutant: passes when some seed of the range finds the planted fault. --mutants: that for each of them, at most `--within` seeds each.
 */
const args = process.argv.slice(2);
const valueOf = (name: string): string | undefined => {
  const at = args.indexOf(name);
  return at < 0 ? undefined : args[at + 1];
};
const has = (name: string): boolean => args.includes(name);
const print = (line: string): void => void process.stdout.write(`${line}\n`);

function range(): [number, number] {
  const one = valueOf("--seed");
  if (one !== undefined) return [Number(one), Number(one)];
  const [from = "1", to = "100"] = (valueOf("--seeds") ?? "1..100").split("..");
  return [Number(from), Number(to)];
}

let passed = 0;
let failed = 0;
const [from, to] = range();
const short = has("--short");
const started = process.cpuUsage();

function clean(): void {
  let acknowledged = 0;
  for (let seed = from; seed <= to; seed++) {
    const result = run(seed, { short, onLine: has("--verbose") ? print : undefined });
    acknowledged += result.acknowledged;
    if (result.violations.length === 0) {
      passed++;
      if (from === to) print(JSON.stringify(result));
      continue;
    }
    failed++;
    print(`seed ${seed}: FAILED\n  ${result.violations.join("\n  ")}`);
  }
  print(`${to - from + 1} seeds, ${acknowledged} batches acknowledged`);
}

function kill(mutant: string, within: number): void {
  // Full disks and questions in between leave less of a run to what the others break.
  const latest = mutant === "M31";
  for (let seed = from; seed < from + within; seed++) {
    const result = run(seed, { short, mutant, latest, onLine: has("--verbose") ? print : undefined });
    if (result.violations.length === 0) continue;
    passed++;
    return print(`${mutant}: killed by seed ${seed} (${seed - from + 1} runs): ${result.violations[0] ?? ""}`);
  }
  failed++;
  print(`${mutant}: SURVIVED ${within} seeds`);
}

const within = Number(valueOf("--within") ?? 800);
const mutant = valueOf("--mutant");
if (has("--mutants")) for (const name of mutantNames) kill(name, within);
else if (mutant !== undefined) kill(mutant, to > from ? to - from + 1 : within);
else clean();
const cpu = process.cpuUsage(started);
print(`${((cpu.user + cpu.system) / 1e6).toFixed(1)} s of CPU`);
print(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
