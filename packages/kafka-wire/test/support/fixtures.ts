import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface Fixture {
  readonly name: string;
  readonly version: number;
  readonly bytes: Uint8Array;
  /** What Kafka's own codec read out of the bytes. */
  readonly json: Readonly<Record<string, unknown>>;
}
const path = join(import.meta.dirname, "../../testdata/messages.txt");

/** Frames that Apache Kafka's codec wrote and read: see `tools/record-fixtures.ts`. */
export const fixtures: readonly Fixture[] = readFileSync(path, "utf8")
  .trimEnd()
  .split("\n")
  .slice(1)
  .map((line) => {
    const [name, version, hex, ...json] = line.split(" ") as [string, string, string, ...string[]];
    return {
      name,
      version: Number(version),
      bytes: new Uint8Array(Buffer.from(hex, "hex")),
      json: JSON.parse(json.join(" ")) as Record<string, unknown>,
    };
  });
