import { shardCodec, type Keys } from "@sluice/catalog";
import { codeOf, nextEpoch, type ShardRecord } from "@sluice/core/model";
import type { KeyValue, MetadataStore } from "@sluice/metadata";
import type { ServiceIdentity } from "@sluice/service";

/** A claim on a shard: the record as this coordinator wrote it, and the revision at which it did. */
export interface Claim {
  readonly record: ShardRecord;
  readonly modRevision: number;
  /** What was read before: carries fields that a newer version may have added. */
  readonly source: ShardRecord | undefined;
}
export interface ShardRegisterOptions {
  readonly store: MetadataStore;
  readonly keys: Keys;
  readonly identity: ServiceIdentity;
  readonly generation: number;
}

/** The key `shards/<n>`: who owns the shard, in which epoch, and where its newest snapshot is. Changed by compare-and-swap alone. */
export class ShardRegister {
  readonly #options: ShardRegisterOptions;

  constructor(options: ShardRegisterOptions) {
    this.#options = options;
  }

  /**
   * One attempt to take the shard with the next epoch; undefined when the key changed meanwhile. A snapshot that the key names stays.
   * After UNKNOWN_OUTCOME (thrown on) another attempt simply takes the epoch after that: an epoch that nobody used harms nothing.
   */
  async claim(shard: number): Promise<Claim | undefined> {
    const { identity, generation } = this.#options;
    const { entry } = await this.#read(shard);
    const before = entry && shardCodec.decode(entry.value);
    const record: ShardRecord = {
      ...before,
      coordinator: identity.id,
      instance: identity.instance,
      epoch: nextEpoch(before?.epoch ?? 0, generation),
    };
    return this.#swap(shard, entry?.modRevision ?? 0, record, before);
  }

  /** Names a new snapshot. Undefined: the key is another's now, or the outcome could not be told and the old record stands. */
  async publishSnapshot(shard: number, claim: Claim, snapshotKey: string, snapshotOffset: number): Promise<Claim | undefined> {
    const record: ShardRecord = { ...claim.record, snapshotKey, snapshotOffset };
    try {
      return await this.#swap(shard, claim.modRevision, record, claim.source);
    } catch (error) {
      if (codeOf(error) !== "UNKNOWN_OUTCOME") throw error;
    }
    // The identical transaction again settles it: its compare fails when the first one was applied.
    const again = await this.#swap(shard, claim.modRevision, record, claim.source);
    if (again !== undefined) return again;
    const { entry } = await this.#read(shard);
    const now = entry && shardCodec.decode(entry.value);
    if (entry === undefined || now?.snapshotKey !== snapshotKey || now.epoch !== claim.record.epoch) return undefined;
    return { record: now, modRevision: entry.modRevision, source: now };
  }

  #read(shard: number): Promise<{ readonly entry: KeyValue | undefined }> {
    return this.#options.store.get(this.#options.keys.shard(shard));
  }
  async #swap(shard: number, modRevision: number, record: ShardRecord, from: ShardRecord | undefined): Promise<Claim | undefined> {
    const key = this.#options.keys.shard(shard);
    const done = await this.#options.store.txn({
      compare: [modRevision === 0 ? { key, target: "create", equals: 0 } : { key, target: "mod", equals: modRevision }],
      then: [{ kind: "put", key, value: shardCodec.encode(record, from) }],
    });
    return done.succeeded ? { record, modRevision: done.revision, source: from } : undefined;
  }
}
