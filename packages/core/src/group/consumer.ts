import { limits, type ErrorCode } from "../model/index.ts";
import { isWithin, sameAssignment } from "./assignment.ts";
import { isAssignor } from "./assignors.ts";
import {
  heartbeatRefusal,
  preferredAssignor,
  REBALANCE_TIMEOUT_MS_DEFAULT,
  subscribed,
  targetsOf,
  type ConsumerContext,
  type ConsumerHeartbeat,
  type HeartbeatReply,
} from "./consumer-state.ts";
import { EPOCH_LEFT_STATIC, type ConsumerGroupValue, type ConsumerMember } from "./membership.ts";
import { reconcile } from "./reconcile.ts";
import { encodedBytes, encodeGroupRecord, type GroupName, type GroupRecord } from "./record.ts";
import { entryKey, groupKey, type ConsumerGroup, type ShardState } from "./state.ts";

/** What a heartbeat comes to: it holds once the records are durable and replayed. */
export interface HeartbeatDecision {
  readonly records: readonly GroupRecord[];
  readonly reply: HeartbeatReply;
}
const EPOCH_LEAVES = -1;
const NOTHING: ConsumerGroupValue = { epoch: 0, targetEpoch: 0, assignor: "", topicsHash: 0, emptySinceMs: -1 };
const refuse = (code: ErrorCode, message?: string): HeartbeatDecision => ({ records: [], reply: heartbeatRefusal(code, message) });

/**
 * A heartbeat of a group that the server assigns:
 *
 *   who is it ──► what it subscribes to ──► group epoch + 1 when anything changed ──► targets, when they are older ──► one step towards its own
 *
 * Changes nothing itself. `checkHeartbeat` has passed.
 */
export function decideHeartbeat(state: ShardState, r: ConsumerHeartbeat, context: ConsumerContext): HeartbeatDecision {
  if (context.hasClassicMembers) return refuse("GROUP_NOT_FOUND", `group ${r.group} has members of the classic protocol`);
  const there = state.groups.get(groupKey(r.tenant, r.group));
  const group = there?.members?.kind === "consumer" ? there.members : undefined;
  if (r.memberEpoch < 0) return group === undefined ? refuse("UNKNOWN_MEMBER") : leave(group, r, context);
  if (r.assignor !== "" && !isAssignor(r.assignor)) return refuse("UNSUPPORTED_ASSIGNOR", `there is no assignor ${r.assignor}`);
  const found = findMember(group, r);
  if (typeof found === "string") return refuse(found);
  if (found.before === undefined) {
    const full = checkRoom(state, there === undefined, group, context);
    if (full !== undefined) return refuse("GROUP_LIMIT", full);
  }
  return new Heartbeat(group, r, context, found).decide();
}

/** The member as it was, under which id; undefined: it is new. */
interface Found {
  readonly before: ConsumerMember | undefined;
  readonly formerId: string;
}
function findMember(group: ConsumerGroup | undefined, r: ConsumerHeartbeat): Found | ErrorCode {
  const joins = r.memberEpoch === 0;
  const former = r.instanceId === "" ? undefined : staticMember(group, r.instanceId);
  if (former !== undefined && former[0] !== r.memberId) {
    if (!joins) return "FENCED_INSTANCE_ID";
    return former[1].memberEpoch === EPOCH_LEFT_STATIC ? { before: former[1], formerId: former[0] } : "UNRELEASED_INSTANCE_ID";
  }
  const before = group?.members.get(r.memberId);
  // Its group may be gone with it: either way it joins anew.
  if (before === undefined) return joins ? { before, formerId: r.memberId } : "UNKNOWN_MEMBER";
  if (before.instanceId !== r.instanceId && r.instanceId !== "") return "FENCED_INSTANCE_ID";
  if (!joins && !epochFits(before, r)) return "FENCED_MEMBER_EPOCH";
  return { before, formerId: r.memberId };
}
const staticMember = (group: ConsumerGroup | undefined, instanceId: string): [string, ConsumerMember] | undefined =>
  group === undefined ? undefined : [...group.members].find(([, m]) => m.instanceId === instanceId);
/** The epoch before is that of a member which did not hear the last answer: let in while it reads nothing that it may not. */
const epochFits = (m: ConsumerMember, r: ConsumerHeartbeat): boolean =>
  r.memberEpoch === m.memberEpoch || (r.memberEpoch === m.previousEpoch && r.owned !== undefined && isWithin(r.owned, m.assigned));

