import { spawn } from "node:child_process";
import { once } from "node:events";

/*
 * One topic, written by every client with every codec it has, and read by every other. A client of the matrix is a program:
 *
 *   PROGRAM ... produce BOOTSTRAP TOPIC          one line a record on standard input, in the order in which they are to be stored:
 *     {"partition":0,"codec":"gzip","key":BASE64|null,"value":BASE64|null,"headers":[[NAME,BASE64|null],...],"timestamp":MS}
 *     It waits for all acknowledgements (acks=all) and writes one line a record in the same order: {"partition":0,"offset":N}; exit code 0.
 *     Records of one codec in a row may go in one batch; the codec changes only between batches.
 *   PROGRAM ... consume BOOTSTRAP TOPIC COUNT    reads all partitions of the topic from the beginning until it has COUNT records, and writes a line each:
 *     {"partition":0,"offset":N,"timestamp":MS,"key":BASE64|null,"value":BASE64|null,"headers":[[NAME,BASE64|null],...]}
 *
 * or a pair of functions that do the same.
 */
export const CODECS = ["none", "gzip", "snappy", "lz4", "zstd"] as const;
export type Codec = (typeof CODECS)[number];

export interface SentRecord {
  readonly partition: number;
  readonly codec: Codec;
  /** Base64; null is a missing one. */
  readonly key: string | null;
  readonly value: string | null;
  readonly headers: ReadonlyArray<readonly [string, string | null]>;
  readonly timestamp: number;
}
export interface ReadRecord {
  readonly partition: number;
  readonly offset: number;
  readonly timestamp: number;
  readonly key: string | null;
  readonly value: string | null;
  readonly headers: ReadonlyArray<readonly [string, string | null]>;
}
export interface Place {
  readonly partition: number;
  readonly offset: number;
}
export interface MatrixClient {
  readonly name: string;
  /** Those that it can compress with. */
  readonly codecs: readonly Codec[];
  /** False where the client's interface cannot set a record's time. */
  readonly setsTime?: boolean;
  /** False where it cannot write a record without a value. */
  readonly writesNoValue?: boolean;
  produce(bootstrap: string, topic: string, records: readonly SentRecord[]): Promise<readonly Place[]>;
  consume(bootstrap: string, topic: string, count: number): Promise<readonly ReadRecord[]>;
}

const TIMEOUT_MS = 60_000;

/** A client that is a program; `command` gives its words up to `produce` or `consume`, and builds it where needed. */
export function programClient(name: string, command: () => Promise<readonly string[]>, codecs: readonly Codec[] = CODECS): MatrixClient {
  const lines = async <T>(more: readonly string[], input: string): Promise<T[]> => {
    const [program = "", ...args] = await command();
    const out = await output(program, [...args, ...more], input);
    const text = out.toString("utf8").split("\n");
    return text.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line) as T);
  };
  return {
    name,
    codecs,
    produce: (bootstrap, topic, records) =>
      lines<Place>(["produce", bootstrap, topic], records.map((record) => `${JSON.stringify(record)}\n`).join("")),
    consume: (bootstrap, topic, count) => lines<ReadRecord>(["consume", bootstrap, topic, String(count)], ""),
  };
}

/** Runs a program on `input` and gives what it wrote. Throws with its last words when it fails. */
export async function output(program: string, args: readonly string[], input: string | Uint8Array = ""): Promise<Buffer> {
  const child = spawn(program, [...args], { stdio: ["pipe", "pipe", "pipe"], timeout: TIMEOUT_MS, killSignal: "SIGKILL" });
  const out: Buffer[] = [];
  let err = "";
  child.stdout.on("data", (data: Buffer) => void out.push(data));
  child.stderr.setEncoding("utf8").on("data", (data: string) => void (err = (err + data).slice(-4_000)));
  child.stdin.on("error", () => undefined);
  child.stdin.end(input);
  const [code, signal] = (await once(child, "close")) as [number | null, string | null];
  if (code !== 0) throw new Error(`${program} ${args.join(" ")}: ended with ${code ?? signal}\n${err}`);
  return Buffer.concat(out);
}
