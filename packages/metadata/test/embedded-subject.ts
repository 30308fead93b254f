import { existsSync } from "node:fs";
import { join } from "node:path";
import { ManualClock } from "@sluice/runtime/testing";
import { tempDir } from "@sluice/test-support";
import type { MetadataContractSubject } from "../src/contract/index.ts";
import { openEmbeddedMetadata, type EmbeddedMetadata, type MetadataStore } from "../src/index.ts";

/** The embedded store on a file, on a clock that the cases move; `wrap` puts something around it, `turn` lets that come along. */
export const embeddedSubject = (
  name: string,
  wrap: (store: EmbeddedMetadata) => MetadataStore = (store) => store,
  turn: () => Promise<void> = async () => undefined,
): MetadataContractSubject => ({
  name,
  async setUp() {
    const clock = new ManualClock();
    // In memory where the system has such a folder: the cases write thousands of times, and what fsync is for, they do not test.
    const dir = await tempDir("metadata", existsSync("/dev/shm") ? "/dev/shm" : undefined);
    let current: EmbeddedMetadata | undefined;
    const open = async (): Promise<MetadataStore> => {
      current = openEmbeddedMetadata({ path: join(dir.path, "metadata.db"), clock });
      return wrap(current);
    };
    return {
      clock,
      passTime: async (ms) => {
        await clock.advanceAsync(ms);
        await turn();
      },
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
});
