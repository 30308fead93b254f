import { create, fromBinary, toBinary, type DescMessage, type MessageShape } from "@bufbuild/protobuf";
import {
  epoch,
  incarnation,
  instanceId,
  memberId,
  topicId,
  type AssignmentRecord,
  type ClusterRecord,
  type Endpoints,
  type MemberRecord,
  type NodePhase,
  type NodeRecord,
  type PartitionPhase,
  type PartitionState,
  type ReplicaId,
  type SegmentPhase,
  type SegmentRecord,
  type ServiceKind,
  type ShardRecord,
  type TopicPhase,
  type TopicRecord,
} from "@sluice/core/model";
import * as meta from "@sluice/proto/meta/v1/meta";

/**
 * Values of the metadata: protobuf outside, plain records of core/model inside. A record remembers the message it was decoded from, and
 * `encode(record, from)` starts from that message, so fields that a newer version added survive a read-modify-write.
 */
export interface Codec<R extends object> {
  decode(bytes: Uint8Array): R;
  /** `from` = the record that was read and is being replaced, if any. */
  encode(record: R, from?: R): Uint8Array;
}

const origin = new WeakMap<object, unknown>();

function codec<R extends object, D extends DescMessage>(
  desc: D,
  read: (m: MessageShape<D>) => R,
  write: (r: R, m: MessageShape<D>) => void,
): Codec<R> {
  return {
    decode(bytes) {
      const message = fromBinary(desc, bytes);
      const record = read(message);
      origin.set(record, message);
      return record;
    },
    encode(record, from) {
      const source = from === undefined ? undefined : (origin.get(from) as MessageShape<D> | undefined);
      const message = source === undefined ? create(desc) : fromBinary(desc, toBinary(desc, source));
      write(record, message);
      return toBinary(desc, message);
    },
  };
}

/** Maps between our words and the enum's numbers by name: `OPEN` and `SEGMENT_PHASE_OPEN`. A number this version does not know is refused. */
function enumWords<W extends string>(what: string, words: readonly W[]): { toNumber(w: W): number; toWord(n: number): W } {
  return {
    toNumber: (w) => words.indexOf(w) + 1,
    toWord(n) {
      const w = words[n - 1];
      if (w === undefined) throw new RangeError(`unknown ${what} ${n}: written by a newer version`);
      return w;
    },
  };
}
const topicPhases = enumWords<TopicPhase>("topic phase", ["ACTIVE", "DELETING"]);
const partitionPhases = enumWords<PartitionPhase>("partition phase", ["UNOWNED", "RECOVERING", "OPEN", "RELEASING", "DELETED"]);
const segmentPhases = enumWords<SegmentPhase>("segment phase", [
  "OPEN",
  "SEALED",
  "UPLOADING",
  "OFFLOADED",
  "LOCAL_DELETING",
  "LOCAL_DELETED",
  "DELETING",
]);
const nodePhases = enumWords<NodePhase>("node phase", ["ACTIVE", "SUSPECT", "DRAINING", "GONE"]);

export const clusterCodec: Codec<ClusterRecord> = codec(
  meta.ClusterSchema,
  (m) => ({
    clusterId: m.clusterId,
    generation: m.generation,
    featureLevel: m.featureLevel,
    shardCount: m.shardCount,
    shardHash: m.shardHash,
  }),
  (r, m) => void Object.assign(m, r),
);

export const memberCodec: Codec<MemberRecord> = codec(
  meta.MemberSchema,
  (m) => ({
    service: m.service as ServiceKind,
    id: memberId(m.id),
    instance: instanceId(m.instance),
    numericId: m.numericId,
    zone: m.zone,
    endpoints: { ...m.endpoints } as Endpoints,
    version: m.version,
    draining: m.draining,
    ...(m.incarnation === "" ? {} : { incarnation: incarnation(m.incarnation) }),
    ...(m.capacityBytes === 0n ? {} : { capacityBytes: Number(m.capacityBytes) }),
    ...(m.diskFull && { diskFull: true }),
  }),
  (r, m) => {
    Object.assign(m, {
      ...r,
      incarnation: r.incarnation ?? "",
      capacityBytes: BigInt(r.capacityBytes ?? 0),
      diskFull: r.diskFull ?? false,
      endpoints: { ...r.endpoints },
    });
  },
);

export interface LeaderRecord {
  readonly instance: string;
  readonly member: string;
}
export const leaderCodec: Codec<LeaderRecord> = codec(
  meta.LeaderSchema,
  (m) => ({ instance: m.instance, member: m.member }),
  (r, m) => void Object.assign(m, r),
);

export const topicCodec: Codec<TopicRecord> = codec(
  meta.TopicSchema,
  (m) => ({
    tenant: m.tenant,
    name: m.name,
    topicId: topicId(m.topicId),
    partitions: m.partitions,
    config: { ...m.config },
    phase: topicPhases.toWord(m.phase),
    createdAtMs: Number(m.createdAtMs),
  }),
  (r, m) =>
    void Object.assign(m, { ...r, config: { ...r.config }, phase: topicPhases.toNumber(r.phase), createdAtMs: BigInt(r.createdAtMs) }),
);

export const assignmentCodec: Codec<AssignmentRecord> = codec(
  meta.AssignmentSchema,
  (m) => ({
    broker: memberId(m.broker),
    revision: m.revision,
    ...(m.forceInstance === "" ? {} : { forceInstance: instanceId(m.forceInstance) }),
  }),
  (r, m) => void Object.assign(m, { broker: r.broker, revision: r.revision, forceInstance: r.forceInstance ?? "" }),
);

