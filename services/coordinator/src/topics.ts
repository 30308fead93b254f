import { topicCodec, type ClusterView, type Keys } from "@sluice/catalog";
import type { TopicId, TopicRecord } from "@sluice/core/model";
import type { MetadataStore } from "@sluice/metadata";

/**
 * Names and ids of topics. Offsets are kept by topic id, so that a topic that is made again under an old name begins without any. The view
 * may lag: before a topic is said not to be there, the metadata is asked.
 */
export class Topics {
  readonly #view: ClusterView;
  readonly #store: MetadataStore;
  readonly #keys: Keys;

  constructor(view: ClusterView, store: MetadataStore, keys: Keys) {
    this.#view = view;
    this.#store = store;
    this.#keys = keys;
  }

  /** `id`, unless empty: the topic that the caller means. Another that the view has under the name may be the one before it: the metadata is asked. */
  async byName(tenant: string, name: string, id: string): Promise<TopicRecord | undefined> {
    const isMeant = (topic: TopicRecord): boolean => id === "" || topic.topicId === id;
    const known = this.#view.topic(tenant, name);
    if (known !== undefined && isMeant(known)) return known;
    const { entry } = await this.#store.get(this.#keys.topic(tenant, name));
    const topic = entry && topicCodec.decode(entry.value);
    return topic !== undefined && isMeant(topic) ? topic : undefined;
  }
  /** Those of `ids` that are there. A deleted one is not, whatever is left of it: its name may be another's. */
  async byIds(ids: ReadonlySet<TopicId>): Promise<ReadonlyMap<TopicId, TopicRecord>> {
    const found = new Map<TopicId, TopicRecord>();
    let isAllKnown = true;
    for (const id of ids) {
      const known = this.#view.topicsById.get(id);
      if (known?.phase === "ACTIVE") found.set(id, known);
      else if (known === undefined) isAllKnown = false;
    }
    if (isAllKnown) return found;
    const { entries } = await this.#store.list(this.#keys.topics);
    for (const { value } of entries) {
      const topic = topicCodec.decode(value);
      if (ids.has(topic.topicId) && topic.phase === "ACTIVE") found.set(topic.topicId, topic);
    }
    return found;
  }
}
