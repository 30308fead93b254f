import { assignmentCodec, topicCodec, type Versioned } from "@sluice/catalog";
import {
  checkName,
  checkTopicConfig,
  checkUserTopicName,
  DEFAULT_TENANT,
  GROUPS_TOPIC,
  limits as modelLimits,
  partitionKey,
  SluiceError,
  topicConfigKeys,
  topicId,
  type TopicId,
  type TopicRecord,
} from "@sluice/core/model";
import type { Op } from "@sluice/metadata";
import type { Assignments } from "./assignments.ts";
import { moveToDeleted } from "./deletion.ts";
import { type Duty, viewAt, viewShows } from "./duty.ts";
import { ASSIGNMENTS_PER_TXN_MAX, PREDECESSOR_ENDS_MS } from "./limits.ts";

export interface NewTopic {
  readonly name: string;
  readonly partitions: number;
  readonly config: Readonly<Record<string, string>>;
  readonly validateOnly: boolean;
}

/** Compacted history of a group shard is bounded by its snapshots: the coordinator raises the start itself, nothing goes by age. */
const GROUPS_TOPIC_CONFIG: Readonly<Record<string, string>> = {
  "retention.ms": "-1",
  "retention.bytes": "-1",
  "segment.bytes": String(16 * 1024 * 1024),
};

/** Topic records: made, changed and moved away from their names by one transaction each; partitions follow by reconciliation. */
export class Topics {
  readonly #duty: Duty;
  readonly #assignments: Assignments;
  /** Runs a whole round of the reconciler and resolves after it. */
  readonly #reconcile: () => Promise<void>;

  constructor(duty: Duty, assignments: Assignments, reconcile: () => Promise<void>) {
    this.#duty = duty;
    this.#assignments = assignments;
    this.#reconcile = reconcile;
  }

  /** Throws INVALID_NAME, INVALID_ARGUMENT, INVALID_CONFIG, TOPIC_EXISTS. */
  async create(topic: NewTopic): Promise<TopicRecord> {
    checkUserTopicName(topic.name);
    const record = await this.#create(topic);
    if (topic.validateOnly) return record;
    if (record.partitions > ASSIGNMENTS_PER_TXN_MAX) await this.#reconcile();
    // A proxy that has not heard of the deletion yet still writes to the one before, whose owner acknowledges until it has ended it.
    await viewShows(this.#duty, () => this.#hasEnded(record.name), PREDECESSOR_ENDS_MS);
    return record;
  }
  /** No partition of a deleted topic of this name takes records any more. */
  #hasEnded(name: string): boolean {
    const { view } = this.#duty;
    for (const { record } of view.deletedTopics.values()) {
      if (record.name !== name || record.tenant !== DEFAULT_TENANT) continue;
      for (let partition = 0; partition < record.partitions; partition += 1) {
        const state = view.partition({ topicId: record.topicId, partition })?.state;
        if (state !== undefined && state.record.phase !== "DELETED") return false;
      }
    }
    return true;
  }

  /** Called within a round: must not wait for one. The topic of the group shards, when the cluster record is known and the topic is not there. */
  async ensureInternal(): Promise<void> {
    const { view } = this.#duty;
    if (view.cluster === undefined || view.topic(DEFAULT_TENANT, GROUPS_TOPIC) !== undefined) return;
    const partitions = view.cluster.shardCount;
    try {
      await this.#create({ name: GROUPS_TOPIC, partitions, config: GROUPS_TOPIC_CONFIG, validateOnly: false });
    } catch (error) {
      // The view was behind.
      if ((error as SluiceError).code !== "TOPIC_EXISTS") throw error;
    }
  }

