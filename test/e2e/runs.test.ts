import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { crc32c, nativeCodecs } from "@sluice/codec";
import { BatchBuilder } from "@sluice/core/log";
import { codeOf } from "@sluice/core/model";
import type { Sluice } from "@sluice/client";
import { systemClock } from "@sluice/runtime";
import { createTopic, TestCluster } from "./support/cluster.ts";

const PARTITIONS = 8;
const WRITERS = 64;
const LOAD_MS = 4_500;
const text = new TextEncoder();

/**
 * Batches without a sequence, many at once: they travel as runs from the client to the journals, through memory that the links use again (and that these
 * clusters overwrite first). What was acknowledged must lie at the offset that was told, byte for byte.
 */
describe("runs of batches under load, while nodes and brokers die", () => {
  let cluster: TestCluster;
  let client: Sluice;
  beforeAll(async () => {
    cluster = await TestCluster.start({ name: "runs", stores: 4, brokers: 2, proxies: 2 });
    client = await cluster.connect();
  }, 120_000);
  afterAll(async () => {
    await client?.close();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  test("every acknowledged batch is where its answer said, and only batches that were sent are there", async () => {
    await cluster.run(async () => {
      await createTopic(client, "runs", PARTITIONS);
      const acknowledged = new Map<string, string>();
      const sent = new Set<string>();
      const failures: string[] = [];
      const producer = client.producer({ idempotent: false });
      const until = systemClock.monotonicMs() + LOAD_MS;
      const writer = async (w: number): Promise<void> => {
        for (let i = 0; systemClock.monotonicMs() < until; i += 1) {
          const value = `${w}/${i}/`.padEnd(20 + ((w * 7919 + i * 104_729) % 6_000), "x");
          const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs, bytesMax: 1024 * 1024 });
          builder.tryAppend(1, null, text.encode(value));
          sent.add(value);
          try {
            const { partition, baseOffset } = await producer.sendEncoded("runs", (w + i) % PARTITIONS, builder.close());
            acknowledged.set(`${partition}/${baseOffset}`, value);
          } catch (error) {
            failures.push(codeOf(error));
          }
        }
      };
      const load = Promise.all(Array.from({ length: WRITERS }, (_, w) => writer(w)));
      await systemClock.sleep(LOAD_MS / 3);
      await cluster.handle.kill("store-1");
      await systemClock.sleep(LOAD_MS / 3);
      await cluster.handle.kill("broker-1");
      await load;
      await producer.close();
      // Without a sequence a write in flight at a death may be unknown; nothing else may go wrong.
      expect(failures.filter((code) => code !== "OUTCOME_UNKNOWN")).toEqual([]);
      expect(acknowledged.size).toBeGreaterThan(1_000);

      const stored = new Map<string, string>();
      await using consumer = client.consumer({ topic: "runs", from: "earliest", untilEnd: true });
      for await (const record of consumer) stored.set(`${record.partition}/${record.offset}`, Buffer.from(record.value!).toString());
      const wrong = [...acknowledged].filter(([place, value]) => stored.get(place) !== value).map(([place]) => place);
      expect(wrong).toEqual([]);
      expect([...stored.values()].filter((value) => !sent.has(value))).toEqual([]);
    });
  }, 120_000);
});
