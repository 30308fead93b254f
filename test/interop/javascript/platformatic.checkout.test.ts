import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll } from "@jest/globals";
import { tempDir, type TempDir } from "@sluice/test-support";
import { checkoutDir } from "../support/form.ts";
import { defineSuite } from "../support/suite.ts";
import { copyPlatformatic, runPlatformaticTests } from "./platformatic-tests.ts";

/*
 * The own tests of @platformatic/kafka that talk to brokers, from a checkout of its repository (github.com/platformatic/kafka).
 */
const BUDGET_MS = 1_200_000;
let copy: TempDir;
beforeAll(async () => {
  copy = await tempDir("platformatic");
});
afterAll(async () => {
  await copy[Symbol.asyncDispose]();
});

defineSuite({
  client: "platformatic-kafka",
  suite: "client tests",
  version: (JSON.parse(readFileSync(join(checkoutDir, "package.json"), "utf8")) as { version: string }).version,
  needs: [],
  // Of the brokers that its tests are written for.
  target: {
    kafka: {
      "group.consumer.heartbeat.interval.ms": "200",
      "group.consumer.min.heartbeat.interval.ms": "100",
      "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
      "super.users": "User:ANONYMOUS",
    },
  },
  known: [],
  prepare: () => copyPlatformatic(checkoutDir, copy.path),
  budgetMs: BUDGET_MS,
  run: ({ addresses }) => runPlatformaticTests(copy.path, addresses),
});
