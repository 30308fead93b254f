import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import type { Sluice } from "@sluice/client";
import { createTopic, TestCluster, until } from "../../e2e/support/cluster.ts";
import { againstKafka } from "../support/form.ts";
import type { MatrixClient, Place, ReadRecord, SentRecord } from "./client.ts";
import { matrixClients, prepareMatrixClients } from "./clients.ts";
import { storedCodecs } from "./platformatic.ts";

const TOPIC = "matrix";
const base64 = (text: string | Uint8Array): string => Buffer.from(text).toString("base64");
const BINARY = base64(Uint8Array.from({ length: 256 }, (_, i) => i));

/** A key, a binary value, a missing key, an empty value, headers that repeat; enough bytes that every codec compresses. */
function recordsOf(client: MatrixClient, partition: number, startMs: number): SentRecord[] {
  return client.codecs.flatMap((codec, row) => {
    const common = { partition, codec };
    const at = (i: number) => startMs + row * 100 + i;
    const shapes: Array<Pick<SentRecord, "key" | "value" | "headers">> = [
      { key: base64(`key-${codec}`), value: base64(`${client.name} ${codec} `.repeat(50)), headers: [["h", base64("1")]] },
      { key: null, value: BINARY, headers: [] },
      {
        key: BINARY,
        value: base64(""),
        headers: [
          ["a", base64("x")],
          ["a", base64("y")],
          ["empty", base64("")],
        ],
      },
      { key: base64("tombstone"), value: null, headers: [] },
    ];
    const able = shapes.filter(({ value }) => value !== null || client.writesNoValue !== false);
    return able.map((shape, i) => ({ ...common, ...shape, timestamp: at(i) }));
  });
}

describe("what one client writes every other reads", () => {
  const startMs = Date.now() - 3_600_000;
  let cluster: TestCluster;
  let sluice: Sluice;
  let clients: MatrixClient[] = [];
  let bootstrap = "";
  const sent = new Map<string, { records: SentRecord[]; places: readonly Place[] }>();
  beforeAll(prepareMatrixClients, 600_000);
  beforeAll(async () => {
    if (againstKafka) throw new Error("the matrix has no baseline: it holds clients against each other");
    cluster = await TestCluster.start({ name: "matrix", zones: 1 });
    sluice = await cluster.connect();
    clients = matrixClients(cluster.proxies);
    bootstrap = cluster.kafka.join(",");
    await createTopic(sluice, TOPIC, clients.length);
  }, 300_000);
  afterAll(async () => {
    await sluice?.close();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  test.each(matrixClients([]).map(({ name }, partition) => ({ name, partition })))(
    "$name writes with every codec that it has",
    ({ name, partition }) =>
      cluster.run(async () => {
        const client = clients[partition]!;
        const records = recordsOf(client, partition, startMs);
        const places = await client.produce(bootstrap, TOPIC, records);
        expect(places).toEqual(records.map((_, offset) => ({ partition, offset })));
        sent.set(name, { records, places });
        // One proxy may know of the last batch a moment later than the one that took it.
        let stored: readonly string[] = [];
        await until("every codec is stored", 10_000, async () => {
          stored = await storedCodecs(cluster.kafka, TOPIC, partition);
          return client.codecs.every((codec) => stored.includes(codec));
        });
        expect(stored).toEqual(expect.arrayContaining([...client.codecs]));
      }),
    90_000,
  );

  test.each(matrixClients([]).map(({ name }, index) => ({ name, index })))(
    "$name reads what all have written",
    ({ index }) =>
      cluster.run(async () => {
        expect(sent.size).toBe(clients.length);
        const count = [...sent.values()].reduce((sum, { records }) => sum + records.length, 0);
        const read = await clients[index]!.consume(bootstrap, TOPIC, count);
        expect(byPlace(read)).toEqual(byPlace(await expected(count)));
      }),
    90_000,
  );

  /** What was sent; where a client cannot set the time, that of the first reader. */
  async function expected(count: number): Promise<ReadRecord[]> {
    const timed = clients.every(({ setsTime }) => setsTime !== false) ? [] : await clients[0]!.consume(bootstrap, TOPIC, count);
    const times = new Map(timed.map(({ partition, offset, timestamp }) => [`${partition}/${offset}`, timestamp]));
    return clients.flatMap((client) => {
      const { records, places } = sent.get(client.name)!;
      return records.map(({ key, value, headers, timestamp }, i) => {
        const place = places[i]!;
        const stored = client.setsTime === false ? (times.get(`${place.partition}/${place.offset}`) ?? 0) : timestamp;
        return { ...place, timestamp: stored, key, value, headers };
      });
    });
  }
});

const byPlace = (records: readonly ReadRecord[]): ReadRecord[] =>
  records.toSorted((a, b) => a.partition - b.partition || a.offset - b.offset);
