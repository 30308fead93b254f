import { connect } from "@sluice/client";
import { CODECS, type Codec, type MatrixClient, type Place, type ReadRecord } from "./client.ts";

const bytes = (base64: string): Uint8Array => Uint8Array.from(Buffer.from(base64, "base64"));
const base64 = (value: Uint8Array | null): string | null => (value === null ? null : Buffer.from(value).toString("base64"));

/** Sluice's own client on its own protocol, at `endpoints`. It has no record without a value. */
export const grpcClient = (endpoints: readonly string[]): MatrixClient => ({
  name: "grpc",
  codecs: CODECS,
  writesNoValue: false,
  async produce(_bootstrap, topic, records) {
    await using sluice = await connect({ endpoints });
    const places: Place[] = [];
    for (const codec of new Set(records.map((record) => record.codec)))
      places.push(
        ...(await send(
          codec,
          records.filter((record) => record.codec === codec),
        )),
      );
    return places;

    async function send(compression: Codec, some: typeof records): Promise<Place[]> {
      await using producer = sluice.producer({ topic, compression });
      const stored = await producer.sendMany(
        some.map(({ partition, key, value, headers, timestamp }) => ({
          partition,
          ...(key !== null && { key: bytes(key) }),
          value: bytes(value ?? ""),
          headers: headers.map(([name, header]) => [name, bytes(header ?? "")] as const),
          timestampMs: timestamp,
        })),
      );
      return stored.map(({ partition, offset }) => ({ partition, offset }));
    }
  },
  async consume(_bootstrap, topic) {
    await using sluice = await connect({ endpoints });
    const read: ReadRecord[] = [];
    for await (const { records } of sluice.consumer({ topic, from: "earliest", untilEnd: true }).batches())
      for (const { partition, offset, timestampMs, key, value, headers } of records)
        read.push({
          partition,
          offset,
          timestamp: timestampMs,
          key: base64(key),
          value: base64(value),
          headers: headers.map(([name, header]) => [name, base64(header)] as const),
        });
    return read;
  },
});
