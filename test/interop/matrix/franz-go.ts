import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ensureFranzGoProgram } from "@sluice/test-support";
import { programClient } from "./client.ts";

/** The program, built. */
export const ensureFranzGo = async (): Promise<string> =>
  ensureFranzGoProgram("franz-go-matrix", await readFile(join(import.meta.dirname, "franz_go.go"), "utf8"));
export const franzGoClient = programClient("franz-go", async () => [await ensureFranzGo()]);
