import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { setTimeout as sleep } from "node:timers/promises";
import type { Sluice } from "@sluice/client";
import { ensurePythonKafka, say } from "@sluice/test-support";
import { join } from "node:path";
import { createTopic, TestCluster } from "../../e2e/support/cluster.ts";
import type { Read } from "../../e2e/support/history.ts";
import { javaCommand } from "../java/java.ts";
import { againstKafka } from "../support/form.ts";
import { Load } from "./load.ts";

const PARTITIONS = 8;
const RECORDS_PER_SECOND = 200;
const STALL_MAX_MS = 1_000;
/** The first seconds open connections, and compile in a JVM. */
const WARM_MS = 4_000;
/** Between two restarts, as a rolling update waits for readiness; what one of them costs late must not be lost. */
const BETWEEN_MS = 3_000;

interface Application {
  readonly name: string;
  readonly command: () => Promise<readonly string[]>;
  /** Makes it ask for the metadata every second, so that it hears of proxies that come; by itself it asks every five minutes. */
  readonly attentive: string;
}
const confluent = async (): Promise<string[]> => [await ensurePythonKafka(), join(import.meta.dirname, "confluent_load.py")];
const APPLICATIONS: readonly Application[] = [
  { name: "java", command: () => javaCommand("4", "Load"), attentive: "metadata.max.age.ms=1000" },
  { name: "librdkafka", command: confluent, attentive: "topic.metadata.refresh.interval.ms=1000" },
];

describe("applications do not notice", () => {
  let cluster: TestCluster;
  let sluice: Sluice;
  beforeAll(async () => {
    if (againstKafka) throw new Error("restarts have no baseline: the limit is our own");
    for (const { command } of APPLICATIONS) await command();
  }, 600_000);
  beforeAll(async () => {
    cluster = await TestCluster.start({ name: "rolling", proxies: 4, brokers: 3, stores: 4, zones: 1 });
    sluice = await cluster.connect();
    await leave("proxy-3", "proxy-4");
  }, 240_000);
  afterAll(async () => {
    await sluice?.close();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  const leave = async (...ids: string[]): Promise<void> => {
    for (const id of ids) await cluster.handle.stop(id);
  };
  const come = async (...ids: string[]): Promise<void> => {
    for (const id of ids) await cluster.handle.start(id);
  };
  /** SIGTERM, and a start when it is gone; the next one when it serves. */
  async function restart(...ids: string[]): Promise<void> {
    for (const id of ids) {
      await leave(id);
      await come(id);
      await sleep(BETWEEN_MS);
    }
  }

  /** Each application on a topic of its own, all at the same time. */
  async function under(what: string, isAttentive: boolean, event: () => Promise<void>): Promise<void> {
    await using loads = new AsyncDisposableStack();
    const running: Load[] = [];
    for (const { name, command, attentive } of APPLICATIONS) {
      const settings = isAttentive ? [attentive] : [];
      const topic = `${what}-${name}`;
      await createTopic(sluice, topic, PARTITIONS);
      const bootstrap = cluster.kafka.slice(0, 2).join(",");
      running.push(
        loads.use(
          new Load({
            name,
            command: await command(),
            bootstrap,
            topic,
            partitions: PARTITIONS,
            recordsPerSecond: RECORDS_PER_SECOND,
            settings,
          }),
        ),
      );
    }
    for (const load of running) await load.flows(30_000);
    await sleep(WARM_MS);
    const quietMs = Date.now();
    await sleep(BETWEEN_MS);
    const fromMs = Date.now();
    const groups = running.map((load) => load.group.length);
    await event();
    const toMs = Date.now();
    const failed: string[] = [];
    for (const [i, load] of running.entries()) {
      await load.finish();
      const topic = `${what}-${load.name}`;
      const quiet = load.cost(quietMs, fromMs);
      const cost = load.cost(fromMs, toMs);
      const at = (stall: { ms: number; fromMs: number; partition: number }): string =>
        `${stall.ms} ms at +${stall.fromMs - fromMs} in ${stall.partition}`;
      say(
        `${what}, ${load.name}: longest without an acknowledgement ${at(cost.produce)} (before ${quiet.produce.ms}), without a delivery ${at(cost.consume)} ` +
          `(before ${quiet.consume.ms}); longest to an acknowledgement ${cost.ackMs} ms (${quiet.ackMs}), to a member ${cost.readMs} ms (${quiet.readMs}); ` +
          `${load.history.acks.length} records, ${load.told.length} told, ${load.group.length - (groups[i] ?? 0)} changes of the group`,
      );
      for (const line of load.told.slice(0, 10)) say(`  told ${line}`);
      for (const line of load.group) say(`  group +${Number(line.split(" ")[0]) - fromMs} ${line}`);
      failed.push(...load.errors, ...load.history.check(await readAll(sluice, topic)));
      const twice = load.twice();
      if (twice.length > 0) failed.push(`${load.name}: ${twice.length} delivered twice, first ${twice[0]}`);
      if (Math.max(cost.produce.ms, cost.consume.ms) > STALL_MAX_MS) failed.push(`${load.name}: a stall of over ${STALL_MAX_MS} ms`);
    }
    expect(failed).toEqual([]);
  }

  test("a rolling restart of all proxies", () => cluster.run(() => under("proxies", false, () => restart("proxy-1", "proxy-2"))), 180_000);
  test(
    "two proxies, four, two",
    () =>
      cluster.run(() =>
        under("scale", true, async () => {
          await come("proxy-3", "proxy-4");
          await sleep(BETWEEN_MS);
          for (const id of ["proxy-3", "proxy-4"])
            expect(await cluster.metric(id, "sluice_proxy_kafka_connections_count")).toBeGreaterThan(0);
          await leave("proxy-3", "proxy-4");
          await sleep(BETWEEN_MS);
        }),
      ),
    180_000,
  );
});

/** A topic as it is stored now, through Sluice's own protocol. */
async function readAll(sluice: Sluice, topic: string): Promise<Read[]> {
  const reads: Read[] = [];
  const consumer = sluice.consumer({ topic, from: "earliest", untilEnd: true, signal: AbortSignal.timeout(60_000) });
  for await (const { records } of consumer.batches())
    for (const { partition, offset, value } of records) reads.push({ partition, offset, value: Buffer.from(value ?? []).toString("utf8") });
  return reads;
}
