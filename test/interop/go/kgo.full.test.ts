import { ensureKgoTests, FRANZ_GO_VERSION, tempDir } from "@sluice/test-support";
import { againstKafka } from "../support/form.ts";
import { defineSuite } from "../support/suite.ts";
import { runGoTests } from "./kgo.ts";

/*
 * franz-go's own tests of its package kgo. What is not in ApiVersions they leave out by themselves, but for transactions and internal topics.
 */
const BUDGET_MS = againstKafka ? 1_200_000 : 300_000;
/** Of each of the tests that send many; 500,000 without. */
const RECORDS = "20000";
/** Most of the time most of them wait. */
const PARALLEL = 4;
/** Of the known differences those that would try for minutes. */
const NOT_TRIED = ["TestTxnEtl", "TestConsumeRegex", "Test848RegexBrokerResolves"];

defineSuite({
  client: "franz-go",
  suite: "kgo",
  version: FRANZ_GO_VERSION,
  needs: ["go"],
  known: [
    [/^TestTxnEtl/, "Transactions are not served:"],
    [/^(TestShare|TestConsumeRegexShare)/, "Share groups are not served:"],
    [
      /^(TestConsumeRegex|Test848RegexBrokerResolves)$/,
      "Groups do not live in a topic: there is no `__consumer_offsets`, which the test expects to be listed as internal:",
    ],
    [/^TestIssueFetchLargerThanBrokerMaxReadBytes$/, "A batch may have 8 MiB at most, the test asks for 10:"],
  ],
  prepare: async () => void (await ensureKgoTests()),
  budgetMs: BUDGET_MS,
  async run({ kind, bootstrap }) {
    await using folder = await tempDir("kgo");
    const env = { KGO_SEEDS: bootstrap, KGO_TEST_RF: "3", KGO_TEST_RECORDS: RECORDS, KGO_LOG_LEVEL: "none" };
    const flags = { parallel: `${PARALLEL}`, ...(kind === "kafka" ? {} : { skip: `^(${NOT_TRIED.join("|")})$` }) };
    return await runGoTests(await ensureKgoTests(), { folder: folder.path, env, flags, timeoutMs: BUDGET_MS - 30_000 });
  },
});
