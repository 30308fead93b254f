/**
 * Branded identifiers. A brand costs nothing at run time and keeps a topic id from being passed where a node id is meant.
 */
declare const brand: unique symbol;
export type Brand<T, B extends string> = T & { readonly [brand]: B };

/** uuid in its 36-character lower-case text form. */
export type TopicId = Brand<string, "TopicId">;
/** Name of a member (broker-1, store-3 ...): 1 to 64 characters of `[A-Za-z0-9._-]`. */
export type MemberId = Brand<string, "MemberId">;
/** One start of a process; made anew at each start, so that a restarted member is told from its earlier self. uuid. */
export type InstanceId = Brand<string, "InstanceId">;
/** Made when a storage node formats its disk; a wiped disk gets a new one. uuid. */
export type Incarnation = Brand<string, "Incarnation">;
/** Unsigned 31-bit: 8 bits cluster generation, 23 bits ownership. It is Kafka's int32 leader epoch. */
export type Epoch = Brand<number, "Epoch">;
/** Record offset within a partition: an integer double, 0 to 2^53 - 1. */
export type Offset = Brand<number, "Offset">;

export const topicId = (s: string): TopicId => s as TopicId;
export const memberId = (s: string): MemberId => s as MemberId;
export const instanceId = (s: string): InstanceId => s as InstanceId;
export const incarnation = (s: string): Incarnation => s as Incarnation;

export const EPOCH_MAX = 0x7fff_ffff;
const GENERATION_SHIFT = 23;
const OWNERSHIP_MASK = 0x7f_ffff;

export function epoch(n: number): Epoch {
  if (!Number.isInteger(n) || n < 0 || n > EPOCH_MAX) throw new RangeError(`epoch out of range: ${n}`);
  return n as Epoch;
}
/** First epoch of a cluster generation: every epoch of an earlier generation is lower. */
export const epochFloor = (generation: number): Epoch => epoch((generation & 0xff) << GENERATION_SHIFT);
/** The next ownership epoch, at least the floor of `generation`. Throws when the 23 bits of a generation are used up. */
export function nextEpoch(current: number, generation: number): Epoch {
  const floor = epochFloor(generation);
  const next = Math.max(current + 1, floor + 1);
  if (next >>> GENERATION_SHIFT !== generation || (next & OWNERSHIP_MASK) === 0)
    throw new RangeError("ownership epochs of this generation are used up");
  return epoch(next);
}

export function offset(n: number): Offset {
  if (!Number.isSafeInteger(n) || n < -1) throw new RangeError(`offset out of range: ${n}`);
  return n as Offset;
}

/** A partition: topic id and index. The string form `<topicId>/<n>` is the key of maps and logs. */
export interface PartitionId {
  readonly topicId: TopicId;
  readonly partition: number;
}
export type PartitionKey = Brand<string, "PartitionKey">;
export const partitionKey = (p: PartitionId): PartitionKey => `${p.topicId}/${p.partition}` as PartitionKey;
export function parsePartitionKey(key: string): PartitionId {
  const at = key.lastIndexOf("/");
  return { topicId: topicId(key.slice(0, at)), partition: Number(key.slice(at + 1)) };
}

/** A segment of a partition: the epoch that opened it and a counter within the epoch. Text form `<epoch>-<k>`. */
export interface SegmentId {
  readonly epoch: Epoch;
  readonly k: number;
}
export type SegmentKey = Brand<string, "SegmentKey">;
export const segmentKey = (s: SegmentId): SegmentKey => `${s.epoch}-${s.k}` as SegmentKey;
export function parseSegmentKey(key: string): SegmentId {
  const [e, k] = key.split("-");
  return { epoch: epoch(Number(e)), k: Number(k) };
}
export const sameSegment = (a: SegmentId, b: SegmentId): boolean => a.epoch === b.epoch && a.k === b.k;

/** A storage node at one incarnation: the member of a replica set. Text form `<node>@<incarnation>`. */
export interface ReplicaId {
  readonly node: MemberId;
  readonly incarnation: Incarnation;
}
export const replicaKey = (r: ReplicaId): string => `${r.node}@${r.incarnation}`;
export const sameReplica = (a: ReplicaId, b: ReplicaId): boolean => a.node === b.node && a.incarnation === b.incarnation;
