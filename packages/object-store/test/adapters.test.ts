import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import { tempDir } from "@sluice/test-support";
import { memoryObjectStore, openFilesystemObjectStore, openObjectStore, prefixedObjectStore } from "../src/index.ts";
import { describeObjectStoreContract } from "../src/contract/index.ts";

const parts = { clock: systemClock, random: systemRandom, logger: silentLogger };

describeObjectStoreContract({
  name: "memory",
  async open() {
    const store = await openObjectStore("memory:", parts);
    return { store, close: () => store.close() };
  },
});

describeObjectStoreContract({
  name: "filesystem",
  async open() {
    const dir = await tempDir("objects");
    const store = await openFilesystemObjectStore(dir.path, parts);
    return {
      store,
      reopen: () => openObjectStore(`file://${dir.path}`, parts),
      leftovers: () => readdir(join(dir.path, "incoming")),
      async close() {
        await store.close();
        await dir[Symbol.asyncDispose]();
      },
    };
  },
});

describeObjectStoreContract({
  name: "memory below a prefix",
  async open() {
    const whole = memoryObjectStore(parts);
    await whole.put("clusters/a-beside/x", []);
    const store = prefixedObjectStore(whole, "clusters/a");
    return { store, close: () => store.close() };
  },
});
