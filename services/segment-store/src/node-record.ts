import { nodeCodec, type Keys } from "@sluice/catalog";
import { codeOf, type Incarnation, type MemberId, type NodeRecord } from "@sluice/core/model";
import type { MetadataStore } from "@sluice/metadata";
import type { Clock, Logger } from "@sluice/runtime";

export interface NodeRecordOptions {
  readonly store: MetadataStore;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly retryMs: number;
  readonly id: MemberId;
  readonly incarnation: Incarnation;
  readonly zone: string;
}

/**
 * Writes `nodes/<id>`: which incarnation lives under the name now. A wiped node replaces its earlier self, whose copies are then known to be gone; a record of
 * this incarnation keeps its phase, but for GONE: it is back.
 */
export async function registerNode(options: NodeRecordOptions, signal: AbortSignal): Promise<void> {
  const { store, keys, clock, logger, retryMs, id, incarnation, zone } = options;
  const key = keys.node(id);
  for (;;) {
    signal.throwIfAborted();
    try {
      const { entry } = await store.get(key);
      const found = entry === undefined ? undefined : nodeCodec.decode(entry.value);
      const same = found?.incarnation === incarnation;
      if (found !== undefined && same && found.zone === zone && found.phase !== "GONE") return;
      const record: NodeRecord = { id, incarnation, zone, phase: "ACTIVE" };
      const done = await store.txn({
        compare: [{ key, target: "mod", equals: entry?.modRevision ?? 0 }],
        then: [{ kind: "put", key, value: nodeCodec.encode(record, found) }],
      });
      if (!done.succeeded) continue;
      if (found !== undefined && !same)
        logger.warn("node formatted anew: its earlier copies are gone", { node: id, earlier: found.incarnation, incarnation });
      return;
    } catch (error) {
      if (!isRetriable(error)) throw error;
      await clock.sleep(retryMs, signal);
    }
  }
}
const isRetriable = (error: unknown): boolean => {
  const code = codeOf(error);
  return code === "METADATA_UNAVAILABLE" || code === "UNKNOWN_OUTCOME" || code === "TIMED_OUT";
};
