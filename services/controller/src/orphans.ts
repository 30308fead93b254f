import { parseSegmentObjectKey, segmentCodec, segmentObjectPrefix, type SegmentObjectName } from "@sluice/catalog";
import type { SegmentRecord } from "@sluice/core/model";
import type { ObjectInfo } from "@sluice/object-store";
import type { Duty } from "./duty.ts";

/** Below this many candidates the share is not looked at: a small store has large shares. */
const SHARE_FLOOR_OBJECTS = 20;

interface Candidate {
  readonly object: ObjectInfo;
  readonly name: SegmentObjectName;
}

/**
 * Objects that no key names (protocol G4): left by an upload that died or lost. List first, then read the owning key linearizably; an
 * object goes only when its key does not name it and it is older than a day. Anything that does not look like a segment object is left
 * alone. A run that wants too large a share, or a metadata store that was restored, deletes nothing.
 */
export class OrphanSweep {
  readonly #duty: Duty;
  constructor(duty: Duty) {
    this.#duty = duty;
  }

  /** Returns the number of objects deleted. */
  async run(): Promise<number> {
    const { objects, view, logger, limits, metrics, leadership } = this.#duty;
    const cluster = view.cluster;
    if (objects === undefined || cluster === undefined) return 0;
    if (cluster.generation > 0) {
      logger.warn("orphan sweep is off: the metadata was restored", { generation: cluster.generation });
      return 0;
    }
    const { total, candidates } = await this.#candidates(segmentObjectPrefix(cluster.clusterId));
    if (candidates.length > SHARE_FLOOR_OBJECTS && candidates.length > total * limits.orphanShareMax) {
      metrics.orphanRefused.inc();
      logger.error("orphan sweep refused: too large a share", { objects: total, orphans: candidates.length });
      return 0;
    }
    let deleted = 0;
    for (const { object, name } of candidates.slice(0, limits.orphanDeletesPerRunMax)) {
      leadership.ended.throwIfAborted();
      if (await this.#named(object.key, name)) continue;
      await objects.delete(object.key);
      logger.info("orphan object deleted", { object: object.key, ...name.partition });
      deleted += 1;
    }
    metrics.orphanObjects.inc(deleted);
    return deleted;
  }

  /** Old objects that the view does not know; the view is a hint, so each is looked up before it goes. */
  async #candidates(prefix: string): Promise<{ total: number; candidates: Candidate[] }> {
    const { objects, view, clock, limits } = this.#duty;
    const known = new Set<string>();
    for (const p of view.partitions.values())
      for (const { record } of p.segments.values()) if (record.object !== undefined) known.add(record.object.key);
    const candidates: Candidate[] = [];
    let total = 0;
    for await (const object of objects?.list(prefix) ?? []) {
      total += 1;
      if (known.has(object.key) || clock.wallMs() - object.modifiedAtMs < limits.orphanAgeMs) continue;
      const name = parseSegmentObjectKey(object.key);
      if (name !== undefined) candidates.push({ object, name });
    }
    return { total, candidates };
  }

  /** True when the owning key names the object. An upload that is stuck for that long is first set back to SEALED. */
  async #named(objectKey: string, name: SegmentObjectName): Promise<boolean> {
    const { store, keys, leadership, logger } = this.#duty;
    const key = keys.segment(name.partition, name.base, name.segment);
    const { entry } = await store.get(key);
    if (entry === undefined) return false;
    const record = segmentCodec.decode(entry.value);
    if (record.object?.key === objectKey) return true;
    if (record.phase !== "UPLOADING" || record.attempt !== name.attempt) return false;
    const { attempt, ...rest } = record;
    const sealed: SegmentRecord = { ...rest, phase: "SEALED" };
    const done = await leadership.txn({
      compare: [{ key, target: "mod", equals: entry.modRevision }],
      then: [{ kind: "put", key, value: segmentCodec.encode(sealed, record) }],
    });
    if (done.succeeded) logger.warn("upload given up: it was under way for too long", { ...name.partition, attempt });
    return !done.succeeded;
  }
}
