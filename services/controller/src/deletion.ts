import { partitionKey, segmentKey, type TopicRecord } from "@sluice/core/model";
import type { Compare, Op, Txn } from "@sluice/metadata";
import { topicCodec, type Keys, type TopicEntry } from "@sluice/catalog";
import type { Duty } from "./duty.ts";
import { SEGMENTS_PER_TXN_MAX } from "./limits.ts";
import { markedDeleting, readPartitions, type PartitionListing } from "./listing.ts";

/** The name is free and the topic's id is on the list of what has to go, in one transaction: no crash can come between the two. */
export const moveToDeleted = (keys: Keys, { key, record, modRevision }: TopicEntry): Omit<Txn, "else"> => ({
  compare: [{ key, target: "mod", equals: modRevision }],
  then: [
    { kind: "delete", key },
    { kind: "put", key: keys.deletedTopic(record.topicId), value: topicCodec.encode({ ...record, phase: "DELETING" }, record) },
  ],
});

/**
 * What is left of a deleted topic is taken away step by step, by its id: another may have its name already. Each step is decided from one
 * linearizable listing.
 *
 *   at once:     the record moves from its name's key to `deleted/<topicId>`, DELETING, in one transaction
 *   broker:      seals the tail, writes state DELETED (the register stays as a tombstone: no late taker can open the partition again)
 *   here:        segments -> DELETING (own keys), `assigned` deleted
 *   nodes:       drop their copies          here (garbage.ts): object, then segment key
 *   here:        once no segment and no assignment is left in the whole topic: `state` and `start`, then the record
 */
export class Deletion {
  readonly #duty: Duty;
  readonly #warned = new Set<string>();

  constructor(duty: Duty) {
    this.#duty = duty;
  }

  async run(): Promise<void> {
    const { view, leadership, keys } = this.#duty;
    for (const topic of view.topics.values()) {
      // Marked by an earlier version, which kept the record under its name. The next run finds it where it belongs.
      if (topic.record.phase === "DELETING") await leadership.txn(moveToDeleted(keys, topic));
    }
    for (const topic of view.deletedTopics.values()) await this.#step(topic);
  }

  async #step(topic: TopicEntry): Promise<void> {
    const { store, keys, leadership, logger } = this.#duty;
    const { topicId, name } = topic.record;
    const { entries } = await store.list(keys.topicPartitions(topicId));
    const partitions = readPartitions(keys, entries);
    let waiting = 0;
    for (const p of partitions.values()) {
      if (p.state?.record.phase !== "DELETED")
        waiting += p.assigned === undefined && p.state === undefined && p.segments.length === 0 ? 0 : 1;
      else if (p.segments.length > 0 || p.assigned !== undefined) {
        waiting += 1;
        await this.#mark(p, topic.record);
      }
    }
    if (waiting > 0) return;
    await this.#dropRest(
      entries.map((e) => ({ key: e.key, modRevision: e.modRevision })),
      topic,
    );
    const left = await store.list(keys.topicPartitions(topicId));
    if (left.entries.length > 0) return;
    const { key, modRevision } = topic;
    const done = await leadership.txn({ compare: [{ key, target: "mod", equals: modRevision }], then: [{ kind: "delete", key }] });
    if (done.succeeded) logger.info("topic removed", { topic: name, topicId });
  }

  /** Segments to DELETING by compare on their own keys, the assignment away. The register is not touched. */
  async #mark(p: PartitionListing, topic: TopicRecord): Promise<void> {
    const { keys, leadership, logger } = this.#duty;
    const todo = p.segments.filter((s) => s.record.phase !== "DELETING");
    for (const s of todo) {
      if (s.record.phase !== "OPEN" || this.#warned.has(s.key)) continue;
      this.#warned.add(s.key);
      logger.error("a deleted partition has an open segment", { topic: topic.name, ...p.id, segment: segmentKey(s.record.segment) });
    }
    const sealed = todo.filter((s) => s.record.phase !== "OPEN").slice(0, SEGMENTS_PER_TXN_MAX);
    const compare: Compare[] = sealed.map((s) => ({ key: s.key, target: "mod", equals: s.modRevision }));
    const then: Op[] = sealed.map((s) => ({ kind: "put", key: s.key, value: markedDeleting(s.record) }));
    if (p.assigned !== undefined) {
      compare.push({ key: keys.assigned(p.id), target: "mod", equals: p.assigned.modRevision });
      then.push({ kind: "delete", key: keys.assigned(p.id) });
    }
    if (then.length === 0) return;
    const done = await leadership.txn({ compare, then });
    if (done.succeeded)
      logger.info("partition of a deleted topic", { topic: topic.name, partition: partitionKey(p.id), segments: sealed.length });
  }

  /** Registers and starts of all partitions: none has a segment or an assignment any more. */
  async #dropRest(rest: readonly { readonly key: string; readonly modRevision: number }[], topic: TopicEntry): Promise<void> {
    const { leadership } = this.#duty;
    for (let i = 0; i < rest.length; i += SEGMENTS_PER_TXN_MAX) {
      const part = rest.slice(i, i + SEGMENTS_PER_TXN_MAX);
      await leadership.txn({
        compare: [
          { key: topic.key, target: "mod", equals: topic.modRevision },
          ...part.map((e) => ({ key: e.key, target: "mod" as const, equals: e.modRevision })),
        ],
        then: part.map((e) => ({ kind: "delete", key: e.key })),
      });
    }
  }
}
