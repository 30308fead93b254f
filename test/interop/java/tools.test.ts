import { expect } from "@jest/globals";
import { tempDir } from "@sluice/test-support";
import { againstKafka, full } from "../support/form.ts";
import { defineSuite } from "../support/suite.ts";
import { JAVA_CLIENTS, javaClassPath } from "./java.ts";
import { runTools } from "./tools.ts";

const BUDGET_MS = againstKafka ? 600_000 : full ? 400_000 : 240_000;

defineSuite({
  client: "kafka-tools",
  suite: "tools",
  version: JAVA_CLIENTS["4"],
  needs: ["java", "javac", "mvn"],
  prepare: async () => void (await javaClassPath("4")),
  budgetMs: BUDGET_MS,
  async run(target) {
    await using folder = await tempDir("kafka-tools");
    const outcomes = await runTools({
      target,
      folder: folder.path,
      records: full && !againstKafka ? 1_000_000 : 100_000,
      performanceRecords: full && !againstKafka ? 100_000 : 10_000,
      timeoutMs: BUDGET_MS,
    });
    // Each use of a tool ends well or not: none is left out.
    expect(outcomes.filter(({ status }) => status === "skipped")).toEqual([]);
    return outcomes;
  },
});