function checkRoom(
  state: ShardState,
  isNewGroup: boolean,
  group: ConsumerGroup | undefined,
  { config }: ConsumerContext,
): string | undefined {
  if (isNewGroup && state.groups.size >= limits.groupsPerShardMax) return `the shard has ${limits.groupsPerShardMax} groups`;
  if (state.bytes >= limits.groupStateBytesPerShardMax) return `the shard holds ${state.bytes} bytes`;
  return (group?.members.size ?? 0) >= config.membersMax
    ? `the group has ${config.membersMax} members, the most that it may have`
    : undefined;
}

class Heartbeat {
  readonly #group: ConsumerGroup | undefined;
  readonly #r: ConsumerHeartbeat;
  readonly #context: ConsumerContext;
  readonly #found: Found;
  readonly #memberId: string;

  constructor(group: ConsumerGroup | undefined, r: ConsumerHeartbeat, context: ConsumerContext, found: Found) {
    this.#group = group;
    this.#r = r;
    this.#context = context;
    this.#found = found;
    this.#memberId = r.memberId;
  }

  decide(): HeartbeatDecision {
    const { before } = this.#found;
    const old = before?.memberEpoch === EPOCH_LEFT_STATIC || this.#r.memberEpoch === 0 ? before && rejoined(before) : before;
    const described = this.#describe(old);
    const { value, targets } = this.#target(described, before === undefined || subscriptionChanged(before, described));
    if (targets === undefined && this.#r.memberEpoch === 0 && value.epoch > value.targetEpoch)
      return refuse("GROUP_LIMIT", `the assignments of group ${this.#r.group} take more than one append can hold`);
    const after = this.#reconcile({ ...described, target: targets?.get(this.#memberId) ?? described.target }, value.targetEpoch);
    const records = this.#records(value, targets, after);
    return { records, reply: this.#reply(before, after, (this.#group?.members.size ?? 0) + (before === undefined ? 1 : 0)) };
  }

  /** The member as it describes itself now. */
  #describe(old: ConsumerMember | undefined): ConsumerMember {
    const r = this.#r;
    return {
      instanceId: r.instanceId === "" ? (old?.instanceId ?? "") : r.instanceId,
      rackId: r.rackId === "" ? (old?.rackId ?? "") : r.rackId,
      clientId: r.clientId,
      clientHost: r.clientHost,
      rebalanceTimeoutMs: r.rebalanceTimeoutMs ?? old?.rebalanceTimeoutMs ?? REBALANCE_TIMEOUT_MS_DEFAULT,
      topics: r.subscription === undefined ? (old?.topics ?? []) : [...new Set(r.subscription.topics)].sort(),
      pattern: r.subscription === undefined ? (old?.pattern ?? "") : r.subscription.pattern,
      assignor: r.assignor === "" ? (old?.assignor ?? "") : r.assignor,
      memberEpoch: old?.memberEpoch ?? 0,
      previousEpoch: old?.previousEpoch ?? 0,
      phase: old?.phase ?? "stable",
      assigned: old?.assigned ?? [],
      revoking: old?.revoking ?? [],
      target: old?.target ?? [],
    };
  }

  /** The group's epoch, and new targets when they are due. */
  #target(described: ConsumerMember, changed: boolean) {
    const group = this.#group ?? NOTHING;
    const due = changed || !this.#context.topicsAreKnown || group.epoch > group.targetEpoch;
    const same = { ...bare(group), emptySinceMs: -1 };
    if (!due) return { value: same, targets: undefined };
    const members = new Map(this.#group?.members);
    if (this.#found.formerId !== this.#memberId) members.delete(this.#found.formerId);
    members.set(this.#memberId, described);
    const known = subscribed(members, this.#r.tenant, this.#context.topics);
    const epoch = group.epoch + (changed || known.hash !== group.topicsHash ? 1 : 0);
    if (epoch === group.targetEpoch) return { value: same, targets: undefined };
    const assignor = preferredAssignor(members);
    const targets = targetsOf(members, known, assignor);
    const value = { epoch, targetEpoch: epoch, assignor, topicsHash: known.hash, emptySinceMs: -1 };
    if (this.#fits(value, targets)) return { value, targets };
    // Everybody goes on with what it has; the group says that it is still assigning.
    return { value: { ...same, epoch, topicsHash: known.hash }, targets: undefined };
  }
  #fits(value: ConsumerGroupValue, targets: ReadonlyMap<string, ConsumerMember["target"]>): boolean {
    let bytes = 0;
    for (const record of this.#others(targets)) bytes += encodedBytes(encodeGroupRecord(record));
    const own = targets.get(this.#memberId) ?? [];
    const self: ConsumerMember = {
      ...this.#describe(this.#found.before),
      target: own,
      assigned: own,
      revoking: this.#found.before?.assigned ?? [],
    };
    bytes += encodedBytes(encodeGroupRecord({ kind: "member", key: { ...this.#key, memberId: this.#memberId }, value: self }));
    bytes += encodedBytes(encodeGroupRecord({ kind: "consumer", key: this.#key, value }));
    return bytes <= limits.groupMembershipBytesMax;
  }
  get #key(): GroupName {
    return { tenant: this.#r.tenant, group: this.#r.group };
  }
  *#others(targets: ReadonlyMap<string, ConsumerMember["target"]>): Generator<GroupRecord> {
    for (const [memberId, m] of this.#group?.members ?? []) {
      if (memberId === this.#memberId || memberId === this.#found.formerId) continue;
      const target = targets.get(memberId) ?? [];
      if (!sameAssignment(target, m.target)) yield { kind: "member", key: { ...this.#key, memberId }, value: { ...m, target } };
    }
  }

  #reconcile(m: ConsumerMember, targetEpoch: number): ConsumerMember {
    const owners = this.#group?.owners;
    const { formerId } = this.#found;
    const isFree = (topicId: string, partition: number): boolean => {
      const owner = owners?.get(entryKey(topicId, partition));
      return owner === undefined || owner === this.#memberId || owner === formerId;
    };
    const owned = this.#r.memberEpoch === 0 ? [] : this.#r.owned;
    return reconcile(m, targetEpoch, owned, isFree);
  }

  #records(
    value: ConsumerGroupValue,
    targets: ReadonlyMap<string, ConsumerMember["target"]> | undefined,
    after: ConsumerMember,
  ): GroupRecord[] {
    const records: GroupRecord[] = [];
    const { before, formerId } = this.#found;
    if (this.#group === undefined || !sameValue(this.#group, value)) records.push({ kind: "consumer", key: this.#key, value });
    if (targets !== undefined) records.push(...this.#others(targets));
    if (formerId !== this.#memberId) records.push({ kind: "member", key: { ...this.#key, memberId: formerId }, value: undefined });
    if (before === undefined || formerId !== this.#memberId || !sameMember(before, after))
      records.push({ kind: "member", key: { ...this.#key, memberId: this.#memberId }, value: after });
    return records;
  }

  #reply(before: ConsumerMember | undefined, after: ConsumerMember, memberCount: number): HeartbeatReply {
    const r = this.#r;
    const tellsAll = r.owned !== undefined && r.subscription !== undefined && r.rebalanceTimeoutMs !== undefined;
    // It may not have heard an earlier answer.
    const isBehind = (r.owned !== undefined && !sameAssignment(r.owned, after.assigned)) || r.memberEpoch !== before?.memberEpoch;
    const tell = r.memberEpoch === 0 || tellsAll || isBehind || !sameAssignment(before?.assigned ?? [], after.assigned);
    return {
      code: undefined,
      memberId: this.#memberId,
      memberEpoch: after.memberEpoch,
      heartbeatIntervalMs: intervalMs(this.#context, after, memberCount),
      assignment: tell ? after.assigned : undefined,
    };
  }
}

/** A member that joins again reads nothing, whatever it read before; what it had stays its own until it is told otherwise. */
const rejoined = (m: ConsumerMember): ConsumerMember => ({ ...m, memberEpoch: 0, previousEpoch: 0, phase: "stable", revoking: [] });
const bare = ({ epoch, targetEpoch, assignor, topicsHash, emptySinceMs }: ConsumerGroupValue): ConsumerGroupValue => ({
  epoch,
  targetEpoch,
  assignor,
  topicsHash,
  emptySinceMs,
});
const sameValue = (a: ConsumerGroupValue, b: ConsumerGroupValue): boolean =>
  a.epoch === b.epoch &&
  a.targetEpoch === b.targetEpoch &&
  a.assignor === b.assignor &&
  a.topicsHash === b.topicsHash &&
  a.emptySinceMs === b.emptySinceMs;
const sameTexts = (a: readonly string[], b: readonly string[]): boolean => a.length === b.length && a.every((t, i) => t === b[i]);
const subscriptionChanged = (a: ConsumerMember, b: ConsumerMember): boolean =>
  !sameTexts(a.topics, b.topics) || a.pattern !== b.pattern || a.assignor !== b.assignor;
const sameMember = (a: ConsumerMember, b: ConsumerMember): boolean =>
  a.instanceId === b.instanceId &&
  a.rackId === b.rackId &&
  a.clientId === b.clientId &&
  a.clientHost === b.clientHost &&
  a.rebalanceTimeoutMs === b.rebalanceTimeoutMs &&
  !subscriptionChanged(a, b) &&
  a.memberEpoch === b.memberEpoch &&
  a.previousEpoch === b.previousEpoch &&
  a.phase === b.phase &&
  sameAssignment(a.assigned, b.assigned) &&
  sameAssignment(a.revoking, b.revoking) &&
  sameAssignment(a.target, b.target);

/** Members that wait for others ask more often; those of large groups less. */
const HASTE = 4;
const INTERVAL_PER_MEMBER_MS = 2;
const INTERVAL_MS_MIN = 50;
function intervalMs({ config }: ConsumerContext, m: ConsumerMember, members: number): number {
  const steady = Math.max(config.consumerHeartbeatIntervalMs, members * INTERVAL_PER_MEMBER_MS);
  return m.phase === "stable" ? steady : Math.max(INTERVAL_MS_MIN, Math.round(steady / HASTE));
}

function leave(group: ConsumerGroup, r: ConsumerHeartbeat, context: ConsumerContext): HeartbeatDecision {
  const former = r.instanceId === "" ? undefined : staticMember(group, r.instanceId);
  const before = group.members.get(r.memberId);
  if (former !== undefined && former[0] !== r.memberId) return refuse("FENCED_INSTANCE_ID");
  if (before === undefined) return refuse("UNKNOWN_MEMBER");
  const key = { tenant: r.tenant, group: r.group };
  const reply = { ...heartbeatRefusal("UNKNOWN_MEMBER"), code: undefined, memberId: r.memberId, memberEpoch: r.memberEpoch };
  if (r.memberEpoch === EPOCH_LEAVES) return { records: removal(group, key, [r.memberId], context.nowMs), reply };
  const value: ConsumerMember = { ...before, memberEpoch: EPOCH_LEFT_STATIC, phase: "stable", revoking: [] };
  return { records: [{ kind: "member", key: { ...key, memberId: r.memberId }, value }], reply };
}

/** Members that left, were silent too long or did not give back in time: what they had is free, and targets are due. */
function removal(group: ConsumerGroup, key: GroupName, memberIds: readonly string[], nowMs: number): GroupRecord[] {
  const emptySinceMs = group.members.size === memberIds.length ? nowMs : -1;
  return [
    { kind: "consumer", key, value: { ...bare(group), epoch: group.epoch + 1, emptySinceMs } },
    ...memberIds.map((memberId): GroupRecord => ({ kind: "member", key: { ...key, memberId }, value: undefined })),
  ];
}

/** Takes those of `memberIds` out that are there. */
export function decideExpel(state: ShardState, key: GroupName, memberIds: readonly string[], nowMs: number): readonly GroupRecord[] {
  const group = state.groups.get(groupKey(key.tenant, key.group))?.members;
  if (group?.kind !== "consumer") return [];
  const there = memberIds.filter((id) => group.members.has(id));
  return there.length === 0 ? [] : removal(group, key, there, nowMs);
}

/** Whether a member (or, without an id and epoch, anybody) may commit or fetch now. */
export function mayUseOffsets(group: ConsumerGroup, memberId: string, memberEpoch: number): ErrorCode | undefined {
  if (memberEpoch < 0 && memberId === "") return group.members.size === 0 ? undefined : "UNKNOWN_MEMBER";
  const m = group.members.get(memberId);
  if (m === undefined) return "UNKNOWN_MEMBER";
  return m.memberEpoch === memberEpoch ? undefined : "STALE_MEMBER_EPOCH";
}
