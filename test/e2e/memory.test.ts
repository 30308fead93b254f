import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { setTimeout as sleep } from "node:timers/promises";
import type { Sluice } from "@sluice/client";
import { ConsumeService, DataFormat } from "@sluice/proto/v1/consume";
import { createRpcClient } from "@sluice/rpc";
import { systemClock } from "@sluice/runtime";
import { say, startTcpProxy, type TcpProxy } from "@sluice/test-support";
import { createTopic, TestCluster } from "./support/cluster.ts";
import { gaps, readAll } from "./support/reader.ts";
import { startWorkload } from "./support/workload.ts";

const MiB = 1024 * 1024;
const PARTITIONS = 16;
const LOAD_MS = 15_000;
const BROKER_RSS_MAX = 512 * MiB;
const SLOW_BYTES_PER_SECOND = 1_000_000;
const READERS = 16;
const CREDIT_BYTES = 4 * MiB;
/** The largest batch may come on top of the credit. */
const BATCH_BYTES = 1 * MiB;
/** What a process' memory moves by itself. */
const SLACK_BYTES = 32 * MiB;

describe("memory", () => {
  let cluster: TestCluster;
  let client: Sluice;
  let slow: TcpProxy;
  beforeAll(async () => {
    cluster = await TestCluster.start({ name: "memory", proxies: 1, brokers: 1 });
    const store = cluster.handle.spec.stores[0]!;
    slow = await startTcpProxy(Number(store.link.split(":").at(-1)), { bytesPerSecond: SLOW_BYTES_PER_SECOND });
    await cluster.handle.stop(store.id);
    await cluster.setFlags(store.id, { "listener.link.advertised": `127.0.0.1:${slow.port}` });
    await cluster.handle.start(store.id);
    client = await cluster.connect();
    // Small segments: nodes are chosen anew often, so the slow one is sure to be among them.
    await createTopic(client, "load", PARTITIONS, { "segment.bytes": String(4 * MiB) });
  }, 120_000);
  afterAll(async () => {
    await client?.close();
    await cluster?.[Symbol.asyncDispose]();
    await slow?.[Symbol.asyncDispose]();
  }, 60_000);

  test("a broker at full load with one storage node at 1 MB/s stays below 512 MiB", async () => {
    await cluster.run(async () => {
      const workload = await startWorkload({
        endpoints: cluster.proxies,
        topic: "load",
        partitions: PARTITIONS,
        producers: 4,
        recordBytes: 1_000,
      });
      let largest = 0;
      for (const endMs = performance.now() + LOAD_MS; performance.now() < endMs; await sleep(100))
        largest = Math.max(largest, await cluster.rssBytes("broker-1"));
      await workload.stop();
      const slowBytes = await cluster.metric("store-1", "sluice_store_append_bytes_total");
      say(
        `broker with a slow storage node: ${Math.round(largest / MiB)} MiB at most, ${Math.round((workload.sent * 1_000) / MiB)} MiB written, ` +
          `${Math.round(slowBytes / MiB)} MiB of them to the slow node`,
      );
      expect(largest).toBeLessThan(BROKER_RSS_MAX);
      expect(slowBytes).toBeGreaterThan(SLOW_BYTES_PER_SECOND);
      expect(workload.history.failures).toEqual([]);
      const reads = await readAll(cluster.proxies[0]!, "load");
      expect(workload.history.check(reads)).toEqual([]);
      expect(gaps(reads)).toEqual([]);
    });
  }, 180_000);

  test("consumers that stop reading cost their proxy no more than their credit", async () => {
    await cluster.run(async () => {
      // What the proxy keeps for everybody is filled before.
      await readAll(cluster.proxies[0]!, "load");
      const sentBytes = () => cluster.metric("proxy-1", "sluice_proxy_consume_bytes_total");
      const [before, sentBefore] = [await cluster.rssBytes("proxy-1"), await sentBytes()];
      const readers = Array.from({ length: READERS }, () => createRpcClient(ConsumeService, cluster.proxies[0]!, { clock: systemClock }));
      try {
        for (const reader of readers) {
          const stream = reader.consume({ timeoutMs: Infinity });
          const start = {
            topic: "load",
            position: { at: { case: "earliest" as const, value: {} } },
            format: DataFormat.BATCHES,
            creditBytes: CREDIT_BYTES,
          };
          stream.write({ request: { case: "start", value: start } });
        }
        let largest = 0;
        for (const endMs = performance.now() + 8_000; performance.now() < endMs; await sleep(100))
          largest = Math.max(largest, await cluster.rssBytes("proxy-1"));
        const sent = (await sentBytes()) - sentBefore;
        say(
          `${READERS} consumers that do not read: ${Math.round(sent / MiB)} MiB given to them, proxy from ${Math.round(before / MiB)} to ${Math.round(largest / MiB)} MiB`,
        );
        expect(sent).toBeGreaterThan((READERS * CREDIT_BYTES) / 2);
        expect(sent).toBeLessThanOrEqual(READERS * (CREDIT_BYTES + BATCH_BYTES));
        expect(largest - before).toBeLessThanOrEqual(READERS * (CREDIT_BYTES + BATCH_BYTES) + SLACK_BYTES);
      } finally {
        for (const reader of readers) reader.close();
      }
      // The others are served all the while, and after.
      const reads = await readAll(cluster.proxies[0]!, "load");
      expect(gaps(reads)).toEqual([]);
    });
  }, 120_000);
});
