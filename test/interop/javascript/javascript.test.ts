import { runScenarios } from "../support/scenarios.ts";
import { defineSuite } from "../support/suite.ts";
import { kafkajsScenarios } from "./kafkajs.ts";
import { platformaticScenarios } from "./platformatic.ts";

const BUDGET_MS = 240_000;

defineSuite({
  client: "kafkajs",
  suite: "scenarios",
  version: "2.2.4",
  needs: [],
  budgetMs: BUDGET_MS,
  run: ({ bootstrap }) => runScenarios(kafkajsScenarios(bootstrap)),
});
defineSuite({
  client: "platformatic-kafka",
  suite: "scenarios",
  version: "2.12.1",
  needs: [],
  budgetMs: BUDGET_MS,
  run: ({ bootstrap }) => runScenarios(platformaticScenarios(bootstrap)),
});
