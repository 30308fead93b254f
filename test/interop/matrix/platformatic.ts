import { Consumer, MessagesStreamModes, Producer } from "@platformatic/kafka";
import { CODECS, type Codec, type MatrixClient, type Place, type ReadRecord } from "./client.ts";

const MiB = 1024 * 1024;
const base64 = (value: Buffer | null | undefined): string | null =>
  value === null || value === undefined ? null : value.toString("base64");

export const platformaticClient: MatrixClient = {
  name: "@platformatic/kafka",
  codecs: CODECS,
  async produce(bootstrap, topic, records) {
    const producer = new Producer({ clientId: "matrix", bootstrapBrokers: bootstrap.split(","), idempotent: true });
    const places: Place[] = [];
    try {
      for (const codec of new Set(records.map((record) => record.codec))) {
        const messages = records
          .filter((record) => record.codec === codec)
          .map(({ partition, key, value, headers, timestamp }) => ({
            topic,
            partition,
            ...(key !== null && { key: Buffer.from(key, "base64") }),
            ...(value !== null && { value: Buffer.from(value, "base64") }),
            headers: new Map(headers.map(([name, header]) => [Buffer.from(name), Buffer.from(header ?? "", "base64")])),
            timestamp: BigInt(timestamp),
          }));
        const { offsets } = await producer.send({ messages, acks: -1, compression: codec });
        const base = Number(offsets?.[0]?.offset);
        places.push(...messages.map(({ partition }, i) => ({ partition, offset: base + i })));
      }
    } finally {
      await producer.close();
    }
    return places;
  },
  async consume(bootstrap, topic, count) {
    const consumer = new Consumer({ clientId: "matrix", groupId: "matrix-platformatic", bootstrapBrokers: bootstrap.split(",") });
    const read: ReadRecord[] = [];
    try {
      const stream = await consumer.consume({ topics: [topic], mode: MessagesStreamModes.EARLIEST, maxWaitTime: 200 });
      for await (const { partition, offset, timestamp, key, value, headerEntries } of stream) {
        const headers = headerEntries.map(([name, header]) => [name.toString("utf8"), base64(header)] as const);
        read.push({ partition, offset: Number(offset), timestamp: Number(timestamp), key: base64(key), value: base64(value), headers });
        if (read.length >= count) break;
      }
    } finally {
      await consumer.close(true);
    }
    return read;
  },
};

/** Codecs of the batches of a partition as they are stored, in order, each once. */
export async function storedCodecs(addresses: readonly string[], topic: string, partition: number): Promise<Codec[]> {
  const consumer = new Consumer({ clientId: "raw", groupId: "raw", bootstrapBrokers: [...addresses] });
  try {
    const described = (await consumer.metadata({ topics: [topic] })).topics.get(topic)!;
    const { responses } = await consumer.fetch({
      node: described.partitions[partition]!.leader,
      maxWaitTime: 1_000,
      minBytes: 1,
      maxBytes: MiB,
      topics: [
        {
          topicId: described.id,
          partitions: [{ partition, currentLeaderEpoch: -1, fetchOffset: 0n, lastFetchedEpoch: -1, partitionMaxBytes: MiB }],
        },
      ],
    });
    const batches = responses.flatMap(({ partitions }) => partitions.flatMap(({ records }) => records ?? []));
    return [...new Set(batches.map(({ attributes }) => CODECS[attributes & 7]!))];
  } finally {
    await consumer.close(true);
  }
}