  /** The topic and its first partitions' assignments in one transaction; what is left is what any reconciliation does. */
  async #create(topic: NewTopic): Promise<TopicRecord> {
    const { store, keys, random, clock, leadership, logger, timers } = this.#duty;
    checkName("topic", topic.name);
    this.#checkPartitions(topic.partitions, 0);
    checkTopicConfig(topic.config);
    const key = keys.topic(DEFAULT_TENANT, topic.name);
    const existing = (await store.get(key)).entry;
    if (existing !== undefined) {
      const left = topicCodec.decode(existing.value);
      if (left.phase !== "DELETING") throw exists(left);
      // An earlier version's deletion, which kept the name.
      if (!topic.validateOnly) await leadership.txn(moveToDeleted(keys, { key, record: left, modRevision: existing.modRevision }));
    }
    const record: TopicRecord = {
      tenant: DEFAULT_TENANT,
      name: topic.name,
      topicId: topicId(random.uuid()),
      partitions: topic.partitions,
      config: { ...topic.config },
      phase: "ACTIVE",
      createdAtMs: clock.wallMs(),
    };
    if (topic.validateOnly) return record;
    const done = await leadership.txn({
      compare: [{ key, target: "mod", equals: 0 }],
      then: [{ kind: "put", key, value: topicCodec.encode(record) }, ...this.#firstAssignments(record)],
    });
    if (!done.succeeded) {
      const { entry } = await store.get(key);
      const found = entry && topicCodec.decode(entry.value);
      if (found === undefined || found.topicId !== record.topicId) throw exists(found ?? record);
    }
    logger.info("topic created", { topic: record.name, topicId: record.topicId, partitions: record.partitions, config: record.config });
    await viewAt(this.#duty, done.revision, timers.controlCallTimeoutMs);
    return record;
  }

  #firstAssignments(record: TopicRecord): Op[] {
    const { keys } = this.#duty;
    const observed = this.#assignments.observe();
    const fresh = Array.from({ length: Math.min(record.partitions, ASSIGNMENTS_PER_TXN_MAX) }, (_, partition) => ({
      id: { topicId: record.topicId, partition },
      assigned: undefined,
      moving: false,
    }));
    const ours = new Set(fresh.map((p) => partitionKey(p.id)));
    return this.#assignments
      .plan({ ...observed, partitions: [...observed.partitions, ...fresh] })
      .filter((move) => ours.has(partitionKey(move.partition)))
      .map((move) => ({
        kind: "put",
        key: keys.assigned(move.partition),
        value: assignmentCodec.encode({ broker: move.to, revision: 1 }),
      }));
  }

