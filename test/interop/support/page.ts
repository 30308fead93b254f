import { readAll, type Baseline, type Result } from "./report.ts";

/** docs/compatibility.md, from what the runs left in results and baselines. */
export function compatibilityPage(
  results: readonly Result[] = readAll<Result>("results"),
  baselines: readonly Baseline[] = readAll<Baseline>("baselines"),
): string {
  const table = results.map((result) => {
    const { client, version, suite, passed, failed, skipped, known, date } = result;
    const baseline = baselines.find((one) => one.client === client && one.suite === suite);
    const onKafka =
      baseline === undefined ? "" : `${baseline.passed} of ${baseline.passed + baseline.failed.length + baseline.skipped.length}`;
    const run = passed + failed.length + skipped.length;
    return `| ${client} | ${version} | ${suite} | ${run} | ${passed} | ${onKafka} | ${known.length} | ${date} |`;
  });
  const differences = results
    .filter(({ known }) => known.length > 0)
    .flatMap(({ client, suite, known }) => [`### ${client}, ${suite}`, "", ...byReason(known), ""]);
  const measured = [...new Set(baselines.map(({ kafka }) => kafka))].toSorted().join(", ");
  return [
    "# Kafka clients",
    "",
    "What Kafka clients and their own test suites do on Sluice, next to what they do on a real Apache Kafka with three brokers" +
      `${measured === "" ? "" : ` (${measured})`}. A suite is`,
    "judged by the difference: what passes there and needs only what is served passes here. The suite `scenarios` is our own, the others are the",
    "clients'. Made from `test/interop/results` and `test/interop/baselines` by `npm run test:interop -- --write`.",
    "",
    "| client | version | suite | tests run | passed | passed on Kafka | known differences | last run |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ...table,
    "",
    "## Known differences",
    "",
    "Tests that pass on Kafka and not here, with the reason.",
    "",
    ...(differences.length === 0 ? ["None.", ""] : differences),
  ]
    .join("\n")
    .replace(/\n+$/, "\n");
}

function byReason(known: Result["known"]): string[] {
  const reasons = new Map<string, string[]>();
  for (const { name, reason } of known) reasons.set(reason, [...(reasons.get(reason) ?? []), name]);
  return [...reasons].map(([reason, names]) => `- ${reason} ${names.map((name) => `\`${name}\``).join(", ")}`);
}
