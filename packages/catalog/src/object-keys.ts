import { epoch, topicId, type PartitionId, type SegmentId } from "@sluice/core/model";
import { pad } from "./keys.ts";

/**
 * Keys of segment objects in the object store, unique per attempt, so that nothing depends on conditional writes:
 *
 *   clusters/<clusterId>/segments/<topicId>/<n>/<base>-<epoch>-<k>.<attempt>
 */
export interface SegmentObjectName {
  readonly clusterId: string;
  readonly partition: PartitionId;
  readonly base: number;
  readonly segment: SegmentId;
  /** uuid of the upload. */
  readonly attempt: string;
}
export const segmentObjectPrefix = (clusterId: string): string => `clusters/${clusterId}/segments/`;

export function segmentObjectKey(name: SegmentObjectName): string {
  const { clusterId, partition: p, base, segment: s, attempt } = name;
  const at = `${segmentObjectPrefix(clusterId)}${p.topicId}/${pad(p.partition, 5)}`;
  return `${at}/${pad(base, 16)}-${pad(s.epoch, 10)}-${pad(s.k, 10)}.${attempt}`;
}

const NAME = /^clusters\/([^/]+)\/segments\/([^/]+)\/(\d+)\/(\d+)-(\d+)-(\d+)\.([A-Za-z0-9-]+)$/;
/** Undefined for anything else: markers, manifests, keys of a newer version. */
export function parseSegmentObjectKey(key: string): SegmentObjectName | undefined {
  const m = NAME.exec(key);
  if (m === null) return undefined;
  const [clusterId, topic, n, base, e, k, attempt] = m.slice(1) as [string, string, string, string, string, string, string];
  if (Number(e) > 0x7fff_ffff) return undefined;
  return {
    clusterId,
    partition: { topicId: topicId(topic), partition: Number(n) },
    base: Number(base),
    segment: { epoch: epoch(Number(e)), k: Number(k) },
    attempt,
  };
}

/**
 * Keys of the snapshots of group shards, in order of what they hold:
 *
 *   clusters/<clusterId>/groups/<shard>/<next offset>-<epoch>.<attempt>
 */
export interface ShardSnapshotName {
  readonly clusterId: string;
  readonly shard: number;
  readonly offset: number;
  readonly epoch: number;
  /** uuid of the attempt. */
  readonly attempt: string;
}
export const shardSnapshotPrefix = (clusterId: string, shard: number): string => `clusters/${clusterId}/groups/${pad(shard, 5)}/`;
export const shardSnapshotKey = (n: ShardSnapshotName): string =>
  `${shardSnapshotPrefix(n.clusterId, n.shard)}${pad(n.offset, 16)}-${pad(n.epoch, 10)}.${n.attempt}`;
