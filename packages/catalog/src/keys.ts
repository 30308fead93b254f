import type { MemberId, PartitionId, SegmentId, ServiceKind, TopicId } from "@sluice/core/model";
import { epoch, topicId as asTopicId } from "@sluice/core/model";

/**
 * Keys of the cluster metadata, below `<prefix>/v1/`. Numbers are zero-padded so that a range is in order.
 *
 *   cluster                                       id, generation, feature level, shard count       first controller
 *   members/<service>/<id>           (lease)      instance, endpoints, zone ...                    the member
 *   numbers/<service>/<n>            (lease)      id of the member that has this number            the member
 *   leader/controller                (lease)      instance                                         elected controller
 *   topics/<tenant>/<name>                        topic id, partitions, configuration, phase       controller
 *   deleted/<topicId>                             the record of a topic whose name is free again: what is left of it goes by its id   controller
 *   partitions/<topicId>/<n>/assigned             broker, revision                                 controller
 *   partitions/<topicId>/<n>/state                the register: epoch, owner, nonce, phase, tail   owner or taker alone
 *   partitions/<topicId>/<n>/start                log start offset                                 retention
 *   partitions/<topicId>/<n>/segments/<base>-<epoch>-<k>                                           owner; once SEALED upload, repair, retention
 *   producers/next                                next block of producer ids                       proxy, coordinator
 *   shards/<n>                                    coordinator, epoch, snapshot                     coordinator
 *   nodes/<id>                                    incarnation, zone, phase                         segment-store, controller
 */
export const pad = (n: number, width: number): string => String(n).padStart(width, "0");
const OFFSET_DIGITS = 16;
const EPOCH_DIGITS = 10;
const COUNT_DIGITS = 10;
const PARTITION_DIGITS = 5;

export interface Keys {
  readonly root: string;
  readonly cluster: string;
  readonly members: string;
  readonly numbers: string;
  readonly leader: string;
  readonly topics: string;
  readonly deleted: string;
  readonly partitions: string;
  readonly producersNext: string;
  readonly shards: string;
  readonly nodes: string;
  member(service: ServiceKind, id: MemberId): string;
  memberNumber(service: ServiceKind, n: number): string;
  topic(tenant: string, name: string): string;
  /** Of a topic that was deleted: beside the names, so that no name can be it and a new topic can have the old name at once. */
  deletedTopic(id: TopicId): string;
  /** Prefix of all keys of a topic's partitions. */
  topicPartitions(id: TopicId): string;
  partition(p: PartitionId): string;
  assigned(p: PartitionId): string;
  state(p: PartitionId): string;
  start(p: PartitionId): string;
  segments(p: PartitionId): string;
  segment(p: PartitionId, base: number, s: SegmentId): string;
  shard(n: number): string;
  node(id: MemberId): string;
}

/** `prefix` without slashes at the ends; `sluice` by default. */
export function createKeys(prefix = "sluice"): Keys {
  const root = `${prefix}/v1/`;
  const partition = (p: PartitionId): string => `${root}partitions/${p.topicId}/${pad(p.partition, PARTITION_DIGITS)}/`;
  return {
    root,
    cluster: `${root}cluster`,
    members: `${root}members/`,
    numbers: `${root}numbers/`,
    leader: `${root}leader/controller`,
    topics: `${root}topics/`,
    deleted: `${root}deleted/`,
    partitions: `${root}partitions/`,
    producersNext: `${root}producers/next`,
    shards: `${root}shards/`,
    nodes: `${root}nodes/`,
    member: (service, id) => `${root}members/${service}/${id}`,
    memberNumber: (service, n) => `${root}numbers/${service}/${pad(n, COUNT_DIGITS)}`,
    topic: (tenant, name) => `${root}topics/${tenant}/${name}`,
    deletedTopic: (id) => `${root}deleted/${id}`,
    topicPartitions: (id) => `${root}partitions/${id}/`,
    partition,
    assigned: (p) => `${partition(p)}assigned`,
    state: (p) => `${partition(p)}state`,
    start: (p) => `${partition(p)}start`,
    segments: (p) => `${partition(p)}segments/`,
    segment: (p, base, s) => `${partition(p)}segments/${pad(base, OFFSET_DIGITS)}-${pad(s.epoch, EPOCH_DIGITS)}-${pad(s.k, COUNT_DIGITS)}`,
    shard: (n) => `${root}shards/${pad(n, PARTITION_DIGITS)}`,
    node: (id) => `${root}nodes/${id}`,
  };
}

export type PartitionKeyName =
  | { readonly kind: "assigned" | "state" | "start"; readonly partition: PartitionId }
  | { readonly kind: "segment"; readonly partition: PartitionId; readonly base: number; readonly segment: SegmentId };

/** What a key below `partitions/` means; undefined for keys of a newer version. */
export function parsePartitionKeyName(keys: Keys, key: string): PartitionKeyName | undefined {
  if (!key.startsWith(keys.partitions)) return undefined;
  const [topic, n, kind, rest] = key.slice(keys.partitions.length).split("/");
  if (topic === undefined || n === undefined || kind === undefined) return undefined;
  const partition: PartitionId = { topicId: asTopicId(topic), partition: Number(n) };
  if (rest === undefined) return kind === "assigned" || kind === "state" || kind === "start" ? { kind, partition } : undefined;
  const parts = /^(\d+)-(\d+)-(\d+)$/.exec(rest);
  if (kind !== "segments" || parts === null) return undefined;
  return { kind: "segment", partition, base: Number(parts[1]), segment: { epoch: epoch(Number(parts[2])), k: Number(parts[3]) } };
}
