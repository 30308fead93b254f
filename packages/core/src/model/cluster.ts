import type { Epoch, Incarnation, InstanceId, MemberId, PartitionId, ReplicaId, SegmentId, TopicId } from "./ids.ts";

/**
 * The values of the cluster metadata, as plain data. packages/catalog maps them to protobuf and to keys
 * (unknown fields survive a read-modify-write there). All times are milliseconds since 1970.
 */
export interface ClusterRecord {
  readonly clusterId: string;
  /** 0 to 255; held in the epoch's high bits, raised by a restore of the metadata. */
  readonly generation: number;
  readonly featureLevel: number;
  readonly shardCount: number;
  /** Name of the hash that maps a group to a shard; fixed for ever: "murmur2". */
  readonly shardHash: string;
}

export type ServiceKind = "proxy" | "broker" | "controller" | "coordinator" | "segment-store";
export const serviceKinds: readonly ServiceKind[] = ["proxy", "broker", "controller", "coordinator", "segment-store"];

/** How others reach a member: `host:port` each, as advertised; absent = not offered. */
export interface Endpoints {
  readonly grpc?: string;
  readonly kafka?: string;
  /** What Kafka clients are told who came through the listener for those outside of the cluster's network. */
  readonly kafkaOutside?: string;
  readonly http?: string;
  readonly link?: string;
  readonly rpc?: string;
  readonly metrics?: string;
}
export interface MemberRecord {
  readonly service: ServiceKind;
  readonly id: MemberId;
  readonly instance: InstanceId;
  /** Lowest free number of its service; stable names for clients that want numbers. */
  readonly numericId: number;
  readonly zone: string;
  readonly endpoints: Endpoints;
  readonly version: string;
  readonly draining: boolean;
  /** Storage nodes only. */
  readonly incarnation?: Incarnation;
  /** Storage nodes: disk size and free space at registration; refreshed by heartbeat, not here. */
  readonly capacityBytes?: number;
  /** Storage nodes: no room, no appends and no new segments are taken now. */
  readonly diskFull?: boolean;
}

export type TopicPhase = "ACTIVE" | "DELETING";
export interface TopicRecord {
  readonly tenant: string;
  readonly name: string;
  readonly topicId: TopicId;
  readonly partitions: number;
  /** Only keys that were set; defaults come from core/model/topic-config. */
  readonly config: Readonly<Record<string, string>>;
  readonly phase: TopicPhase;
  readonly createdAtMs: number;
}

export interface AssignmentRecord {
  readonly broker: MemberId;
  /** Grows with each assignment of this partition. */
  readonly revision: number;
  /** FORCE: take over without waiting for the lease of the old owner's instance. Only speed hangs on it. */
  readonly forceInstance?: InstanceId;
}

export type PartitionPhase = "UNOWNED" | "RECOVERING" | "OPEN" | "RELEASING" | "DELETED";
/** The register of a partition: written by its owner or by the broker becoming owner, alone. */
export interface PartitionState {
  readonly epoch: Epoch;
  readonly owner: MemberId;
  readonly ownerInstance: InstanceId;
  /** Made anew for each transaction that writes the register, so that an unknown outcome can be settled. */
  readonly nonce: string;
  readonly phase: PartitionPhase;
  /** The last segment: OPEN while the partition is owned; undefined before the first one. */
  readonly tail?: { readonly segment: SegmentId; readonly base: number };
}

export type SegmentPhase = "OPEN" | "SEALED" | "UPLOADING" | "OFFLOADED" | "LOCAL_DELETING" | "LOCAL_DELETED" | "DELETING";
export interface ObjectRef {
  readonly key: string;
  /** Where the segment's bytes start within the object: several segments can share one. */
  readonly at: number;
  readonly length: number;
  /** Format number of the segment object. */
  readonly format: number;
}
export interface SegmentRecord {
  readonly segment: SegmentId;
  readonly base: number;
  /** Last offset; base - 1 when the segment is empty; absent while OPEN. */
  readonly end?: number;
  readonly phase: SegmentPhase;
  readonly replicas: readonly ReplicaId[];
  /** Members that were left out at the seal and lack a full copy: a repair task. */
  readonly missing?: readonly ReplicaId[];
  /** UPLOADING: uuid of the attempt that owns the object key. */
  readonly attempt?: string;
  readonly object?: ObjectRef;
  readonly sizeBytes?: number;
  readonly chainHash?: string;
  /** Broker append time of the first and last record, and largest record timestamp; set at the seal. */
  readonly firstAppendMs?: number;
  readonly lastAppendMs?: number;
  readonly maxTimestampMs?: number;
  readonly sealedAtMs?: number;
  readonly offloadedAtMs?: number;
}

export interface ShardRecord {
  readonly coordinator: MemberId;
  readonly instance: InstanceId;
  readonly epoch: Epoch;
  readonly snapshotKey?: string;
  readonly snapshotOffset?: number;
}
export type NodePhase = "ACTIVE" | "SUSPECT" | "DRAINING" | "GONE";
export interface NodeRecord {
  readonly id: MemberId;
  readonly incarnation: Incarnation;
  readonly zone: string;
  readonly phase: NodePhase;
}
/** A segment with its partition, as listings give it. */
export interface SegmentEntry {
  readonly partition: PartitionId;
  readonly record: SegmentRecord;
  readonly modRevision: number;
}
