import {
  codeOf,
  partitionKey,
  topicId,
  type AssignmentRecord,
  type ClusterRecord,
  type MemberRecord,
  type NodeRecord,
  type PartitionId,
  type PartitionKey,
  type PartitionState,
  type SegmentEntry,
  type ServiceKind,
  type ShardRecord,
  type TopicId,
  type TopicRecord,
} from "@sluice/core/model";
import type { KeyValue, MetadataStore, WatchEvent } from "@sluice/metadata";
import type { Clock, Logger } from "@sluice/runtime";
import { isAway } from "./away.ts";
import { parsePartitionKeyName, type Keys } from "./keys.ts";
import {
  assignmentCodec,
  clusterCodec,
  leaderCodec,
  memberCodec,
  nodeCodec,
  partitionStateCodec,
  segmentCodec,
  shardCodec,
  startCodec,
  topicCodec,
  type LeaderRecord,
} from "./values.ts";

/**
 * A live copy of the metadata: one listing, then one watch; after a gap (COMPACTED, or any fault of the watch) a listing again, whose
 * difference to the copy is told as changes. It is a hint: whoever decides something reads again, linearizably.
 *
 *   list at r ──► watch from r+1 ──► batch ──► apply ──► listeners
 *        ▲                            │ fault
 *        └────────────────────────────┘
 */
export interface Versioned<R> {
  readonly record: R;
  readonly modRevision: number;
}
/** A topic's record, and the key that it is under: its name's, or that of what is deleted. */
export interface TopicEntry extends Versioned<TopicRecord> {
  readonly key: string;
}
export interface PartitionView {
  readonly id: PartitionId;
  assigned: Versioned<AssignmentRecord> | undefined;
  state: Versioned<PartitionState> | undefined;
  startOffset: number;
  /** By key, so in order of base, epoch, k. */
  readonly segments: Map<string, SegmentEntry>;
}
export type ViewChange =
  | { readonly kind: "cluster" | "leader" }
  | {
      readonly kind: "member";
      readonly service: ServiceKind;
      readonly id: string;
      readonly before?: MemberRecord;
      readonly after?: MemberRecord;
    }
  | { readonly kind: "topic"; readonly before?: TopicRecord; readonly after?: TopicRecord }
  | { readonly kind: "assigned" | "state" | "start" | "segment"; readonly partition: PartitionId }
  | { readonly kind: "shard"; readonly shard: number }
  | { readonly kind: "node"; readonly id: string };

/** Ids of removed topics that are remembered: more than are removed while a request for one of them is on its way. */
const REMOVED_TOPICS_MAX = 10_000;

export interface ClusterViewOptions {
  readonly store: MetadataStore;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Pause before a new listing after a fault, ms. */
  readonly retryMs: number;
}

export class ClusterView {
  cluster: ClusterRecord | undefined;
  leader: LeaderRecord | undefined;
  readonly members = new Map<string, Versioned<MemberRecord>>();
  /** Those that have a name now, by `<tenant>/<name>`. */
  readonly topics = new Map<string, TopicEntry>();
  /** Those whose name is free again, and of which something is left. */
  readonly deletedTopics = new Map<TopicId, TopicEntry>();
  /** Both. */
  readonly topicsById = new Map<TopicId, TopicRecord>();
  /** Those of which nothing is left any more; the oldest is forgotten. */
  readonly #removedTopics = new Set<TopicId>();
  readonly partitions = new Map<PartitionKey, PartitionView>();
  readonly shards = new Map<number, Versioned<ShardRecord>>();
  readonly nodes = new Map<string, Versioned<NodeRecord>>();
  /** Everything up to this revision is in the copy. */
  revision = 0;
  readonly #options: ClusterViewOptions;
  readonly #stop = new AbortController();
  readonly #listeners = new Set<(changes: readonly ViewChange[]) => void>();
  readonly #revisionOf = new Map<string, number>();
  #running: Promise<void> | undefined;

  constructor(options: ClusterViewOptions) {
    this.#options = options;
  }

