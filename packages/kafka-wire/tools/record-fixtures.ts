/**
 * `node packages/kafka-wire/tools/record-fixtures.ts LIBRARIES` writes `testdata/messages.txt`: every message at every version with random
 * values, encoded by this package, judged by Kafka's codec (`Oracle.java`). LIBRARIES: a folder with kafka-clients, its jackson and slf4j
 * jars, as `test/support/src/kafka-jars.ts` brings them. A frame that Kafka would have written otherwise is an error.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { encodeStruct } from "../src/encode.ts";
import { Writer } from "../src/writer.ts";
import { structOf } from "../test/support/arbitraries.ts";
import { allCases } from "../test/support/schemas.ts";
import { KAFKA_RELEASE } from "./generate.ts";

const SEED = 20_261_129;
const libraries = process.argv[2];
if (libraries === undefined) throw new Error("usage: node packages/kafka-wire/tools/record-fixtures.ts LIBRARIES");

const lines = allCases.flatMap(({ name, version, plan }) =>
  [
    { elements: 2, bytes: 6, full: true },
    { elements: 1, bytes: 3 },
  ].map((sizes) => {
    const [value] = fc.sample(structOf(plan, sizes), { seed: SEED, numRuns: 1 });
    const writer = new Writer();
    encodeStruct(writer, plan, value ?? {});
    return `${name} ${version} ${Buffer.from(writer.toBytes()).toString("hex")}`;
  }),
);
const java = spawnSync("java", ["-cp", `${libraries}/*`, join(import.meta.dirname, "Oracle.java")], {
  input: lines.join("\n"),
  encoding: "utf8",
  maxBuffer: 256 * 1024 * 1024,
});
if (java.status !== 0) throw new Error(java.stderr);
const judged = java.stdout.trimEnd().split("\n");
lines.forEach((line, i) => {
  if (!(judged[i] ?? "").startsWith(`${line} `)) throw new Error(`Kafka writes another frame:\n${line}\n${judged[i]}`);
});
const heading = `# Frames judged by Apache Kafka ${KAFKA_RELEASE}; made by tools/record-fixtures.ts. message version hex json`;
writeFileSync(join(import.meta.dirname, "../testdata/messages.txt"), `${[heading, ...judged].join("\n")}\n`);
process.stdout.write(`${lines.length} frames\n`);
