import { compressionsAlgorithms } from "@platformatic/kafka";
import { CompressionCodecs, CompressionTypes, Kafka, logLevel, type IHeaders } from "kafkajs";
import { CODECS, type Codec, type MatrixClient, type Place, type ReadRecord } from "./client.ts";

export const codecTypes: Readonly<Record<Codec, CompressionTypes>> = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};
const brought = CompressionCodecs as Record<number, () => object>;
// It brings gzip alone, and takes the others from who has them.
for (const codec of ["snappy", "lz4", "zstd"] as const) {
  const { compressSync, decompressSync } = compressionsAlgorithms[codec];
  brought[codecTypes[codec]] = () => ({
    compress: (encoder: { readonly buffer: Buffer }) => Promise.resolve(compressSync(encoder.buffer)),
    decompress: (data: Buffer) => Promise.resolve(decompressSync(data)),
  });
}

const bytes = (base64: string | null): Buffer | null => (base64 === null ? null : Buffer.from(base64, "base64"));
const base64 = (value: Buffer | string | null | undefined): string | null =>
  value === null || value === undefined ? null : Buffer.from(value).toString("base64");
/** Headers of one name share an entry. */
function toHeaders(headers: ReadonlyArray<readonly [string, string | null]>): IHeaders {
  const out: Record<string, Buffer[]> = {};
  for (const [name, value] of headers) (out[name] ??= []).push(Buffer.from(value ?? "", "base64"));
  return out;
}
const fromHeaders = (headers: IHeaders): Array<readonly [string, string | null]> =>
  Object.entries(headers).flatMap(([name, value]) => [value].flat().map((one) => [name, base64(one)] as const));

const connection = (bootstrap: string): Kafka =>
  new Kafka({ clientId: "matrix", brokers: bootstrap.split(","), logLevel: logLevel.NOTHING });

export const kafkajsClient: MatrixClient = {
  name: "kafkajs",
  codecs: CODECS,
  async produce(bootstrap, topic, records) {
    const producer = connection(bootstrap).producer({
      idempotent: true,
      createPartitioner:
        () =>
        ({ message }) =>
          message.partition ?? 0,
    });
    await producer.connect();
    const places: Place[] = [];
    for (const codec of new Set(records.map((record) => record.codec))) {
      const messages = records
        .filter((record) => record.codec === codec)
        .map(({ partition, key, value, headers, timestamp }) => ({
          partition,
          key: bytes(key),
          value: bytes(value),
          headers: toHeaders(headers),
          timestamp: String(timestamp),
        }));
      const [stored] = await producer.send({ topic, acks: -1, compression: codecTypes[codec], messages });
      const base = Number(stored?.baseOffset);
      places.push(...messages.map(({ partition }, i) => ({ partition, offset: base + i })));
    }
    await producer.disconnect();
    return places;
  },
  async consume(bootstrap, topic, count) {
    const consumer = connection(bootstrap).consumer({ groupId: "matrix-kafkajs", maxWaitTimeInMs: 200 });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    const read: ReadRecord[] = [];
    try {
      await new Promise<void>((resolve, reject) => {
        consumer.on("consumer.crash", ({ payload }) => reject(payload.error));
        consumer
          .run({
            eachMessage: ({ partition, message: { offset, timestamp, key, value, headers } }) => {
              const place = { partition, offset: Number(offset), timestamp: Number(timestamp) };
              read.push({ ...place, key: base64(key), value: base64(value), headers: fromHeaders(headers ?? {}) });
              if (read.length >= count) resolve();
              return Promise.resolve();
            },
          })
          .catch(reject);
      });
    } finally {
      await consumer.disconnect();
    }
    return read;
  },
};
