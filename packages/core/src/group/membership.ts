import { FieldWriter, malformed, type FieldReader } from "./fields.ts";

/** Partitions of one topic, in order, each once. */
export interface TopicPartitions {
  readonly topicId: string;
  readonly partitions: readonly number[];
}
/** In order of topic id; no topic twice, none without partitions. */
export type Assignment = readonly TopicPartitions[];

/**
 * A classic group as its last finished generation left it. What is on the way between two generations lives in the memory of the coordinator:
 * when that is lost, members are told to join again.
 *
 *   value of kind 3, version 1:
 *     1 version                                   list of members:
 *     text protocol type                            text member id, text instance id ("" = dynamic), text client id, text client host
 *     4 generation                                  4 session timeout ms, 4 rebalance timeout ms
 *     text protocol, text leader                    bytes metadata for the protocol, bytes assignment
 *     8 empty since, ms since 1970; -1 = it has members
 */
export interface ClassicGroup {
  readonly kind: "classic";
  readonly protocolType: string;
  readonly generation: number;
  /** "" while there are no members. */
  readonly protocol: string;
  readonly leader: string;
  readonly emptySinceMs: number;
  readonly members: readonly ClassicMember[];
}
export interface ClassicMember {
  readonly memberId: string;
  /** "" = dynamic. */
  readonly instanceId: string;
  readonly clientId: string;
  readonly clientHost: string;
  readonly sessionTimeoutMs: number;
  readonly rebalanceTimeoutMs: number;
  readonly metadata: Uint8Array;
  readonly assignment: Uint8Array;
}

/**
 * A group that the server assigns (KIP-848), without its members.
 *
 *   value of kind 4, version 1:   1 version, 4 epoch, 4 target epoch, text assignor, 8 topics hash, 8 empty since
 */
export interface ConsumerGroupValue {
  /** Rises with every change of members, subscriptions or topics. */
  readonly epoch: number;
  /** The epoch for which targets were computed; below `epoch`: they are due. */
  readonly targetEpoch: number;
  readonly assignor: string;
  /** Of ids and partition counts of the topics that were assigned. */
  readonly topicsHash: number;
  readonly emptySinceMs: number;
}
/**
 *   stable      reads what it is assigned; it is in its newest epoch, or will be after its next heartbeat
 *   unrevoked   was told to give `revoking` back and has not said that it did: they are given to nobody
 *   unreleased  waits for partitions that others have not given back
 */
export type MemberPhase = "stable" | "unrevoked" | "unreleased";
const phases: readonly MemberPhase[] = ["stable", "unrevoked", "unreleased"];
/** A static member that left and may come back. */
export const EPOCH_LEFT_STATIC = -2;

/**
 *   value of kind 5, version 1:
 *     1 version
 *     text instance id ("" = dynamic), text rack id, text client id, text client host, 4 rebalance timeout ms
 *     list of text topics, 2-byte text pattern, text assignor ("" = no wish)
 *     4 member epoch, 4 previous epoch, 1 phase
 *     assigned, revoking, target: list of (text topic id, list of 4 partition)
 */
export interface ConsumerMember {
  readonly instanceId: string;
  readonly rackId: string;
  readonly clientId: string;
  readonly clientHost: string;
  readonly rebalanceTimeoutMs: number;
  readonly topics: readonly string[];
  readonly pattern: string;
  readonly assignor: string;
  readonly memberEpoch: number;
  readonly previousEpoch: number;
  readonly phase: MemberPhase;
  readonly assigned: Assignment;
  readonly revoking: Assignment;
  readonly target: Assignment;
}

export function encodeClassic(version: number, g: ClassicGroup): Uint8Array {
  const w = new FieldWriter().uint8(version).text(g.protocolType).int32(g.generation).text(g.protocol).text(g.leader).int64(g.emptySinceMs);
  w.list(g.members, (m) =>
    w
      .text(m.memberId)
      .text(m.instanceId)
      .text(m.clientId)
      .text(m.clientHost)
      .int32(m.sessionTimeoutMs)
      .int32(m.rebalanceTimeoutMs)
      .bytes(m.metadata)
      .bytes(m.assignment),
  );
  return w.done();
}
const CLASSIC_MEMBER_BYTES_MIN = 20;
export const decodeClassic = (r: FieldReader): ClassicGroup => ({
  kind: "classic",
  protocolType: r.text(),
  generation: r.int32(),
  protocol: r.text(),
  leader: r.text(),
  emptySinceMs: r.int64(-1),
  members: r.list(CLASSIC_MEMBER_BYTES_MIN, () => ({
    memberId: r.text(),
    instanceId: r.text(),
    clientId: r.text(),
    clientHost: r.text(),
    sessionTimeoutMs: r.int32(),
    rebalanceTimeoutMs: r.int32(),
    metadata: r.bytes(),
    assignment: r.bytes(),
  })),
});

export const encodeConsumer = (version: number, g: ConsumerGroupValue): Uint8Array =>
  new FieldWriter().uint8(version).int32(g.epoch).int32(g.targetEpoch).text(g.assignor).int64(g.topicsHash).int64(g.emptySinceMs).done();
export const decodeConsumer = (r: FieldReader): ConsumerGroupValue => ({
  epoch: r.int32(),
  targetEpoch: r.int32(),
  assignor: r.text(),
  topicsHash: r.int64(0),
  emptySinceMs: r.int64(-1),
});

export function encodeMember(version: number, m: ConsumerMember): Uint8Array {
  const w = new FieldWriter().uint8(version).text(m.instanceId).text(m.rackId).text(m.clientId).text(m.clientHost);
  w.int32(m.rebalanceTimeoutMs)
    .list(m.topics, (t) => w.text(t))
    .longer(m.pattern)
    .text(m.assignor);
  w.int32(m.memberEpoch).int32(m.previousEpoch).uint8(phases.indexOf(m.phase));
  for (const a of [m.assigned, m.revoking, m.target])
    w.list(a, ({ topicId, partitions }) => w.text(topicId).list(partitions, (p) => w.int32(p)));
  return w.done();
}
export function decodeMember(r: FieldReader): ConsumerMember {
  const assignment = (): Assignment =>
    r.list(5, () => ({
      topicId: r.text(),
      partitions: r.list(4, () => r.uint32()),
    }));
  const phase = (): MemberPhase => {
    const found = phases[r.uint8()];
    if (found === undefined) throw malformed("a member");
    return found;
  };
  return {
    instanceId: r.text(),
    rackId: r.text(),
    clientId: r.text(),
    clientHost: r.text(),
    rebalanceTimeoutMs: r.int32(),
    topics: r.list(1, () => r.text()),
    pattern: r.longer(),
    assignor: r.text(),
    memberEpoch: r.int32(),
    previousEpoch: r.int32(),
    phase: phase(),
    assigned: assignment(),
    revoking: assignment(),
    target: assignment(),
  };
}
