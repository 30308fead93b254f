import { join } from "node:path";
import { ManualClock } from "@sluice/runtime/testing";
import { tempDir } from "@sluice/test-support";
import type { MetadataContractSubject } from "../src/contract/index.ts";
import { openEmbeddedMetadata, type EmbeddedMetadata } from "../src/index.ts";

/** The embedded store on a file, on a clock that the cases move. */
export const embeddedSubject: MetadataContractSubject = {
  name: "embedded",
  async setUp() {
    const clock = new ManualClock();
    const dir = await tempDir("metadata");
    let current: EmbeddedMetadata | undefined;
    const open = async (): Promise<EmbeddedMetadata> => (current = openEmbeddedMetadata({ path: join(dir.path, "metadata.db"), clock }));
    return {
      clock,
      passTime: (ms) => clock.advanceAsync(ms),
      open,
      shared: false,
      endLease: async (id) => current?.expireLease(id),
      restart: async (store) => {
        await store.close();
        return open();
      },
      tearDown: () => dir[Symbol.asyncDispose](),
    };
  },
};
