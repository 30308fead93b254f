import { producerIdsCodec, type Keys } from "@sluice/catalog";
import { codeOf } from "@sluice/core/model";
import type { MetadataStore } from "@sluice/metadata";
import { proxyLimits } from "./limits.ts";

/** Producer ids, in blocks from the metadata. A block whose taking had an unknown outcome is left out: ids are plenty, reuse is not allowed. */
export class ProducerIds {
  readonly #store: MetadataStore;
  readonly #keys: Keys;
  #next = 0;
  #end = 0;
  #taking: Promise<void> | undefined;

  constructor(store: MetadataStore, keys: Keys) {
    this.#store = store;
    this.#keys = keys;
  }

  /** Throws METADATA_UNAVAILABLE. */
  async take(): Promise<number> {
    while (this.#next >= this.#end) {
      this.#taking ??= this.#takeBlock().finally(() => (this.#taking = undefined));
      await this.#taking;
    }
    return this.#next++;
  }

  async #takeBlock(): Promise<void> {
    const key = this.#keys.producersNext;
    for (;;) {
      const { entry } = await this.#store.get(key);
      const read = entry && producerIdsCodec.decode(entry.value);
      const from = read?.next ?? 0;
      const value = producerIdsCodec.encode({ next: from + proxyLimits.producerIdBlock }, read);
      try {
        const done = await this.#store.txn({
          compare: [{ key, target: "mod", equals: entry?.modRevision ?? 0 }],
          then: [{ kind: "put", key, value }],
        });
        if (!done.succeeded) continue;
        this.#next = from;
        this.#end = from + proxyLimits.producerIdBlock;
        return;
      } catch (error) {
        if (codeOf(error) !== "UNKNOWN_OUTCOME") throw error;
      }
    }
  }
}