  /** Resolves after the first listing; throws what the store threw when even that fails. */
  /** Resolves with the first listing; waits for a metadata store that is away, until `close`. */
  async start(): Promise<void> {
    const { clock, retryMs } = this.#options;
    for (;;) {
      try {
        await this.#list();
        break;
      } catch (error) {
        if (!isAway(error)) throw error;
        await clock.sleep(retryMs, this.#stop.signal);
      }
    }
    this.#running = this.#follow();
  }
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
  /** Called after each batch, synchronously. Returns a function that unsubscribes. */
  onChange(listener: (changes: readonly ViewChange[]) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  partition(p: PartitionId): PartitionView | undefined {
    return this.partitions.get(partitionKey(p));
  }
  /** Members of a service, in order of id. */
  membersOf(service: ServiceKind): MemberRecord[] {
    const out: MemberRecord[] = [];
    for (const { record } of this.members.values()) if (record.service === service) out.push(record);
    return out.sort((a, b) => (a.id < b.id ? -1 : 1));
  }
  member(service: ServiceKind, id: string): MemberRecord | undefined {
    return this.members.get(`${service}/${id}`)?.record;
  }
  topic(tenant: string, name: string): TopicRecord | undefined {
    return this.topics.get(`${tenant}/${name}`)?.record;
  }
  /** Deleted for good. Not one that the view has yet to show: it may just have been created. */
  isGone(id: TopicId): boolean {
    const topic = this.topicsById.get(id);
    return topic === undefined ? this.#removedTopics.has(id) : topic.phase === "DELETING";
  }
  /** With a name and deleted. */
  *allTopics(): Iterable<TopicEntry> {
    yield* this.topics.values();
    yield* this.deletedTopics.values();
  }
  /** The record of a topic with the key that it is under now. */
  topicEntry(id: TopicId): TopicEntry | undefined {
    const deleted = this.deletedTopics.get(id);
    const record = this.topicsById.get(id);
    if (deleted !== undefined || record === undefined) return deleted;
    return this.topics.get(`${record.tenant}/${record.name}`);
  }
  /** Segments of a partition in order of offsets. */
  segmentsOf(p: PartitionId): SegmentEntry[] {
    const view = this.partition(p);
    if (view === undefined) return [];
    return [...view.segments.values()].sort(
      (a, b) => a.record.base - b.record.base || a.record.segment.epoch - b.record.segment.epoch || a.record.segment.k - b.record.segment.k,
    );
  }

  async #follow(): Promise<void> {
    const { store, keys, clock, logger, retryMs } = this.#options;
    const signal = this.#stop.signal;
    while (!signal.aborted) {
      try {
        for await (const batch of store.watch(keys.root, this.revision + 1, signal)) {
          this.#apply(batch.events, batch.revision);
        }
      } catch (error) {
        if (signal.aborted) return;
        logger.warn("metadata watch ended, listing again", { code: codeOf(error), revision: this.revision });
      }
      while (!signal.aborted) {
        try {
          await clock.sleep(retryMs, signal);
          await this.#list();
          break;
        } catch (error) {
          if (!signal.aborted) logger.debug("metadata listing failed", { code: codeOf(error) });
        }
      }
    }
  }

  async #list(): Promise<void> {
    const { store, keys } = this.#options;
    const listing = await store.list(keys.root);
    const events: WatchEvent[] = [];
    const seen = new Set<string>();
    for (const entry of listing.entries) {
      seen.add(entry.key);
      if (this.#revisionOf.get(entry.key) !== entry.modRevision) events.push({ type: "put", entry });
    }
    for (const key of this.#revisionOf.keys()) if (!seen.has(key)) events.push({ type: "delete", key, modRevision: listing.revision });
    this.#apply(events, listing.revision);
  }

  #apply(events: readonly WatchEvent[], revision: number): void {
    const changes: ViewChange[] = [];
    for (const event of events) {
      const key = event.type === "put" ? event.entry.key : event.key;
      try {
        changes.push(...this.#applyOne(key, event.type === "put" ? event.entry : undefined));
      } catch (error) {
        this.#options.logger.error("metadata value not understood", { key, err: error });
      }
      if (event.type === "put") this.#revisionOf.set(key, event.entry.modRevision);
      else this.#revisionOf.delete(key);
    }
    this.revision = Math.max(this.revision, revision);
    if (changes.length > 0) for (const listener of this.#listeners) listener(changes);
  }

  #applyOne(key: string, entry: KeyValue | undefined): readonly ViewChange[] {
    const { keys } = this.#options;
    if (key.startsWith(keys.topics)) return this.#applyTopic(this.topics, key.slice(keys.topics.length), key, entry);
    if (key.startsWith(keys.deleted)) return this.#applyTopic(this.deletedTopics, topicId(key.slice(keys.deleted.length)), key, entry);
    const change = this.#applyOther(key, entry);
    return change === undefined ? [] : [change];
  }
  #applyOther(key: string, entry: KeyValue | undefined): ViewChange | undefined {
    const { keys } = this.#options;
    if (key.startsWith(keys.partitions)) return this.#applyPartition(key, entry);
    if (key.startsWith(keys.members)) return this.#applyMember(key.slice(keys.members.length), entry);
    if (key === keys.cluster) {
      this.cluster = entry && clusterCodec.decode(entry.value);
      return { kind: "cluster" };
    }
    if (key === keys.leader) {
      this.leader = entry && leaderCodec.decode(entry.value);
      return { kind: "leader" };
    }
    if (key.startsWith(keys.shards)) {
      const shard = Number(key.slice(keys.shards.length));
      if (entry === undefined) this.shards.delete(shard);
      else this.shards.set(shard, { record: shardCodec.decode(entry.value), modRevision: entry.modRevision });
      return { kind: "shard", shard };
    }
    if (key.startsWith(keys.nodes)) {
      const id = key.slice(keys.nodes.length);
      if (entry === undefined) this.nodes.delete(id);
      else this.nodes.set(id, { record: nodeCodec.decode(entry.value), modRevision: entry.modRevision });
      return { kind: "node", id };
    }
    return undefined;
  }

  #applyMember(name: string, entry: KeyValue | undefined): ViewChange {
    const before = this.members.get(name)?.record;
    const after = entry && memberCodec.decode(entry.value);
    if (after === undefined) this.members.delete(name);
    else this.members.set(name, { record: after, modRevision: (entry as KeyValue).modRevision });
    const [service, id] = name.split("/") as [ServiceKind, string];
    return { kind: "member", service, id, ...(before && { before }), ...(after && { after }) };
  }

