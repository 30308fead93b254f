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
  known: [
    [/^admin: .*(Acls|ACLs)/, "Access control lists are not served:"],
    [/^admin: .*[qQ]uotas/, "Quotas are not served:"],
    [/^messages-stream: .*(transaction|consume-transform-produce)/, "Transactions are not served:"],
    [
      /^admin: createTopics (should create|with multiple|using assignments)/,
      "Replicas are not the client's to place, there are three of each:",
    ],
    [
      /^admin: (createTopics with custom configuration|(alter|incrementalAlter)Configs should (update|properly|not update|support|be able))/,
      "Compaction is not served, and what a broker is configured with is not a client's to change:",
    ],
    [
      /^admin: describeConfigs should (list only|include documentation)/,
      "`cleanup.policy` is always `delete`, and nothing of a broker is its default:",
    ],
    [
      /^admin: describe(Configs should properly describe broker|LogDirs should describe)/,
      "The test expects three brokers, 1 to 3; here are two:",
    ],
    [
      /^producer: send should handle errors from ConnectionPool.get$/,
      "The fifth connection that the client asks for is to fail; a topic that makes itself has its leader in the first answer here, so that it asks for fewer:",
    ],
  ],
  prepare: () => copyPlatformatic(checkoutDir, copy.path),
  budgetMs: BUDGET_MS,
  run: ({ addresses }) => runPlatformaticTests(copy.path, addresses),
});
