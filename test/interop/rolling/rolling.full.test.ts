import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { setTimeout as sleep } from "node:timers/promises";
import type { Sluice } from "@sluice/client";
import { ensurePythonKafka, say } from "@sluice/test-support";
import { join } from "node:path";
import { createTopic, TestCluster } from "../../e2e/support/cluster.ts";
import type { Read, Stall } from "../../e2e/support/history.ts";
import { javaCommand } from "../java/java.ts";
import { againstKafka } from "../support/form.ts";
import { Load, type Cost } from "./load.ts";

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
    await event();
    const toMs = Date.now();
    const failed: string[] = [];
    for (const load of running) {
      const fail = (...texts: string[]): void => void failed.push(...texts.map((text) => `${load.name}: ${text}`));
      await load.finish();
      const quiet = load.cost(quietMs, fromMs);
      const cost = load.cost(fromMs, toMs);
      say(
        `${what}, ${load.name}, ${load.history.acks.length} records: ${described(cost, fromMs)}; in the 3 s before: ${described(quiet, fromMs)}`,
      );
      for (const text of load.told) say(`  told: ${text}`);
      fail(...load.errors, ...load.history.check(await readAll(sluice, `${what}-${load.name}`)));
      const twice = load.twice();
      if (twice.length > 0) fail(`${twice.length} delivered twice, first ${twice[0]}`);
      const changes = load.group.filter(({ atMs }) => atMs >= fromMs && atMs <= toMs);
      if (changes.length > 0) fail(`the group changed: ${changes.map(({ atMs, text }) => `+${atMs - fromMs} ms ${text}`).join(", ")}`);
      if (Math.max(cost.produce.ms, cost.consume.ms) > STALL_MAX_MS) fail(`a stall of over ${STALL_MAX_MS} ms: ${described(cost, fromMs)}`);
      if (failed.length > 0) say(load.log);
    }
    expect(failed).toEqual([]);
  }

  test("a rolling restart of all proxies", () => cluster.run(() => under("proxies", false, () => restart("proxy-1", "proxy-2"))), 180_000);
  test(
    "a rolling restart of all brokers",
    () => cluster.run(() => under("brokers", false, () => restart("broker-1", "broker-2", "broker-3"))),
    180_000,
  );
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

function described({ produce, consume, ackMs, readMs }: Cost, fromMs: number): string {
  const at = ({ ms, fromMs: beganMs }: Stall): string => `${ms} ms (at ${beganMs - fromMs})`;
  return `${at(produce)} without an acknowledgement, ${at(consume)} without a delivery, a record at most ${ackMs} ms to the one and ${readMs} ms to the other`;
}
/** A topic as it is stored now, through Sluice's own protocol. */
async function readAll(sluice: Sluice, topic: string): Promise<Read[]> {
  const reads: Read[] = [];
  const consumer = sluice.consumer({ topic, from: "earliest", untilEnd: true, signal: AbortSignal.timeout(60_000) });
  for await (const { records } of consumer.batches())
    for (const { partition, offset, value } of records) reads.push({ partition, offset, value: Buffer.from(value ?? []).toString("utf8") });
  return reads;
}
