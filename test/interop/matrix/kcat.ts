import { ensureKcat } from "@sluice/test-support";
import { CODECS, output, type MatrixClient, type Place, type ReadRecord, type SentRecord } from "./client.ts";

const KEY_END = "<end of key>";
const RECORD_END = "<end of record>";
const NEW_LINE = 10;

/** A process a record: which parts are missing holds for all records of one. */
async function produceOne(kcat: string, bootstrap: string, topic: string, record: SentRecord): Promise<void> {
  const { codec, partition, key, value, headers } = record;
  const args = ["-P", "-b", bootstrap, "-t", topic, "-p", String(partition), "-z", codec, "-D", RECORD_END, "-X", "acks=all"];
  if (key !== null) args.push("-K", KEY_END);
  if (value === null) args.push("-Z");
  for (const [name, header] of headers) args.push("-H", `${name}=${Buffer.from(header ?? "", "base64").toString("utf8")}`);
  const parts = [...(key === null ? [] : [Buffer.from(key, "base64"), Buffer.from(KEY_END)]), Buffer.from(value ?? "", "base64")];
  await output(kcat, args, Buffer.concat([...parts, Buffer.from(RECORD_END)]));
}

/** Takes apart what kcat writes with the format below. */
function parse(out: Buffer): ReadRecord[] {
  const read: ReadRecord[] = [];
  for (let at = 0; at < out.length;) {
    const end = out.indexOf(NEW_LINE, at);
    const [partition = 0, offset = 0, timestamp = 0, keyBytes = -1, valueBytes = -1] = out
      .toString("latin1", at, end)
      .split(" ")
      .map(Number);
    at = end + 1;
    const take = (length: number): string | null => {
      if (length < 0) return null;
      at += length;
      return out.toString("base64", at - length, at);
    };
    const [key, value] = [take(keyBytes), take(valueBytes)];
    const last = out.indexOf(NEW_LINE, at);
    const headers = out
      .toString("utf8", at, last)
      .split(",")
      .filter((text) => text !== "");
    at = last + 1;
    const pairs = headers.map(
      (text) => [text.slice(0, text.indexOf("=")), Buffer.from(text.slice(text.indexOf("=") + 1)).toString("base64")] as const,
    );
    read.push({ partition, offset, timestamp, key, value, headers: pairs });
  }
  return read;
}

export const kcatClient: MatrixClient = {
  name: "kcat",
  codecs: CODECS,
  setsTime: false,
  async produce(bootstrap, topic, records) {
    const kcat = await ensureKcat();
    const places: Place[] = [];
    for (const record of records) {
      await produceOne(kcat, bootstrap, topic, record);
      places.push({ partition: record.partition, offset: places.length });
    }
    return places;
  },
  async consume(bootstrap, topic) {
    const format = "%p %o %T %K %S\n%k%s%h\n";
    return parse(await output(await ensureKcat(), ["-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-e", "-q", "-f", format]));
  },
};
