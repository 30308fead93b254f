import { topicCodec, type ClusterView, type Keys } from "@sluice/catalog";
import { checkName, RESERVED_PREFIX, SluiceError, type PartitionId, type TopicRecord } from "@sluice/core/model";
import type { MetadataStore } from "@sluice/metadata";
import { proxyLimits } from "./limits.ts";

/** From names to topics. The view answers; what it does not know is read from the metadata before it is said not to exist. */
export class Topics {
  readonly #view: ClusterView;
  readonly #store: MetadataStore;
  readonly #keys: Keys;
  readonly #lookups = new Map<string, Promise<TopicRecord>>();

  constructor(view: ClusterView, store: MetadataStore, keys: Keys) {
    this.#view = view;
    this.#store = store;
    this.#keys = keys;
  }

  /** Undefined: the view has no such topic in use. */
  known(tenant: string, name: string): TopicRecord | undefined {
    const topic = this.#view.topic(tenant, name);
    return topic?.phase === "ACTIVE" ? topic : undefined;
  }
  /** Throws INVALID_NAME, UNKNOWN_TOPIC, METADATA_UNAVAILABLE. */
  async find(tenant: string, name: string): Promise<TopicRecord> {
    const topic = this.known(tenant, name);
    if (topic !== undefined) return topic;
    checkName("topic", name);
    const key = `${tenant}/${name}`;
    let lookup = this.#lookups.get(key);
    if (lookup === undefined) {
      if (this.#lookups.size >= proxyLimits.topicLookupsMax) throw new SluiceError("OVERLOADED", "too many look-ups of unknown topics");
      lookup = this.#lookUp(tenant, name).finally(() => this.#lookups.delete(key));
      this.#lookups.set(key, lookup);
    }
    return lookup;
  }

  /**
   * Each with the id of the topic that has the name here, unless the client told one: a coordinator whose own view still has the one before
   * it then looks again.
   */
  identified<T extends { readonly topic: string; readonly topicId?: string }>(
    tenant: string,
    named: readonly T[],
  ): (T & { topicId: string })[] {
    return named.map((one) => ({ ...one, topicId: one.topicId || (this.known(tenant, one.topic)?.topicId ?? "") }));
  }

  async #lookUp(tenant: string, name: string): Promise<TopicRecord> {
    const { entry } = await this.#store.get(this.#keys.topic(tenant, name));
    const topic = entry && topicCodec.decode(entry.value);
    if (topic?.phase !== "ACTIVE") throw new SluiceError("UNKNOWN_TOPIC", `there is no topic ${name}`);
    return topic;
  }
}

/** Throws PERMISSION_DENIED for topics that services keep their own logs in: they have other ways to them than a proxy. */
export function refuseReserved(name: string): void {
  if (name.startsWith(RESERVED_PREFIX))
    throw new SluiceError("PERMISSION_DENIED", `topic ${name} belongs to the cluster; clients neither read nor write it`);
}

/** Throws UNKNOWN_PARTITION. */
export function partitionOf(topic: TopicRecord, partition: number): PartitionId {
  if (!Number.isInteger(partition) || partition < 0 || partition >= topic.partitions) {
    throw new SluiceError("UNKNOWN_PARTITION", `topic ${topic.name} has ${topic.partitions} partitions, asked for ${partition}`);
  }
  return { topicId: topic.topicId, partition };
}
