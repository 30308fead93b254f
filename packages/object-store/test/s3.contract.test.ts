import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import { type S3Kind, startS3 } from "@sluice/test-support";
import { openObjectStore } from "../src/index.ts";
import { describeObjectStoreContract } from "../src/contract/index.ts";

/** Default: the best server of this machine. SLUICE_TEST_S3=moto or versitygw asks for one. */
const kind = process.env["SLUICE_TEST_S3"] as S3Kind | undefined;

describeObjectStoreContract({
  name: "S3",
  server: true,
  async open() {
    const server = await startS3(kind === undefined ? {} : { kind });
    process.stderr.write(`S3 contract runs on ${server.kind} ${server.version}\n`);
    const open = () => openObjectStore(server.url, { clock: systemClock, random: systemRandom, logger: silentLogger, credentials: server });
    const store = await open();
    return {
      store,
      server,
      reopen: open,
      ...(server.kind === "versitygw" && { leftovers: () => unfinishedUploads(join(server.dataDir, server.bucket)) }),
      async close() {
        await store.close();
        await server[Symbol.asyncDispose]();
      },
    };
  },
});

/** Where versitygw keeps parts: .sgwtmp/multipart/<hash of the key>/<upload id>/<part>. */
async function unfinishedUploads(bucket: string): Promise<string[]> {
  const names = await readdir(join(bucket, ".sgwtmp"), { recursive: true }).catch(() => []);
  return names.filter((name) => name.split("/").length > 2);
}
