import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "@jest/globals";
import type { Sluice } from "@sluice/client";
import { say } from "@sluice/test-support";
import { createTopic } from "../../e2e/support/cluster.ts";
import { gaps, readAll, TailReader } from "../../e2e/support/reader.ts";
import { startWorkload } from "../../e2e/support/workload.ts";
import type { Kubernetes } from "./kubernetes.ts";
import { keepLogs } from "./logs.ts";

const PARTITIONS = 4;
const RATE_PER_PARTITION = 100;
const SETTLE_MS = 1_000;
const QUIET_MS = 3_000;
/** No drill should hold a partition up for longer: whatever does is to be explained by the pods' logs. */
const EXPLAINED_ABOVE_MS = 5_000;

export interface DrillResult {
  readonly name: string;
  readonly stallMs: number;
  readonly quietMs: number;
  /** Longest time for which this process, the client, did not run: no stall can be measured shorter. */
  readonly pauseMs: number;
  readonly records: number;
  readonly seconds: number;
}
const results: DrillResult[] = [];
let drills = 0;

/**
 * Runs `action` under an open loop of idempotent producers and a reader at the end, and judges what they saw: no error, nothing acknowledged
 * lost, nothing twice, order kept. The stall is the longest time between two acknowledgements of one partition.
 */
export async function drill(
  cluster: Kubernetes,
  client: Sluice,
  endpoint: string,
  name: string,
  action: () => Promise<void>,
): Promise<DrillResult> {
  const topic = `drill-${(drills += 1)}`;
  await createTopic(client, topic, PARTITIONS);
  await using open = new AsyncDisposableStack();
  const tail = await TailReader.start([endpoint], topic);
  const load = await startWorkload({
    endpoints: [endpoint],
    topic,
    partitions: PARTITIONS,
    producers: 2,
    ratePerPartition: RATE_PER_PARTITION,
  });
  // Of a drill that failed nothing goes on into the next; of one that did not, nothing is left here.
  open.defer(() => Promise.allSettled([load.stop(), tail.close()]).then(() => undefined));
  await sleep(SETTLE_MS);
  const quietFrom = performance.now();
  await sleep(QUIET_MS);
  const from = performance.now();
  const pauses = monitorEventLoopDelay({ resolution: 10 });
  pauses.enable();
  await action();
  await sleep(SETTLE_MS);
  const to = performance.now();
  pauses.disable();
  await load.stop();

  const { history } = load;
  const stall = history.longestStall(from, to);
  const each = history.longestStalls(from, to).map(({ partition, ms }) => `${partition}: ${Math.round(ms)}`);
  const result: DrillResult = {
    name,
    stallMs: Math.round(stall.ms),
    quietMs: Math.round(history.longestStall(quietFrom, from - 200).ms),
    pauseMs: Math.round(pauses.max / 1e6),
    records: history.acks.length,
    seconds: Math.round((to - from) / 1_000),
  };
  say(
    `${name}: longest stall ${result.stallMs} ms (${Math.round((stall.fromMs - from) / 100) / 10} s in, of ${result.seconds} s; ` +
      `partitions ${each.join(", ")}), ` +
      `before it ${result.quietMs} ms, the client's own longest pause ${result.pauseMs} ms; ${result.records} acknowledged`,
  );
  if (stall.ms > EXPLAINED_ABOVE_MS) {
    const fromMs = performance.timeOrigin + stall.fromMs;
    await keepLogs(cluster, { name, topic, partition: stall.partition, fromMs, toMs: fromMs + stall.ms });
  }
  expect(history.failures).toEqual([]);
  expect(history.acks).toHaveLength(load.sent);
  const reads = await readAll(endpoint, topic);
  expect(history.check(reads)).toEqual([]);
  expect(gaps(reads)).toEqual([]);
  await tail.until(reads.length, 20_000);
  await tail.close();
  expect(history.check(tail.reads)).toEqual([]);
  expect(gaps(tail.reads)).toEqual([]);
  await client.admin.deleteTopic(topic);
  results.push(result);
  return result;
}

/** The table that docs/kubernetes.md holds. */
export function table(): string {
  const rows = results.map(
    ({ name, stallMs, quietMs, pauseMs, seconds, records }) =>
      `| ${name} | ${stallMs} ms | ${quietMs} ms | ${pauseMs} ms | ${seconds} s | ${records} |`,
  );
  return [
    "| drill | longest stall | before it | pause of the client | took | records |",
    "| --- | --- | --- | --- | --- | --- |",
    ...rows,
  ].join("\n");
}
