import { readFileSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { ensurePythonKafka, run, tempDir } from "@sluice/test-support";
import { checkoutDir } from "../support/form.ts";
import type { Outcome } from "../support/judge.ts";
import { defineSuite } from "../support/suite.ts";

/*
 * kafka-python's own integration tests, from a checkout of its repository (github.com/dpkp/kafka-python).
 */
const BUDGET_MS = 1_500_000;
// Of the protocol, as the tests choose what to expect by it.
const KAFKA_VERSION = "4.0.0";

const version = (): string => /__version__ = '([^']+)'/.exec(readFileSync(join(checkoutDir, "kafka/version.py"), "utf8"))?.[1] ?? "unknown";

/** What pytest writes as JUnit's XML: a case is empty when it passed. */
function parse(xml: string): Outcome[] {
  return [...xml.matchAll(/<testcase classname="([^"]*)" name="([^"]*)"[^>]*?(?:\/>|>([^]*?)<\/testcase>)/g)].map(
    ([, file = "", name = "", body = ""]) => {
      const status = /<(failure|error)\b/.test(body) ? "failed" : /<skipped\b/.test(body) ? "skipped" : "passed";
      return { name: `${file.split(".").at(-1)}: ${name}`, status, detail: body.slice(0, 1_500) };
    },
  );
}

defineSuite({
  client: "kafka-python",
  suite: "integration tests",
  version: version(),
  needs: ["python3"],
  // As the brokers are set that its tests start by themselves.
  target: {
    partitions: 4,
    config: { "group.min.session.timeout.ms": "1000" },
    kafka: {
      "group.min.session.timeout.ms": "1000",
      "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
      "super.users": "User:ANONYMOUS",
      "allow.everyone.if.no.acl.found": "true",
    },
  },
  known: [
    [/acls$/, "Access control lists are not served:"],
    [/transactional/, "Transactions are not served:"],
    [
      /elect_leaders|replica_log_dirs|metadata_quorum|reassignments/,
      "Replicas are not the client's to place; what would move them is not served:",
    ],
    [/describe_topic_partitions/, "DescribeTopicPartitions is not served, clients use Metadata:"],
    [/configs_broker_resource/, "A broker's configuration is another one's here, and lacks the key that is looked for:"],
  ],
  prepare: async () => void (await ensurePythonKafka()),
  budgetMs: BUDGET_MS,
  run: async ({ addresses }) => {
    await using dir = await tempDir("kafka-python");
    const report = join(dir.path, "report.xml");
    // An external broker is one address; security and what starts brokers by itself is left out.
    const tests = ["admin", "consumer", "producer"].map((name) => `test/integration/test_${name}_integration.py`);
    const args = ["-m", "pytest", "-p", "no:cacheprovider", "-q", "--timeout=90", `--junitxml=${report}`, ...tests];
    // It looks for the programs of a broker also when it starts none.
    const root = join(dir.path, "kafka-bin");
    await mkdir(root);
    const env = { KAFKA_ROOT: root, KAFKA_URI: `kafka://${addresses[0]}`, KAFKA_VERSION, PYTHONDONTWRITEBYTECODE: "1" };
    // Its exit code tells of failures, which the report names.
    const failed = await run(await ensurePythonKafka(), args, { cwd: checkoutDir, env, timeoutMs: BUDGET_MS }).catch(
      (error: unknown) => error,
    );
    const xml = await readFile(report, "utf8").catch(() => "");
    if (xml === "") throw new Error("no report", { cause: failed });
    return parse(xml);
  },
});
