import { expect, test } from "@jest/globals";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ensureKafkaLibraries, KAFKA_CLIENTS_VERSION } from "@sluice/test-support";
import { generate, generatedFiles, generatedFolder, KAFKA_RELEASE } from "../tools/generate.ts";

test("the generated code is what the schemas of the pinned release give", async () => {
  expect(KAFKA_CLIENTS_VERSION).toBe(KAFKA_RELEASE);
  const libraries = await ensureKafkaLibraries();
  if (libraries === undefined) {
    // A machine without Maven has the hashes of the unit tests; the project's CI has Maven.
    expect(process.env["CI"]).toBeUndefined();
    return;
  }
  const made = generate(libraries.clientsJar);
  generatedFiles.forEach((name, i) => expect(made[i]).toBe(readFileSync(join(generatedFolder, name), "utf8")));
}, 120_000);
