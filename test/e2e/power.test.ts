import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { setTimeout as sleep } from "node:timers/promises";
import type { Sluice } from "@sluice/client";
import { say } from "@sluice/test-support";
import { createTopic, TestCluster } from "./support/cluster.ts";
import { Inside } from "./support/inside.ts";
import { gaps, readAll } from "./support/reader.ts";
import { startWorkload } from "./support/workload.ts";

const PARTITIONS = 12;
const RATE_PER_PARTITION = 50;
const BEFORE_MS = 2_000;
const AWAY_MS = 8_000;
const AFTER_MS = 4_000;
const STALL_MAX_MS = 5_000;
const ROUNDS = Number(process.env["SLUICE_TEST_ROUNDS"] ?? 1);

/** One member of each kind at once, silent: what a machine that has lost power looks like to all others. No connection is reset. */
describe("a machine loses power under load, and comes back", () => {
  let cluster: TestCluster;
  let client: Sluice;
  let inside: Inside;
  let losses = 0;
  beforeAll(async () => {
    cluster = await TestCluster.start({ name: "power", proxies: 3, brokers: 3, stores: 3, controllers: 2 });
    client = await cluster.connect();
    inside = await Inside.open(cluster);
  }, 120_000);
  afterAll(async () => {
    await client?.close();
    await inside?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  async function lose(withLeader: boolean): Promise<void> {
    const n = 1 + ((losses += 1) % 3);
    const topic = `power-${losses}`;
    await createTopic(client, topic, PARTITIONS);
    const workload = await startWorkload({
      endpoints: cluster.proxies,
      topic,
      partitions: PARTITIONS,
      producers: 2,
      ratePerPartition: RATE_PER_PARTITION,
    });
    await sleep(BEFORE_MS);
    const proxy = cluster.handle.spec.proxies.find(({ grpc }) => grpc === workload.endpoint)!.id;
    const victims = [proxy, `broker-${n}`, `store-${n}`, ...(withLeader ? [inside.view.leader!.member] : [])];
    const lostAt = performance.now();
    await Promise.all(victims.map((id) => cluster.handle.pause(id)));
    await sleep(AWAY_MS);
    await Promise.all(victims.map((id) => cluster.handle.kill(id)));
    await Promise.all(victims.map((id) => cluster.handle.start(id)));
    await sleep(AFTER_MS);
    const endAt = performance.now();
    await workload.stop();

    const { history } = workload;
    const stall = history.longestStall(lostAt, endAt);
    const each = history.longestStalls(lostAt, endAt).map(({ partition, ms }) => `${partition}: ${Math.round(ms)}`);
    say(
      `${victims.join(", ")} without power: longest stall ${Math.round(stall.ms)} ms (${Math.round(stall.fromMs - lostAt)} ms after it; ` +
        `partitions ${each.join(", ")}); ${history.acks.length} acknowledged`,
    );
    expect(history.failures).toEqual([]);
    expect(history.acks).toHaveLength(workload.sent);
    const reads = await readAll(cluster.proxies[0]!, topic);
    expect(history.check(reads)).toEqual([]);
    expect(gaps(reads)).toEqual([]);
    expect(stall.ms).toBeLessThanOrEqual(STALL_MAX_MS);
    await client.admin.deleteTopic(topic);
  }
  const rounds = (withLeader: boolean) => async () => {
    for (let round = 0; round < ROUNDS; round += 1) await cluster.run(() => lose(withLeader));
  };

  test("proxy, broker, storage node", rounds(false), 60_000 * ROUNDS);
  test("proxy, broker, storage node and the leading controller", rounds(true), 60_000 * ROUNDS);
});
