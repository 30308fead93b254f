import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import type { Sluice } from "@sluice/client";
import { createTopic, TestCluster, until } from "./support/cluster.ts";
import type { Read } from "./support/history.ts";
import { gaps, readAll, TailReader } from "./support/reader.ts";
import { startWorkload, type Workload } from "./support/workload.ts";

const PARTITIONS = 16;
const PRODUCERS = 4;
const RECORDS = 200_000;
const RECORDS_PER_PARTITION = RECORDS / PARTITIONS / PRODUCERS;
const KiB = 1024;
const MiB = 1024 * KiB;
const JOURNAL_FILE_BYTES = 2 * MiB;
/** Of all four nodes when nothing is kept: the file that is written to, what is not worth to be copied, and four spare ones each. */
const JOURNAL_LEFT_BYTES = 4 * (3 + 4) * JOURNAL_FILE_BYTES;

describe("200,000 records from four producers through one proxy, read through the other", () => {
  let cluster: TestCluster;
  let client: Sluice;
  beforeAll(async () => {
    cluster = await TestCluster.start({ name: "roundtrip", s3: true, config: { "journal.fileBytes": String(JOURNAL_FILE_BYTES) } });
    client = await cluster.connect();
  }, 120_000);
  afterAll(async () => {
    await client?.close();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  async function produce(topic: string): Promise<Workload> {
    const workload = await startWorkload({
      endpoints: [cluster.proxies[0]!],
      topic,
      partitions: PARTITIONS,
      producers: PRODUCERS,
      recordsPerPartition: RECORDS_PER_PARTITION,
    });
    await workload.finished();
    await workload.stop();
    expect(workload.history.failures).toEqual([]);
    expect(workload.history.acks).toHaveLength(RECORDS);
    return workload;
  }
  function expectAll(workload: Workload, reads: readonly Read[]): void {
    expect(reads).toHaveLength(RECORDS);
    expect(gaps(reads)).toEqual([]);
    expect(workload.history.check(reads)).toEqual([]);
  }

  /** Of all storage nodes together. */
  async function space(): Promise<{ liveBytes: number; journalBytes: number }> {
    const nodes = await Promise.all(cluster.handle.spec.stores.map(({ id }) => cluster.describeStore(id)));
    return {
      liveBytes: nodes.reduce((sum, node) => sum + Number(node.liveBytes), 0),
      journalBytes: nodes.reduce((sum, node) => sum + Number(node.journalBytes), 0),
    };
  }

  test("live, and again from the start: every record once, in order, the same bytes", async () => {
    await cluster.run(async () => {
      await createTopic(client, "live", PARTITIONS);
      const tail = await TailReader.start([cluster.proxies[1]!], "live");
      const workload = await produce("live");
      await tail.until(RECORDS, 60_000);
      await tail.close();
      expectAll(workload, tail.reads);
      expectAll(workload, await readAll(cluster.proxies[1]!, "live"));
      // Its space is not in the way of the next test.
      await client.admin.deleteTopic("live");
    });
  }, 180_000);

  test("from objects, after every segment was offloaded and the storage nodes' copies are gone", async () => {
    await cluster.run(async () => {
      const config = { "segment.bytes": String(256 * KiB), "segment.ms": "2000", "offload.grace.ms": "500" };
      await createTopic(client, "history", PARTITIONS, config);
      const workload = await produce("history");
      const { topicId } = await client.admin.describeTopic("history");
      await until("every segment but empty tails is LOCAL_DELETED", 120_000, async () => {
        const { partitionDetails } = await client.admin.describeTopic("history", { includePartitions: true });
        const gone = partitionDetails.map((p) => p.segments.filter((s) => s.phase === "LOCAL_DELETED"));
        const records = gone.reduce((sum, segments) => sum + Math.max(-1, ...segments.map((s) => s.end)) + 1, 0);
        const left = partitionDetails.flatMap((p) => p.segments.filter((s) => s.phase !== "LOCAL_DELETED" && s.phase !== "OPEN"));
        if (records === RECORDS && left.length === 0) return gone.flat().length > 2 * PARTITIONS;
        return `${records} records, left: ${left.map((s) => `${s.segmentId} ${s.phase} ${s.base}-${s.end}`).join(", ")}`;
      });
      await until("no storage node holds a copy", 30_000, async () => {
        const copies: string[] = [];
        for (const store of cluster.handle.spec.stores) {
          const node = await cluster.describeStore(store.id);
          if (node.truncated) return "the list is cut";
          for (const s of node.segments)
            if (s.address?.topicId === topicId && s.last >= s.base && s.status !== "DELETED")
              copies.push(`${store.id} ${s.address.partition} ${s.address.epoch}-${s.address.k} ${s.status} ${s.base}-${s.last}`);
        }
        return copies.length === 0 || copies.join(", ");
      });
      await until("the journals have given the space back", 60_000, async () => {
        const { liveBytes, journalBytes } = await space();
        return (liveBytes <= MiB && journalBytes <= JOURNAL_LEFT_BYTES) || `${liveBytes} live of ${journalBytes} bytes`;
      });

      const from = (source: string) => cluster.metric("proxy-2", "sluice_proxy_read_bytes_total", `source="${source}"`);
      const [stores, objects] = [await from("storage node"), await from("object")];
      expectAll(workload, await readAll(cluster.proxies[1]!, "history"));
      expect(await from("object")).toBeGreaterThan(objects + RECORDS * 100);
      expect(await from("storage node")).toBe(stores);
    });
  }, 300_000);
});
