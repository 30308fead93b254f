import { ensureLibrdkafkaTests, LIBRDKAFKA_VERSION, tempDir } from "@sluice/test-support";
import { againstKafka } from "../support/form.ts";
import { defineSuite } from "../support/suite.ts";
import { JOBS } from "./jobs.ts";
import { runLibrdkafkaTests } from "./runner.ts";

/*
 * librdkafka's own tests, those that need a broker and what is served.
 */
const BUDGET_MS = againstKafka ? 600_000 : 400_000;
const CONCURRENCY = 4;
const TEST_MS = 200_000;

defineSuite({
  client: "librdkafka",
  suite: "basic tests",
  version: LIBRDKAFKA_VERSION,
  needs: ["gcc", "make"],
  // Topics that nobody made are to have four. That a group waits for more first members is taken for granted: Kafka's own default.
  target: { partitions: 4, kafka: { "group.initial.rebalance.delay.ms": "3000" } },
  known: [
    [/^0011/, "Compaction is not served, so that no record is refused for its lack of a key:"],
    [
      /^0081_admin: (do_test_|Incremental)AlterConfigs/,
      "What a broker is configured with is not a client's to change, and `compression.type` is always `producer`:",
    ],
    [/^0081_admin: DescribeConfigs_groups/, "Groups have no configuration:"],
    [/^0081_admin: Create(Topics|Partitions)/, "Replicas are not the client's to place, and `compression.type` is always `producer`:"],
    [/^0081_admin: DescribeCluster.*, with authorized/, "Of what may be done with the cluster only what is served is told:"],
  ],
  prepare: async () => void (await ensureLibrdkafkaTests()),
  budgetMs: BUDGET_MS,
  async run({ bootstrap }) {
    await using folder = await tempDir("librdkafka");
    const options = { bootstrap, folder: folder.path, jobs: JOBS, concurrency: CONCURRENCY, timeoutMs: TEST_MS };
    return await runLibrdkafkaTests(await ensureLibrdkafkaTests(), options);
  },
});
