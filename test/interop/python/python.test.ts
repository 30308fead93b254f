import { join } from "node:path";
import { CONFLUENT_KAFKA_VERSION, ensurePythonKafka, KAFKA_PYTHON_VERSION, run } from "@sluice/test-support";
import type { Outcome } from "../support/judge.ts";
import { defineSuite } from "../support/suite.ts";
import type { Target } from "../support/target.ts";

const BUDGET_MS = 240_000;

const outcomes = async (script: string, { bootstrap }: Target): Promise<Outcome[]> => {
  const out = await run(await ensurePythonKafka(), [join(import.meta.dirname, script), bootstrap], { timeoutMs: BUDGET_MS });
  return out
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Outcome);
};
const prepare = async (): Promise<void> => void (await ensurePythonKafka());

defineSuite({
  client: "confluent-kafka",
  suite: "scenarios",
  version: CONFLUENT_KAFKA_VERSION,
  needs: ["python3"],
  prepare,
  budgetMs: BUDGET_MS,
  run: (target) => outcomes("confluent_scenarios.py", target),
});
defineSuite({
  client: "kafka-python",
  suite: "scenarios",
  version: KAFKA_PYTHON_VERSION,
  needs: ["python3"],
  prepare,
  budgetMs: BUDGET_MS,
  run: (target) => outcomes("kafka_python_scenarios.py", target),
});
