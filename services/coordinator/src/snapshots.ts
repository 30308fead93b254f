import { shardSnapshotKey, shardSnapshotPrefix, startCodec, type Keys } from "@sluice/catalog";
import { decodeShardSnapshot, encodeShardSnapshot, type ShardState } from "@sluice/core/group";
import type { Crc32c } from "@sluice/core/log";
import { codeOf, limits, SluiceError, type PartitionId, type ShardRecord } from "@sluice/core/model";
import type { MetadataStore } from "@sluice/metadata";
import type { ObjectStore } from "@sluice/object-store";
import type { Logger, Random } from "@sluice/runtime";
import type { Claim, ShardRegister } from "./shard-register.ts";

export interface SnapshotsOptions {
  readonly store: MetadataStore;
  readonly keys: Keys;
  /** Undefined: no snapshots, every replay starts at the first record. */
  readonly objects: ObjectStore | undefined;
  readonly random: Random;
  readonly logger: Logger;
  readonly crc32c: Crc32c;
  readonly clusterId: string;
  readonly register: ShardRegister;
  readonly partition: (shard: number) => PartitionId | undefined;
  readonly written: (bytes: number) => void;
}
/** A state of the largest size, and what surrounds its entries. */
const SNAPSHOT_BYTES_MAX = 2 * limits.groupStateBytesPerShardMax;

/**
 * Snapshots of shard states. The order matters, each step only after the one before it is certain:
 *
 *   put object (a key of its own) ─► read it back ─► name it in shards/<n> ─► delete the one before ─► raise the log's start
 *
 * The register is changed by compare-and-swap from the claim, so a coordinator that has lost the shard names nothing, and never deletes
 * or trims what the newer one reads.
 */
export class Snapshots {
  readonly #options: SnapshotsOptions;

  constructor(options: SnapshotsOptions) {
    this.#options = options;
  }
  get enabled(): boolean {
    return this.#options.objects !== undefined;
  }

  /** The state of the register's snapshot; undefined when it names none. Throws when it cannot be read: without it the log is not whole. */
  async load(shard: number, record: ShardRecord): Promise<ShardState | undefined> {
    const { objects, crc32c } = this.#options;
    if (record.snapshotKey === undefined) return undefined;
    if (objects === undefined) throw new SluiceError("INVALID_CONFIG", `shard ${shard} has a snapshot, and no object store is configured`);
    const info = await objects.head(record.snapshotKey);
    if (info === undefined) throw new SluiceError("OBJECT_NOT_FOUND", `the snapshot ${record.snapshotKey} of shard ${shard} is gone`);
    if (info.sizeBytes > SNAPSHOT_BYTES_MAX)
      throw new SluiceError("CORRUPT_SEGMENT", `the snapshot ${record.snapshotKey} has ${info.sizeBytes} bytes`);
    const state = decodeShardSnapshot(await objects.getRange(record.snapshotKey, 0, info.sizeBytes), shard, crc32c);
    if (state.nextOffset !== record.snapshotOffset)
      throw new SluiceError(
        "CORRUPT_SEGMENT",
        `the snapshot of shard ${shard} ends at ${state.nextOffset}, the register says ${record.snapshotOffset}`,
      );
    return state;
  }

  /** Undefined when the register is another's by now. Takes the state as it is at the call; later changes to it do no harm. */
  async write(shard: number, claim: Claim, state: ShardState, signal: AbortSignal): Promise<Claim | undefined> {
    const { objects, random, crc32c, clusterId, register, written } = this.#options;
    if (objects === undefined) throw new SluiceError("INVALID_CONFIG", "snapshots need an object store");
    const offset = state.nextOffset;
    const bytes = encodeShardSnapshot(state, shard, crc32c);
    const key = shardSnapshotKey({ clusterId, shard, offset, epoch: claim.record.epoch, attempt: random.uuid() });
    await objects.put(key, [bytes], { signal });
    // Stores have answered "stored" for half an object: the CRC of what comes back decides.
    decodeShardSnapshot(await objects.getRange(key, 0, bytes.length, { signal }), shard, crc32c);
    const next = await register.publishSnapshot(shard, claim, key, offset);
    // The object stays: the next owner's register may name it all the same. If not, its next snapshot sweeps it away.
    if (next === undefined) return undefined;
    written(bytes.length);
    await this.#sweep(shard, key);
    await this.#raiseStart(shard, offset);
    return next;
  }

  /**
   * Deletes the snapshots of the shard that are older than the one that the register names: earlier ones, and what attempts that failed
   * left behind. Keys are in order of offset and epoch, and whoever takes the shard later starts from the one named here: what it writes
   * is never older.
   */
  async #sweep(shard: number, current: string): Promise<void> {
    const { objects, clusterId } = this.#options;
    if (objects === undefined) return;
    try {
      const old: string[] = [];
      for await (const { key } of objects.list(shardSnapshotPrefix(clusterId, shard))) if (key < current) old.push(key);
      for (const key of old) await objects.delete(key);
    } catch (error) {
      // The next snapshot sweeps again.
      this.#options.logger.debug("old snapshots not deleted", { shard, code: codeOf(error) });
    }
  }

  /** The log start of the shard's partition goes up to the snapshot, never down; the controller then removes segments wholly below it. */
  async #raiseStart(shard: number, offset: number): Promise<void> {
    const { store, keys, partition, logger } = this.#options;
    const p = partition(shard);
    if (p === undefined) return;
    const key = keys.start(p);
    try {
      const { entry } = await store.get(key);
      const before = entry && startCodec.decode(entry.value);
      if (before !== undefined && before.offset >= offset) return;
      await store.txn({
        compare: [entry === undefined ? { key, target: "create", equals: 0 } : { key, target: "mod", equals: entry.modRevision }],
        then: [{ kind: "put", key, value: startCodec.encode({ offset }, before) }],
      });
    } catch (error) {
      // The next snapshot raises it.
      logger.debug("log start not raised", { shard, offset, code: codeOf(error) });
    }
  }
}
