import { SluiceError } from "../model/index.ts";
import { partitionCount } from "./assignment.ts";
import type { ClassicGroup, ConsumerGroupValue, ConsumerMember } from "./membership.ts";
import type { GroupName, GroupRecord, OffsetKey, OffsetValue } from "./record.ts";

/** A committed offset with the partition that it belongs to. */
export interface CommittedEntry {
  readonly topicId: string;
  readonly partition: number;
  readonly value: OffsetValue;
}
/** A group that the server assigns, with its members. */
export interface ConsumerGroup extends ConsumerGroupValue {
  readonly kind: "consumer";
  readonly members: Map<string, ConsumerMember>;
  /** Member id by `<topicId>/<partition>`: who reads it, or has not said that it stopped. */
  readonly owners: Map<string, string>;
}
export interface Group {
  readonly tenant: string;
  readonly group: string;
  /** By `<topicId>/<partition>`, in order of the first commit. */
  readonly offsets: Map<string, CommittedEntry>;
  /** Undefined: it has only offsets. */
  members: ClassicGroup | ConsumerGroup | undefined;
}
/**
 * What the log of one shard says up to `nextOffset`. Only `replay` changes it, live and after a restart alike:
 *
 *   request ──► decide ──► records ──► log ──► replay ──► state      the reply leaves after `replay`
 */
export interface ShardState {
  /** By `<tenant>/<group>`. */
  readonly groups: Map<string, Group>;
  /** Of the newest owner record; 0 before the first. */
  epoch: number;
  member: string;
  instance: string;
  /** Offset of the log record to replay next. */
  nextOffset: number;
  offsetCount: number;
  /** About what the state occupies: keys and values of all entries. */
  bytes: number;
}

export const createShardState = (): ShardState => ({
  groups: new Map(),
  epoch: 0,
  member: "",
  instance: "",
  nextOffset: 0,
  offsetCount: 0,
  bytes: 0,
});

export const groupKey = (tenant: string, group: string): string => `${tenant}/${group}`;
export const entryKey = (topicId: string, partition: number): string => `${topicId}/${partition}`;

/** What an entry counts for in `bytes`, without its metadata: names, numbers and the objects that hold them. */
const ENTRY_BYTES = 200;
export const entryBytes = (value: OffsetValue): number => ENTRY_BYTES + value.metadata.length;

/**
 * The one way state changes: the record at `offset` of the log takes effect. Records below `nextOffset` were replayed before and are left
 * alone; a record above it means that one is missing, and throws CORRUPT_SEGMENT.
 */
export function replay(state: ShardState, offset: number, record: GroupRecord): void {
  if (offset < state.nextOffset) return;
  if (offset > state.nextOffset)
    throw new SluiceError("CORRUPT_SEGMENT", `record ${state.nextOffset} of the shard's log is missing, the next is ${offset}`);
  state.nextOffset = offset + 1;
  switch (record.kind) {
    case "offset":
      return replayOffset(state, record.key, record.value);
    case "owner":
      return replayOwner(state, record);
    case "classic":
      return setMembers(state, groupFor(state, record.key), record.value);
    case "consumer":
      return replayConsumer(state, record.key, record.value);
    case "member":
      return replayMember(state, record.key, record.key.memberId, record.value);
    case "gone":
      return replayGone(state, record.key);
  }
}

function replayOwner(state: ShardState, record: GroupRecord & { readonly kind: "owner" }): void {
  // Older than the newest: the late record of a coordinator that had lost the shard by then.
  if (record.epoch <= state.epoch) return;
  state.epoch = record.epoch;
  state.member = record.member;
  state.instance = record.instance;
}

function groupFor(state: ShardState, { tenant, group }: GroupName): Group {
  const id = groupKey(tenant, group);
  let found = state.groups.get(id);
  if (found === undefined) state.groups.set(id, (found = { tenant, group, offsets: new Map(), members: undefined }));
  return found;
}
function dropIfBare(state: ShardState, group: Group): void {
  if (group.members === undefined && group.offsets.size === 0) state.groups.delete(groupKey(group.tenant, group.group));
}

function replayOffset(state: ShardState, key: OffsetKey, value: OffsetValue | undefined): void {
  const at = entryKey(key.topicId, key.partition);
  const group = groupFor(state, key);
  const before = group.offsets.get(at);
  if (before !== undefined) {
    state.bytes -= entryBytes(before.value);
    state.offsetCount -= 1;
  }
  if (value === undefined) {
    group.offsets.delete(at);
    return dropIfBare(state, group);
  }
  group.offsets.set(at, { topicId: key.topicId, partition: key.partition, value });
  state.bytes += entryBytes(value);
  state.offsetCount += 1;
}

function setMembers(state: ShardState, group: Group, members: ClassicGroup | ConsumerGroup): void {
  state.bytes += membershipBytes(members) - membershipBytes(group.members);
  group.members = members;
}
function replayConsumer(state: ShardState, key: GroupName, value: ConsumerGroupValue): void {
  const group = groupFor(state, key);
  const { members: before } = group;
  // Its members stay, and with them what they count for.
  if (before?.kind === "consumer") group.members = { ...value, kind: "consumer", members: before.members, owners: before.owners };
  else setMembers(state, group, { ...value, kind: "consumer", members: new Map(), owners: new Map() });
}
function replayMember(state: ShardState, key: GroupName, memberId: string, value: ConsumerMember | undefined): void {
  const group = state.groups.get(groupKey(key.tenant, key.group))?.members;
  // Its group is gone, or has become a classic one.
  if (group?.kind !== "consumer") return;
  const before = group.members.get(memberId);
  if (before !== undefined) {
    state.bytes -= memberBytes(before);
    forEachHeld(before, (partition) => group.owners.get(partition) === memberId && group.owners.delete(partition));
  }
  if (value === undefined) return void group.members.delete(memberId);
  group.members.set(memberId, value);
  state.bytes += memberBytes(value);
  forEachHeld(value, (partition) => group.owners.set(partition, memberId));
}
function replayGone(state: ShardState, key: GroupName): void {
  const id = groupKey(key.tenant, key.group);
  const group = state.groups.get(id);
  if (group === undefined) return;
  for (const { value } of group.offsets.values()) state.bytes -= entryBytes(value);
  state.offsetCount -= group.offsets.size;
  state.bytes -= membershipBytes(group.members);
  state.groups.delete(id);
}

function forEachHeld(m: ConsumerMember, fn: (partition: string) => unknown): void {
  for (const held of [m.assigned, m.revoking])
    for (const { topicId, partitions } of held) for (const p of partitions) fn(entryKey(topicId, p));
}

/** What a group and a member count for in `bytes`, beside what they hold. */
const GROUP_BYTES = 400;
const MEMBER_BYTES = 600;
const PARTITION_BYTES = 8;
const OWNER_BYTES = 100;
export function membershipBytes(members: ClassicGroup | ConsumerGroup | undefined): number {
  if (members === undefined) return 0;
  let bytes = GROUP_BYTES;
  if (members.kind === "classic") for (const m of members.members) bytes += MEMBER_BYTES + m.metadata.length + m.assignment.length;
  else for (const m of members.members.values()) bytes += memberBytes(m);
  return bytes;
}
export function memberBytes(m: ConsumerMember): number {
  let bytes = MEMBER_BYTES + m.pattern.length + partitionCount(m.target) * PARTITION_BYTES;
  for (const topic of m.topics) bytes += topic.length;
  return bytes + (partitionCount(m.assigned) + partitionCount(m.revoking)) * (PARTITION_BYTES + OWNER_BYTES);
}