  /** `had`: those that are counted in the cluster already. */
  #checkPartitions(partitions: number, had: number): void {
    const { view, limits } = this.#duty;
    if (!Number.isInteger(partitions) || partitions < 1 || partitions > modelLimits.topicPartitionsMax) {
      throw new SluiceError("INVALID_ARGUMENT", `partitions is 1 to ${modelLimits.topicPartitionsMax}, got ${partitions}`);
    }
    let all = partitions - had;
    // Deleted ones count until nothing is left of them: names that come and go as fast as they can would fill the cluster unseen.
    let deleted = 0;
    for (const { record } of view.allTopics()) {
      all += record.partitions;
      if (record.phase === "DELETING") deleted += record.partitions;
    }
    if (all > limits.clusterPartitionsMax) {
      const ofDeleted = deleted === 0 ? "" : `, ${deleted} of them of deleted topics that are being cleaned up`;
      throw new SluiceError(
        "INVALID_ARGUMENT",
        `the cluster would have ${all} partitions${ofDeleted}, at most ${limits.clusterPartitionsMax} (partitions.clusterMax)`,
      );
    }
  }

  /** Throws UNKNOWN_TOPIC, INVALID_NAME, INVALID_CONFIG, INVALID_ARGUMENT. */
  async updateConfig(name: string, set: Readonly<Record<string, string>>, reset: readonly string[]): Promise<TopicRecord> {
    checkUserTopicName(name);
    checkTopicConfig(set);
    const both = reset.find((k) => Object.hasOwn(set, k));
    if (both !== undefined) throw new SluiceError("INVALID_ARGUMENT", `${both} is both set and reset`);
    return this.#change(name, "topic configuration changed", (topic) => {
      if (topic.phase === "DELETING") throw unknown(name, "is being deleted");
      const config: Record<string, string> = { ...topic.config, ...set };
      for (const k of reset) {
        // An unknown key is refused as for `set`; its value plays no part.
        if (!Object.hasOwn(config, k)) checkResetKey(k);
        delete config[k];
      }
      return { ...topic, config };
    });
  }

  /** More partitions; resolves when they are assigned. Throws UNKNOWN_TOPIC, INVALID_NAME, INVALID_ARGUMENT. */
  async addPartitions(name: string, partitions: number, validateOnly: boolean): Promise<TopicRecord> {
    checkUserTopicName(name);
    const changed = await this.#change(name, "topic got more partitions", (topic) => {
      if (topic.phase === "DELETING") throw unknown(name, "is being deleted");
      if (partitions <= topic.partitions)
        throw new SluiceError(
          "INVALID_ARGUMENT",
          `topic ${name} has ${topic.partitions} partitions; they can only become more, and ${partitions} were asked for`,
        );
      this.#checkPartitions(partitions, topic.partitions);
      return validateOnly ? topic : { ...topic, partitions };
    });
    if (!validateOnly) await this.#reconcile();
    return changed;
  }

  /**
   * Moves the record away from its name, which is free at once; partitions, copies, objects and keys go by reconciliation (deletion.ts).
   * `id`: this topic alone, not a later one of the same name; one that is deleted already is answered the same again. Throws UNKNOWN_TOPIC,
   * INVALID_NAME.
   */
  async delete(name: string, id?: TopicId): Promise<void> {
    checkUserTopicName(name);
    const { store, keys, leadership, logger, timers } = this.#duty;
    const key = keys.topic(DEFAULT_TENANT, name);
    let tried: TopicId | undefined;
    for (;;) {
      const { entry } = await store.get(key);
      const record = entry && topicCodec.decode(entry.value);
      // The name has left the topic that this call tried to delete: the write that told nothing was done, or somebody else's.
      if (tried !== undefined && record?.topicId !== tried) return;
      if (entry === undefined || record === undefined || (id !== undefined && record.topicId !== id)) {
        if (id !== undefined && (await store.get(keys.deletedTopic(id))).entry !== undefined) return;
        throw unknown(name, id === undefined ? "does not exist" : `with the id ${id} does not exist`);
      }
      tried = record.topicId;
      const done = await leadership.txn(moveToDeleted(keys, { key, record, modRevision: entry.modRevision }));
      if (!done.succeeded) continue;
      logger.info("topic deletion began", { topic: name, topicId: record.topicId, partitions: record.partitions });
      await viewAt(this.#duty, done.revision, timers.controlCallTimeoutMs);
      return;
    }
  }

  /** Read, change, compare-and-swap, until it holds. */
  async #change(name: string, event: string, change: (topic: TopicRecord) => TopicRecord): Promise<TopicRecord> {
    const { leadership, keys, logger, timers } = this.#duty;
    const key = keys.topic(DEFAULT_TENANT, name);
    for (;;) {
      const before = await this.#read(name);
      const after = change(before.record);
      if (after === before.record) return after;
      const done = await leadership.txn({
        compare: [{ key, target: "mod", equals: before.modRevision }],
        then: [{ kind: "put", key, value: topicCodec.encode(after, before.record) }],
      });
      if (!done.succeeded) continue;
      const { topicId: id, partitions, config, phase } = after;
      logger.info(event, { topic: name, topicId: id, partitions, config, phase });
      await viewAt(this.#duty, done.revision, timers.controlCallTimeoutMs);
      return after;
    }
  }
  async #read(name: string): Promise<Versioned<TopicRecord>> {
    const { store, keys } = this.#duty;
    const { entry } = await store.get(keys.topic(DEFAULT_TENANT, name));
    if (entry === undefined) throw unknown(name, "does not exist");
    return { record: topicCodec.decode(entry.value), modRevision: entry.modRevision };
  }
}

const unknown = (name: string, why: string): SluiceError => new SluiceError("UNKNOWN_TOPIC", `topic ${name} ${why}`);
const exists = (topic: TopicRecord): SluiceError => new SluiceError("TOPIC_EXISTS", `topic ${topic.name} exists already`);
function checkResetKey(name: string): void {
  if (!Object.hasOwn(topicConfigKeys, name)) {
    throw new SluiceError("INVALID_CONFIG", `unknown topic configuration key ${JSON.stringify(name.slice(0, 80))}`);
  }
}