export const partitionStateCodec: Codec<PartitionState> = codec(
  meta.PartitionStateSchema,
  (m) => ({
    epoch: epoch(m.epoch),
    owner: memberId(m.owner),
    ownerInstance: instanceId(m.ownerInstance),
    nonce: m.nonce,
    phase: partitionPhases.toWord(m.phase),
    ...(m.tail === undefined ? {} : { tail: { segment: { epoch: epoch(m.tail.epoch), k: m.tail.k }, base: Number(m.tail.base) } }),
  }),
  (r, m) => {
    Object.assign(m, {
      epoch: r.epoch,
      owner: r.owner,
      ownerInstance: r.ownerInstance,
      nonce: r.nonce,
      phase: partitionPhases.toNumber(r.phase),
    });
    if (r.tail === undefined) delete m.tail;
    else m.tail = create(meta.SegmentRefSchema, { epoch: r.tail.segment.epoch, k: r.tail.segment.k, base: BigInt(r.tail.base) });
  },
);

export interface StartRecord {
  readonly offset: number;
}
export const startCodec: Codec<StartRecord> = codec(
  meta.PartitionStartSchema,
  (m) => ({ offset: Number(m.offset) }),
  (r, m) => void Object.assign(m, { offset: BigInt(r.offset) }),
);

const readReplica = (m: meta.Replica): ReplicaId => ({ node: memberId(m.node), incarnation: incarnation(m.incarnation) });
const writeReplica = (r: ReplicaId): meta.Replica => create(meta.ReplicaSchema, { node: r.node, incarnation: r.incarnation });
const optionalTime = (name: string, value: bigint): Record<string, number> => (value === 0n ? {} : { [name]: Number(value) });

export const segmentCodec: Codec<SegmentRecord> = codec(
  meta.SegmentSchema,
  (m): SegmentRecord => ({
    segment: { epoch: epoch(m.epoch), k: m.k },
    base: Number(m.base),
    ...(m.end === undefined ? {} : { end: Number(m.end) }),
    phase: segmentPhases.toWord(m.phase),
    replicas: m.replicas.map(readReplica),
    ...(m.missing.length === 0 ? {} : { missing: m.missing.map(readReplica) }),
    ...(m.attempt === "" ? {} : { attempt: m.attempt }),
    ...(m.object === undefined
      ? {}
      : { object: { key: m.object.key, at: Number(m.object.at), length: Number(m.object.length), format: m.object.format } }),
    ...(m.chainHash === "" ? {} : { chainHash: m.chainHash }),
    ...optionalTime("sizeBytes", m.sizeBytes),
    ...optionalTime("firstAppendMs", m.firstAppendMs),
    ...optionalTime("lastAppendMs", m.lastAppendMs),
    ...optionalTime("maxTimestampMs", m.maxTimestampMs),
    ...optionalTime("sealedAtMs", m.sealedAtMs),
    ...optionalTime("offloadedAtMs", m.offloadedAtMs),
  }),
  (r, m) => {
    m.epoch = r.segment.epoch;
    m.k = r.segment.k;
    m.base = BigInt(r.base);
    if (r.end === undefined) delete m.end;
    else m.end = BigInt(r.end);
    m.phase = segmentPhases.toNumber(r.phase) as meta.SegmentPhase;
    m.replicas = r.replicas.map(writeReplica);
    m.missing = (r.missing ?? []).map(writeReplica);
    m.attempt = r.attempt ?? "";
    if (r.object === undefined) delete m.object;
    else
      m.object = create(meta.ObjectRefSchema, {
        key: r.object.key,
        at: BigInt(r.object.at),
        length: BigInt(r.object.length),
        format: r.object.format,
      });
    m.chainHash = r.chainHash ?? "";
    m.sizeBytes = BigInt(r.sizeBytes ?? 0);
    m.firstAppendMs = BigInt(r.firstAppendMs ?? 0);
    m.lastAppendMs = BigInt(r.lastAppendMs ?? 0);
    m.maxTimestampMs = BigInt(r.maxTimestampMs ?? 0);
    m.sealedAtMs = BigInt(r.sealedAtMs ?? 0);
    m.offloadedAtMs = BigInt(r.offloadedAtMs ?? 0);
  },
);

export interface ProducerIdsRecord {
  readonly next: number;
}
export const producerIdsCodec: Codec<ProducerIdsRecord> = codec(
  meta.ProducerIdsSchema,
  (m) => ({ next: Number(m.next) }),
  (r, m) => void Object.assign(m, { next: BigInt(r.next) }),
);

export const shardCodec: Codec<ShardRecord> = codec(
  meta.ShardSchema,
  (m) => ({
    coordinator: memberId(m.coordinator),
    instance: instanceId(m.instance),
    epoch: epoch(m.epoch),
    ...(m.snapshotKey === "" ? {} : { snapshotKey: m.snapshotKey, snapshotOffset: Number(m.snapshotOffset) }),
  }),
  (r, m) =>
    void Object.assign(m, {
      coordinator: r.coordinator,
      instance: r.instance,
      epoch: r.epoch,
      snapshotKey: r.snapshotKey ?? "",
      snapshotOffset: BigInt(r.snapshotOffset ?? 0),
    }),
);

export const nodeCodec: Codec<NodeRecord> = codec(
  meta.NodeSchema,
  (m) => ({ id: memberId(m.id), incarnation: incarnation(m.incarnation), zone: m.zone, phase: nodePhases.toWord(m.phase) }),
  (r, m) => void Object.assign(m, { id: r.id, incarnation: r.incarnation, zone: r.zone, phase: nodePhases.toNumber(r.phase) }),
);
