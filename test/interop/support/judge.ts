import type { Baseline, Known } from "./report.ts";

/** How one test of a client's suite ended. */
export interface Outcome {
  readonly name: string;
  readonly status: "passed" | "failed" | "skipped";
  /** What it said when it failed. */
  readonly detail?: string;
}
export interface Verdict {
  /** What differs from a real Kafka without a reason on the list; a line each. Empty: the suite is as it should be. */
  readonly differences: readonly string[];
  /** Entries of the list that did differ. */
  readonly known: readonly Known[];
}

/** Name, or pattern of names, to reason: passes on a real Kafka, and is meant not to here. */
export type Reasons = Readonly<Record<string, string>> | ReadonlyArray<readonly [RegExp, string]>;

const DETAIL_CHARS = 1_500;

/**
 * Compares with the baseline. A test that passed there and does not pass here is a difference, unless `reasons` (name to reason) has it;
 * so is one that was not run, and one that nobody has measured there. `wanted` tells which tests this form runs.
 */
export function judge(
  outcomes: readonly Outcome[],
  baseline: Pick<Baseline, "names" | "failed" | "skipped"> | undefined,
  reasons: Reasons,
  wanted: (name: string) => boolean = () => true,
): Verdict {
  if (baseline === undefined) return { differences: ["no baseline: measure it with npm run test:interop -- --baseline"], known: [] };
  const differences: string[] = [];
  const known: Known[] = [];
  const list = asList(reasons);
  const here = new Map(outcomes.map((outcome) => [outcome.name, outcome]));
  for (const name of baseline.names) {
    if (!wanted(name)) continue;
    const outcome = here.get(name);
    if (outcome?.status === "passed") continue;
    const reason = list.find(([holds]) => holds(name))?.[1];
    if (reason !== undefined) known.push({ name, reason });
    else if (outcome === undefined) differences.push(`${name}: was not run`);
    else differences.push(`${name}: ${outcome.status} ${(outcome.detail ?? "").slice(0, DETAIL_CHARS)}`.trimEnd());
  }
  const measured = new Set([...baseline.names, ...baseline.failed, ...baseline.skipped]);
  for (const { name } of outcomes) if (!measured.has(name)) differences.push(`${name}: has no baseline`);
  for (const [holds, , entry] of list)
    if (![...measured].some(holds)) differences.push(`${entry}: is on the list of reasons and in no baseline`);
  if (outcomes.length === 0) differences.push("no test was run");
  return { differences, known };
}

type Entry = readonly [holds: (name: string) => boolean, reason: string, entry: string];
const asList = (reasons: Reasons): Entry[] =>
  isPatterns(reasons)
    ? reasons.map(([pattern, reason]): Entry => [(name) => pattern.test(name), reason, String(pattern)])
    : Object.entries(reasons).map(([known, reason]): Entry => [(name) => name === known, reason, known]);
const isPatterns = (reasons: Reasons): reasons is ReadonlyArray<readonly [RegExp, string]> => Array.isArray(reasons);