  /**
   * One change for each topic id that the key named or names: a name may pass from one topic to the next within one event, and a deleted
   * topic moves from key to key, in whichever order the two are told.
   */
  #applyTopic<K extends string>(topics: Map<K, TopicEntry>, place: K, key: string, entry: KeyValue | undefined): ViewChange[] {
    const after = entry && topicCodec.decode(entry.value);
    const ids = new Set<TopicId>();
    for (const id of [topics.get(place)?.record.topicId, after?.topicId]) if (id !== undefined) ids.add(id);
    const before = new Map([...ids].map((id) => [id, this.topicsById.get(id)]));
    if (entry === undefined || after === undefined) topics.delete(place);
    else topics.set(place, { key, record: after, modRevision: entry.modRevision });
    return [...ids].map((id) => {
      const was = before.get(id);
      const now = this.deletedTopics.get(id)?.record ?? (after?.topicId === id ? after : this.#named(was));
      if (now !== undefined) this.topicsById.set(id, now);
      else if (this.topicsById.delete(id)) this.#removed(id);
      return { kind: "topic", ...(was && { before: was }), ...(now && { after: now }) };
    });
  }
  #removed(id: TopicId): void {
    this.#removedTopics.delete(id);
    this.#removedTopics.add(id);
    const [oldest] = this.#removedTopics;
    if (this.#removedTopics.size > REMOVED_TOPICS_MAX && oldest !== undefined) this.#removedTopics.delete(oldest);
  }
  /** The record under a topic's name, when it is the same topic's. */
  #named(topic: TopicRecord | undefined): TopicRecord | undefined {
    const named = topic && this.topic(topic.tenant, topic.name);
    return named?.topicId === topic?.topicId ? named : undefined;
  }

  #applyPartition(key: string, entry: KeyValue | undefined): ViewChange | undefined {
    const name = parsePartitionKeyName(this.#options.keys, key);
    if (name === undefined) return undefined;
    const id = partitionKey(name.partition);
    let view = this.partitions.get(id);
    if (view === undefined) {
      if (entry === undefined) return undefined;
      view = { id: name.partition, assigned: undefined, state: undefined, startOffset: 0, segments: new Map() };
      this.partitions.set(id, view);
    }
    const modRevision = entry?.modRevision ?? 0;
    if (name.kind === "assigned") view.assigned = entry && { record: assignmentCodec.decode(entry.value), modRevision };
    else if (name.kind === "state") view.state = entry && { record: partitionStateCodec.decode(entry.value), modRevision };
    else if (name.kind === "start") view.startOffset = entry === undefined ? 0 : startCodec.decode(entry.value).offset;
    else if (entry === undefined) view.segments.delete(key);
    else view.segments.set(key, { partition: name.partition, record: segmentCodec.decode(entry.value), modRevision });
    if (view.assigned === undefined && view.state === undefined && view.segments.size === 0) this.partitions.delete(id);
    return { kind: name.kind, partition: name.partition };
  }
}
