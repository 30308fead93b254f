import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { say } from "@sluice/test-support";
import { againstKafka, mustBeComplete } from "./form.ts";
import { judge, type Outcome, type Reasons } from "./judge.ts";
import { baselineOf, record, recordBaseline } from "./report.ts";
import { startTarget, type Target, type TargetOptions } from "./target.ts";
import { missingToolchains, type Toolchain } from "./toolchains.ts";

export interface Suite {
  /** Of the table and of the files: "franz-go", "kafka-clients-4"; letters, digits, dots and dashes. */
  readonly client: string;
  /** "scenarios" for our own script, else the client's own suite. */
  readonly suite: string;
  readonly version: string;
  readonly needs: readonly Toolchain[];
  readonly target?: Omit<TargetOptions, "name">;
  readonly known?: Reasons;
  /** Which tests of the baseline this form runs; default all. */
  readonly wanted?: (name: string) => boolean;
  /** Fetches, builds, installs; before the cluster starts. */
  readonly prepare?: () => Promise<void>;
  readonly budgetMs: number;
  /** Runs the client's tests to their end. Throws only when it could not run them. */
  run(target: Target): Promise<readonly Outcome[]>;
}

const PREPARE_MS = 600_000;
const CLUSTER_MS = againstKafka ? 600_000 : 240_000;
/** A real Kafka is measured once; what else the machine does meanwhile must not end it. */
const KAFKA_TIMES = 5;
const DETAIL_CHARS = 1_000;

/** One jest test that runs a whole suite of a client on a cluster of its own and holds it against the baseline. */
export function defineSuite(suite: Suite): void {
  const name = `${suite.client}, ${suite.suite}`;
  const missing = missingToolchains(suite.needs);
  if (missing.length > 0 && !mustBeComplete) {
    test(`${name}: says what is missing`, () => {
      say(`${name}: NOT RUN: ${missing.join(" and ")} not on this machine`);
      expect(missing).not.toEqual([]);
    });
    return;
  }
  describe(name, () => {
    let target: Target;
    beforeAll(async () => {
      if (missing.length > 0) throw new Error(`${name}: ${missing.join(" and ")} not on this machine`);
      await suite.prepare?.();
    }, PREPARE_MS);
    beforeAll(async () => {
      target = await startTarget({ name: suite.client, ...suite.target });
    }, CLUSTER_MS);
    afterAll(async () => {
      await target?.[Symbol.asyncDispose]();
    }, CLUSTER_MS);

    test(
      againstKafka ? "measures what a real Kafka does" : "does what it does on a real Kafka",
      () => target.run(async () => conclude(suite, await suite.run(target))),
      againstKafka ? KAFKA_TIMES * suite.budgetMs : suite.budgetMs,
    );
  });
}

function conclude({ client, suite, version, known: reasons = {}, wanted }: Suite, outcomes: readonly Outcome[]): void {
  const names = (status: Outcome["status"]): string[] => outcomes.filter((one) => one.status === status).map((one) => one.name);
  const common = { client, suite, version, failed: names("failed"), skipped: names("skipped") };
  const passed = names("passed");
  say(`${client} ${version}, ${suite}: ${passed.length} passed, ${common.failed.length} failed, ${common.skipped.length} left out`);
  for (const { name, status, detail } of outcomes) if (status === "failed") say(`FAILED ${name}: ${(detail ?? "").slice(0, DETAIL_CHARS)}`);
  if (againstKafka) {
    recordBaseline({ ...common, names: passed });
    expect(passed).not.toEqual([]);
    return;
  }
  const { differences, known } = judge(outcomes, baselineOf(client, suite), reasons, wanted);
  record({ ...common, passed: passed.length, known });
  expect(differences).toEqual([]);
}
