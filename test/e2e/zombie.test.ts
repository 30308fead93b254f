import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type Sluice } from "@sluice/client";
import { errorCodeOf, errorNumber } from "@sluice/core/model";
import { SegmentReader, StoreReader } from "@sluice/partition-client";
import { SegmentStoreService } from "@sluice/proto/internal/v1/segment_store";
import { createRpcClient } from "@sluice/rpc";
import { systemClock } from "@sluice/runtime";
import { startTcpProxy, type TcpProxy } from "@sluice/test-support";
import { createTopic, TestCluster, until } from "./support/cluster.ts";
import { Inside, plainBatch } from "./support/inside.ts";
import { gaps, readAll } from "./support/reader.ts";
import { startWorkload } from "./support/workload.ts";

const PARTITIONS = 8;

describe("what has lost its place cannot do harm", () => {
  let cluster: TestCluster;
  let client: Sluice;
  let inside: Inside;
  beforeAll(async () => {
    cluster = await TestCluster.start({ name: "zombie" });
    client = await cluster.connect({ endpoints: [cluster.proxies[0]!] });
    inside = await Inside.open(cluster);
  }, 120_000);
  afterAll(async () => {
    await client?.close();
    await inside?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  const owners = async (topic: string) => (await client.admin.describeTopic(topic, { includePartitions: true })).partitionDetails;
  const loadOf = (topic: string) =>
    startWorkload({ endpoints: [cluster.proxies[0]!], topic, partitions: PARTITIONS, producers: 4, ratePerPartition: 100 });

  test("a broker stopped for 8 s, taken over, and woken up: none of its late appends completes", async () => {
    await cluster.run(async () => {
      await createTopic(client, "paused", PARTITIONS);
      const workload = await loadOf("paused");
      await sleep(2_000);
      const victim = (await owners("paused"))[0]!.owner;
      const before = (await owners("paused")).filter((p) => p.owner === victim);
      const entry = cluster.handle.spec.brokers.find(({ id }) => id === victim)!;
      const link = await inside.connect(entry.link, "log", { service: "broker", memberId: victim });

      await cluster.handle.pause(victim);
      // These wait in the paused process's socket: it takes them up as the owner that it still believes to be.
      const late = before.flatMap(({ partition }) =>
        [1, 2, 3].map(async (n) => {
          const value = `zombie/${partition}/${n}`;
          try {
            return { value, code: (await inside.produce(link, inside.partition("paused", partition), plainBatch([value]), 20_000)).code };
          } catch {
            return { value, code: errorNumber("OUTCOME_UNKNOWN") };
          }
        }),
      );
      const pausedAt = performance.now();
      await until("every partition of the paused broker has another owner", 7_500, async () =>
        (await owners("paused")).every((p) => p.owner !== victim && p.phase === "OPEN"),
      );
      const taken = await owners("paused");
      await sleep(Math.max(0, 8_000 - (performance.now() - pausedAt)));
      await cluster.handle.resume(victim);

      const outcomes = await Promise.all(late);
      expect(outcomes.filter(({ code }) => code === 0)).toEqual([]);
      await until("the woken broker has dropped what it had lost", 3_000, async () => {
        const { partitions } = await cluster.describeBroker(victim);
        return before.every(({ partition, epoch }) => {
          const mine = partitions.find((p) => p.topicId === inside.partition("paused", partition).topicId && p.partition === partition);
          return mine === undefined || mine.epoch > epoch || mine.phase !== "serving";
        });
      });
      for (const { partition, epoch } of before) expect(taken[partition]!.epoch).toBeGreaterThan(epoch);
      await sleep(1_500);
      await workload.stop();
      expect(workload.history.failures).toEqual([]);
      const reads = await readAll(cluster.proxies[1]!, "paused");
      expect(workload.history.check(reads)).toEqual([]);
      expect(gaps(reads)).toEqual([]);
      expect(reads.filter(({ value }) => value.startsWith("zombie/"))).toEqual([]);
    });
  }, 90_000);

  test("a storage node that was wiped and started under its old name is not its old self", async () => {
    await cluster.run(async () => {
      await createTopic(client, "wiped", PARTITIONS, { "segment.ms": "2000" });
      const workload = await loadOf("wiped");
      await sleep(2_500);
      const entry = cluster.handle.spec.stores[0]!;
      const old = await cluster.describeStore(entry.id);
      expect(old.segments.length).toBeGreaterThan(0);
      const [partition, segment] = Array.from({ length: PARTITIONS }, (_, p) => inside.partition("wiped", p))
        .flatMap((p) => inside.segments(p).map((s) => [p, s] as const))
        .find(([, s]) => s.replicas.some((r) => r.node === entry.id))!;

      await cluster.handle.kill(entry.id);
      await rm(join(cluster.handle.dir, "data", entry.id), { recursive: true });
      await cluster.handle.start(entry.id);
      const now = await cluster.describeStore(entry.id);
      expect(now.incarnation).not.toBe(old.incarnation);

      // Who looks for its old self is told.
      const expected = { service: "segment-store", memberId: entry.id, incarnation: old.incarnation } as const;
      await expect(inside.connect(entry.link, "bulk", expected)).rejects.toMatchObject({ code: "WRONG_INCARNATION" });
      const address = { topicId: partition.topicId, partition: partition.partition, epoch: segment.segment.epoch, k: segment.segment.k };
      const rpc = createRpcClient(SegmentStoreService, entry.rpc, { clock: systemClock });
      try {
        const fence = { address, epoch: segment.segment.epoch, incarnation: old.incarnation };
        const fenced = await rpc.fenceSegments({ segments: [fence] }, { timeoutMs: 2_000 });
        expect(fenced.results.map((r) => [errorCodeOf(r.code), r.trusted])).toEqual([["WRONG_INCARNATION", false]]);
      } finally {
        rpc.close();
      }
      const link = await inside.connect(entry.link, "bulk");
      const read = await inside.read(link, partition, segment, segment.base, { epoch: -1, committed: -1 });
      expect([errorCodeOf(read.code), read.bytes.length]).toEqual(["UNKNOWN_SEGMENT", 0]);

      // The cluster goes on, and gives the new node work.
      await until("a segment has a copy on the new node", 20_000, () =>
        Array.from({ length: PARTITIONS }, (_, p) => inside.segments(inside.partition("wiped", p)))
          .flat()
          .some((s) => s.replicas.some((r) => r.node === entry.id && r.incarnation === now.incarnation)),
      );
      await workload.stop();
      expect(workload.history.failures).toEqual([]);
      const reads = await readAll(cluster.proxies[1]!, "wiped");
      expect(workload.history.check(reads)).toEqual([]);
      expect(gaps(reads)).toEqual([]);
    });
  }, 90_000);

  describe("a proxy with stale metadata", () => {
    let etcd: TcpProxy;
    /** Before the data link of each storage node. */
    const links = new Map<string, TcpProxy>();
    beforeAll(async () => {
      for (const { id, link } of cluster.handle.spec.stores) {
        const proxy = await startTcpProxy(Number(link.split(":").at(-1)));
        links.set(id, proxy);
        await cluster.setFlags(id, { "listener.link.advertised": `127.0.0.1:${proxy.port}` });
      }
      etcd = await startTcpProxy(Number(cluster.handle.spec.etcd[0]!.client.split(":").at(-1)));
      await cluster.setFlags("proxy-2", { "metadata.endpoints": `127.0.0.1:${etcd.port}` });
      const restart = async (id: string): Promise<void> => {
        await cluster.handle.stop(id);
        await cluster.handle.start(id);
      };
      // Two storage nodes are always there: every partition goes on.
      await Promise.all(["store-1", "store-2", "proxy-2"].map(restart));
      await Promise.all(["store-3", "store-4"].map(restart));
    }, 60_000);
    afterAll(async () => {
      for (const proxy of links.values()) await proxy[Symbol.asyncDispose]();
      await etcd?.[Symbol.asyncDispose]();
    }, 60_000);

    test("never returns a suffix that recovery gave up", async () => {
      await cluster.run(async () => {
        await createTopic(client, "suffix", 1);
        const p = inside.partition("suffix", 0);
        const producer = client.producer({ topic: "suffix" });
        const send = (name: string, count: number) =>
          producer.sendMany(Array.from({ length: count }, (_, i) => ({ partition: 0, key: name, value: `${name}/0/${i + 1}|` })));
        expect((await send("kept", 10)).at(-1)?.offset).toBe(9);

        // The stale proxy has the partition open and has read it; so has a reader in this process, whose copy of the metadata ends here.
        await using stale = await connect({ endpoints: [cluster.proxies[1]!] });
        const seen: string[] = [];
        const consumer = stale.consumer({ topic: "suffix", from: "earliest" });
        const consuming = (async () => {
          for await (const record of consumer) seen.push(record.valueText()!);
        })();
        consuming.catch(() => undefined);
        await until("the stale proxy has read what was kept", 10_000, () => seen.length === 10);
        await using frozen = await Inside.open(cluster);
        await frozen.view.close();
        etcd.hold();

        const owner = (await owners("suffix"))[0]!;
        const old = inside.segments(p).find((s) => s.end === undefined)!;
        const [a, b, holder] = old.replicas.map((r) => r.node) as unknown as [string, string, string];
        const broker = cluster.handle.spec.brokers.find((one) => one.id === owner.owner)!;
        const toBroker = await inside.connect(broker.link, "log");
        const toHolder = await inside.connect(cluster.handle.spec.stores.find((one) => one.id === holder)!.link, "bulk");

        // The suffix gets to one copy only, and its owner dies before it can put it anywhere else.
        const cutOff = [links.get(a)!, links.get(b)!];
        for (const link of cutOff) link.hold();
        const unanswered = inside.produce(toBroker, p, plainBatch([1, 2, 3, 4, 5].map((n) => `given-up/0/${n}`)), 30_000);
        unanswered.catch(() => undefined);
        await until("one copy holds the suffix", 600, async () => {
          const node = await cluster.describeStore(holder);
          const copy = node.segments.find((s) => s.address?.topicId === p.topicId && s.address.epoch === old.segment.epoch);
          return copy?.last === 14n;
        });
        // It is there to be found, once it is on disk: a mark that says so would bring it out.
        await until("the suffix can be read by such a mark", 600, async () => {
          const control = await inside.read(toHolder, p, old, 10, { epoch: old.segment.epoch, committed: 14 });
          return control.bytes.includes("given-up");
        });
        await cluster.handle.kill(broker.id);
        await cluster.handle.pause(holder);
        for (const link of cutOff) {
          // What was on its way is lost.
          link.cut();
          link.release();
        }
        await expect(unanswered).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });

        const kept = await send("next", 8);
        expect(kept[0]?.offset).toBe(10);
        await until("recovery sealed below the suffix", 10_000, () => inside.segments(p).some((s) => s.base === 0 && s.end === 9));
        const newEpoch = inside.view.partition(p)!.state!.record.epoch;
        expect(newEpoch).toBeGreaterThan(old.segment.epoch);

        // From the first moment in which the holder of the suffix answers again.
        await cluster.handle.resume(holder);
        const stores = new StoreReader(frozen.context, frozen.view);
        const reader = new SegmentReader({ view: frozen.view, store: frozen.store, keys: frozen.keys, stores, objects: undefined });
        for (const endMs = performance.now() + 3_000; performance.now() < endMs; await sleep(20)) {
          for (const mark of [
            { epoch: newEpoch, committed: 17 },
            { epoch: -1, committed: -1 },
            { epoch: old.segment.epoch, committed: 9 },
          ]) {
            const read = await inside.read(toHolder, p, old, 10, mark);
            expect(read.bytes.includes("given-up")).toBe(false);
          }
          const read = await reader.read(p, 10, 1_000_000, undefined).catch(() => undefined);
          expect(Buffer.from(read?.batches ?? []).includes("given-up")).toBe(false);
        }
        stores.close();
        etcd.release();
        await until("the proxy has caught up", 15_000, () => seen.length === 18);
        expect(seen.slice(10)).toEqual(Array.from({ length: 8 }, (_, i) => `next/0/${i + 1}|`));
        await consumer.close();
        await producer.close();
        await cluster.handle.start(broker.id);
      });
    }, 90_000);
  });
});
