import { limits, utf8Bytes, type ErrorCode } from "../model/index.ts";
import {
  answerJoin,
  answerSync,
  classicOf,
  currentMembers,
  joinRefusal,
  joinReply,
  prepareRebalance,
  refuseAssignment,
  removeMember,
  selectProtocol,
  store,
  syncRefusal,
  tryCompleteJoin,
  type ClassicStep,
} from "./classic-rebalance.ts";
import {
  createClassic,
  toRecord,
  touch,
  waits,
  type Classic,
  type JoinReply,
  type LeaveReply,
  type Member,
  type Protocol,
  type Refusal,
  type SyncReply,
  type Ticket,
} from "./classic-state.ts";
import type { ClassicGroup } from "./membership.ts";
import { encodedBytes, encodeGroupRecord, sameBytes, type GroupName } from "./record.ts";
import { groupKey, type ShardState } from "./state.ts";

export interface JoinRequest {
  readonly tenant: string;
  readonly group: string;
  /** "" = new. */
  readonly memberId: string;
  /** "" = dynamic. */
  readonly instanceId: string;
  readonly clientId: string;
  readonly clientHost: string;
  readonly sessionTimeoutMs: number;
  readonly rebalanceTimeoutMs: number;
  readonly protocolType: string;
  readonly protocols: readonly Protocol[];
  readonly requireKnownMemberId: boolean;
  readonly supportsSkipAssignment: boolean;
  /** What a new member will be called. */
  readonly newMemberId: string;
}

/**
 * JoinGroup. The answer of `ticket` is an effect, now or later: when all members have joined, or their time is over.
 * `state` says what else there is under the name of the group.
 */
export function join(step: ClassicStep, state: ShardState, r: JoinRequest, ticket: Ticket): void {
  const refuse = (refusal: Refusal, memberId = r.memberId): void =>
    void step.effects.push({ kind: "joined", ticket, reply: joinRefusal(memberId, refusal) });
  const bad = checkJoin(step, r);
  if (bad !== undefined) return refuse(bad);
  const there = classicOf(step.all, r.tenant, r.group);
  if (there === undefined && r.memberId !== "") return refuse({ code: "UNKNOWN_MEMBER" });
  const barred = there === undefined || there.members.size === 0 ? mayBegin(step, state, r, there) : undefined;
  if (barred !== undefined) return refuse(barred);
  const g = there ?? createClassic(r, step.now);
  const known = g.members.get(r.memberId);
  if (!fitsProtocols(g, r))
    return refuse({ code: "INCONSISTENT_GROUP_PROTOCOL", message: `the members of ${r.group} are of type ${g.protocolType}` });
  if (known === undefined && !g.pending.has(r.memberId)) {
    const former = r.instanceId === "" ? undefined : staticMember(g, r.instanceId);
    if (r.memberId !== "") return refuse({ code: former === undefined ? "UNKNOWN_MEMBER" : "FENCED_INSTANCE_ID" });
    if (former !== undefined) {
      const full = checkRoom(step, state, g, r, former) ?? checkReplacement(g, former, r);
      return full === undefined ? replaceStatic(step, g, former, r, ticket) : refuse(full);
    }
  } else if (known !== undefined && known.instanceId !== r.instanceId)
    return refuse({ code: r.instanceId === "" ? "UNKNOWN_MEMBER" : "FENCED_INSTANCE_ID" });
  const full = checkRoom(step, state, g, r, known);
  if (full !== undefined) return refuse(full);
  step.all.groups.set(groupKey(r.tenant, r.group), g);
  if (known !== undefined) return joinAgain(step, g, known, r, ticket);
  if (r.memberId === "" && r.instanceId === "" && r.requireKnownMemberId) {
    g.pending.set(r.newMemberId, step.now.monotonicMs + r.sessionTimeoutMs);
    return refuse({ code: "MEMBER_ID_REQUIRED" }, r.newMemberId);
  }
  g.pending.delete(r.memberId);
  addMember(step, g, r, r.memberId === "" ? r.newMemberId : r.memberId, ticket);
}

function checkJoin({ all }: ClassicStep, r: JoinRequest): Refusal | undefined {
  const { sessionTimeoutMinMs, sessionTimeoutMaxMs } = all.config;
  if (r.sessionTimeoutMs < sessionTimeoutMinMs || r.sessionTimeoutMs > sessionTimeoutMaxMs)
    return { code: "INVALID_SESSION_TIMEOUT", message: `the session timeout is ${sessionTimeoutMinMs} to ${sessionTimeoutMaxMs} ms` };
  if (r.protocolType === "" || r.protocols.length === 0)
    return { code: "INCONSISTENT_GROUP_PROTOCOL", message: "a member names the type and at least one protocol" };
  if (r.protocols.length > limits.groupProtocolsPerMemberMax)
    return { code: "INVALID_ARGUMENT", message: `${r.protocols.length} protocols, the limit is ${limits.groupProtocolsPerMemberMax}` };
  const texts = [r.instanceId, r.protocolType, ...r.protocols.map((p) => p.name)];
  if (texts.some((s) => utf8Bytes(s) > limits.groupTextBytesMax))
    return {
      code: "INVALID_ARGUMENT",
      message: `an instance id, a protocol type or a protocol takes more than ${limits.groupTextBytesMax} bytes`,
    };
  const bytes = r.protocols.reduce((n, p) => n + p.metadata.length, 0);
  if (bytes > limits.groupMemberBytesMax)
    return {
      code: "MESSAGE_TOO_LARGE",
      message: `the protocols of a member take ${bytes} bytes, the limit is ${limits.groupMemberBytesMax}`,
    };
  return undefined;
}
/** A group without members: `classic` is what is in memory of it. */
function mayBegin(step: ClassicStep, state: ShardState, r: JoinRequest, classic: Classic | undefined): Refusal | undefined {
  const there = state.groups.get(groupKey(r.tenant, r.group));
  if (there?.members?.kind === "consumer" && there.members.members.size > 0)
    return { code: "INCONSISTENT_GROUP_PROTOCOL", message: `group ${r.group} has members of the other protocol` };
  const isNew = there === undefined && classic === undefined;
  return isNew && Math.max(state.groups.size, step.all.groups.size) >= limits.groupsPerShardMax ? { code: "GROUP_LIMIT" } : undefined;
}
function fitsProtocols(g: Classic, r: JoinRequest): boolean {
  if (g.members.size === 0) return true;
  if (g.protocolType !== r.protocolType) return false;
  return r.protocols.some(({ name }) => [...g.members.values()].every((m) => m.protocols.some((p) => p.name === name)));
}
const MEMBER_OVERHEAD_BYTES = 1_100;
const largest = (protocols: readonly Protocol[]): number => MEMBER_OVERHEAD_BYTES + Math.max(0, ...protocols.map((p) => p.metadata.length));
/** All members must fit one record, whichever protocol wins. */
function checkRoom({ all }: ClassicStep, state: ShardState, g: Classic, r: JoinRequest, known: Member | undefined): Refusal | undefined {
  if (known === undefined && state.bytes >= limits.groupStateBytesPerShardMax)
    return { code: "GROUP_LIMIT", message: `the shard of group ${r.group} holds ${state.bytes} bytes` };
  const isCounted = known !== undefined || g.pending.has(r.memberId);
  if (!isCounted && g.members.size + g.pending.size >= all.config.membersMax)
    return { code: "GROUP_LIMIT", message: `group ${r.group} has ${all.config.membersMax} members, the most that it may have` };
  let bytes = largest(r.protocols);
  for (const m of g.members.values()) if (m !== known) bytes += largest(m.protocols);
  if (bytes <= limits.groupMembershipBytesMax) return undefined;
  return { code: "GROUP_LIMIT", message: `the members of group ${r.group} would take more than ${limits.groupMembershipBytesMax} bytes` };
}
/** A replacement is stored with the assignments as they are: they must fit beside what the member says now. */
function checkReplacement(g: Classic, former: Member, r: JoinRequest): Refusal | undefined {
  if (g.phase !== "stable") return undefined;
  const value = toRecord(g);
  const metadata = r.protocols.find((p) => p.name === g.protocol)?.metadata ?? former.assignment.subarray(0, 0);
  const members = value.members.map((m) =>
    m.memberId === former.id ? { ...m, memberId: r.newMemberId, clientId: r.clientId, clientHost: r.clientHost, metadata } : m,
  );
  const bytes = classicBytes(g, { ...value, leader: g.leader === former.id ? r.newMemberId : g.leader, members });
  if (bytes <= limits.groupMembershipBytesMax) return undefined;
  return {
    code: "GROUP_LIMIT",
    message: `the members of group ${r.group} would take ${bytes} bytes, ${limits.groupMembershipBytesMax} at most`,
  };
}
const classicBytes = (key: GroupName, value: ClassicGroup): number => encodedBytes(encodeGroupRecord({ kind: "classic", key, value }));
const staticMember = (g: Classic, instanceId: string): Member | undefined =>
  [...g.members.values()].find((m) => m.instanceId === instanceId);

function addMember(step: ClassicStep, g: Classic, r: JoinRequest, id: string, ticket: Ticket): void {
  if (g.members.size === 0) {
    g.protocolType = r.protocolType;
    g.leader = id;
  }
  const m: Member = {
    id,
    instanceId: r.instanceId,
    clientId: r.clientId,
    clientHost: r.clientHost,
    sessionTimeoutMs: r.sessionTimeoutMs,
    rebalanceTimeoutMs: r.rebalanceTimeoutMs,
    protocols: r.protocols,
    assignment: new Uint8Array(0),
    joined: true,
    joinTicket: ticket,
    synced: false,
    syncTicket: undefined,
    sessionEndsMs: 0,
  };
  touch(m, step.now);
  g.members.set(id, m);
  if (g.initial !== undefined) g.initial.sawNew = true;
  prepareRebalance(step, g);
}

function update(m: Member, r: JoinRequest): void {
  m.protocols = r.protocols;
  m.clientId = r.clientId;
  m.clientHost = r.clientHost;
  m.sessionTimeoutMs = r.sessionTimeoutMs;
  m.rebalanceTimeoutMs = r.rebalanceTimeoutMs;
}
function awaitJoin(step: ClassicStep, g: Classic, m: Member, r: JoinRequest, ticket: Ticket): void {
  // A request of the same member that still waits is answered: connections answer in order.
  answerJoin(step, m, joinRefusal(m.id, { code: "REBALANCE_IN_PROGRESS" }));
  update(m, r);
  m.joined = true;
  m.joinTicket = ticket;
  touch(m, step.now);
  prepareRebalance(step, g);
}
function joinAgain(step: ClassicStep, g: Classic, m: Member, r: JoinRequest, ticket: Ticket): void {
  const same = sameProtocols(m.protocols, r.protocols) || (g.phase === "stable" && restoredSame(g, m, r));
  const told = same && (g.phase === "completing" || (g.phase === "stable" && g.leader !== m.id));
  if (!told) return awaitJoin(step, g, m, r, ticket);
  update(m, r);
  touch(m, step.now);
  step.effects.push({ kind: "joined", ticket, reply: joinReply(g, m) });
}
/** After a takeover only the metadata of the protocol in use is known. */
function restoredSame(g: Classic, m: Member, r: JoinRequest): boolean {
  const used = r.protocols.find((p) => p.name === g.protocol);
  return m.protocols.length === 1 && used !== undefined && sameProtocols(m.protocols, [used]);
}
const sameProtocols = (a: readonly Protocol[], b: readonly Protocol[]): boolean =>
  a.length === b.length && a.every((p, i) => p.name === b[i]?.name && sameBytes(p.metadata, (b[i] as Protocol).metadata));

/** A static member starts again: it takes the place of its former self, without a rebalance while the protocol stays. */
function replaceStatic(step: ClassicStep, g: Classic, m: Member, r: JoinRequest, ticket: Ticket): void {
  const refusal = { code: "FENCED_INSTANCE_ID" as const };
  const formerLeader = g.leader;
  if (g.phase === "empty") return void step.effects.push({ kind: "joined", ticket, reply: joinRefusal("", { code: "UNKNOWN_MEMBER" }) });
  answerJoin(step, m, joinRefusal(m.id, refusal));
  answerSync(step, m, syncRefusal(refusal));
  if (g.leader === m.id) g.leader = r.newMemberId;
  // In its place: the order of members stays.
  const entries = [...g.members.values()];
  g.members.clear();
  m.id = r.newMemberId;
  for (const other of entries) g.members.set(other.id, other);
  if (g.phase !== "stable" || g.storing !== undefined) return awaitJoin(step, g, m, r, ticket);
  update(m, r);
  touch(m, step.now);
  if (selectProtocol(g) !== g.protocol) return awaitJoin(step, g, m, r, ticket);
  const leads = g.leader === m.id;
  const reply: JoinReply = r.supportsSkipAssignment
    ? { ...joinReply(g, m), members: leads ? currentMembers(g) : [], skipAssignment: leads }
    : // An older client that is told it leads would assign anew: it hears of its former self.
      { ...joinReply(g, m), members: [], leader: formerLeader };
  store(step, g, (token) => ({ kind: "replacement", token, ticket, reply }));
}

/** Undefined = the member is there. `memberId` "" is allowed for static members that leave. */
function refusalOf(g: Classic, memberId: string, instanceId: string): ErrorCode | undefined {
  if (instanceId === "") return g.members.get(memberId) === undefined ? "UNKNOWN_MEMBER" : undefined;
  const m = staticMember(g, instanceId);
  if (m === undefined) return "UNKNOWN_MEMBER";
  return m.id === memberId ? undefined : "FENCED_INSTANCE_ID";
}

export interface SyncRequest {
  readonly tenant: string;
  readonly group: string;
  readonly memberId: string;
  readonly instanceId: string;
  readonly generation: number;
  readonly protocolType: string | undefined;
  readonly protocol: string | undefined;
  readonly assignments: ReadonlyMap<string, Uint8Array>;
}
/** SyncGroup. The answer of `ticket` is an effect: when the leader's assignment is stored. */
export function sync(step: ClassicStep, r: SyncRequest, ticket: Ticket): void {
  const answer = (reply: SyncReply): void => void step.effects.push({ kind: "synced", ticket, reply });
  const g = classicOf(step.all, r.tenant, r.group);
  const code = g === undefined ? "UNKNOWN_MEMBER" : syncRefusalCode(g, r);
  if (g === undefined || code !== undefined) return answer(syncRefusal({ code }));
  const m = g.members.get(r.memberId) as Member;
  touch(m, step.now);
  m.synced = true;
  if (g.phase === "stable") {
    if ([...g.members.values()].every((other) => other.synced)) g.syncEndsMs = Infinity;
    return answer({ code: undefined, protocolType: g.protocolType, protocol: g.protocol, assignment: m.assignment });
  }
  answerSync(step, m, syncRefusal({ code: "REBALANCE_IN_PROGRESS" }));
  m.syncTicket = ticket;
  if ([...g.members.values()].every((other) => other.synced)) g.syncEndsMs = Infinity;
  if (g.leader !== m.id || g.storing !== undefined) return;
  const value = toRecord(g, r.assignments);
  const bytes = classicBytes(g, value);
  if (bytes > limits.groupMembershipBytesMax) {
    const message = `the members and assignments of group ${r.group} take ${bytes} bytes, the limit is ${limits.groupMembershipBytesMax}`;
    return refuseAssignment(step, g, { code: "MESSAGE_TOO_LARGE", message });
  }
  store(step, g, (token) => ({ kind: "assignment", token, assignments: r.assignments }), value);
}
function syncRefusalCode(g: Classic, r: SyncRequest): ErrorCode | undefined {
  const refused = refusalOf(g, r.memberId, r.instanceId);
  if (refused !== undefined) return refused;
  if (r.generation !== g.generation) return "ILLEGAL_GENERATION";
  if ((r.protocolType ?? g.protocolType) !== g.protocolType || (r.protocol ?? g.protocol) !== g.protocol)
    return "INCONSISTENT_GROUP_PROTOCOL";
  if (g.phase === "empty") return "UNKNOWN_MEMBER";
  return g.phase === "preparing" ? "REBALANCE_IN_PROGRESS" : undefined;
}

export interface HeartbeatRequest {
  readonly tenant: string;
  readonly group: string;
  readonly memberId: string;
  readonly instanceId: string;
  readonly generation: number;
}
/** Heartbeat: undefined = all is well. */
export function heartbeat(step: ClassicStep, r: HeartbeatRequest): ErrorCode | undefined {
  const g = classicOf(step.all, r.tenant, r.group);
  if (g === undefined || g.phase === "empty") return "UNKNOWN_MEMBER";
  const refused = refusalOf(g, r.memberId, r.instanceId);
  if (refused !== undefined) return refused;
  if (r.generation !== g.generation) return "ILLEGAL_GENERATION";
  const m = g.members.get(r.memberId) as Member;
  if (!waits(m)) touch(m, step.now);
  return g.phase === "preparing" ? "REBALANCE_IN_PROGRESS" : undefined;
}

export interface LeaveRequest {
  readonly tenant: string;
  readonly group: string;
  readonly members: readonly { readonly memberId: string; readonly instanceId: string }[];
}
/** LeaveGroup of some members at once. */
export function leave(step: ClassicStep, r: LeaveRequest): LeaveReply {
  const g = classicOf(step.all, r.tenant, r.group);
  const members = r.members.map(({ memberId, instanceId }) => ({
    memberId,
    instanceId,
    code: g === undefined ? ("UNKNOWN_MEMBER" as const) : leaveOne(step, g, memberId, instanceId),
  }));
  return { code: undefined, members };
}
function leaveOne(step: ClassicStep, g: Classic, memberId: string, instanceId: string): ErrorCode | undefined {
  if (instanceId === "" && g.pending.delete(memberId)) {
    tryCompleteJoin(step, g);
    return undefined;
  }
  const m = instanceId === "" ? g.members.get(memberId) : staticMember(g, instanceId);
  if (m === undefined) return "UNKNOWN_MEMBER";
  if (instanceId !== "" && memberId !== "" && m.id !== memberId) return "FENCED_INSTANCE_ID";
  removeMember(step, g, m);
  return undefined;
}

/** Whether a member (or, with generation -1 and no id, anybody) may commit now. */
export function mayCommit(step: ClassicStep, g: Classic, r: Omit<HeartbeatRequest, "tenant" | "group">): ErrorCode | undefined {
  const isMember = r.generation >= 0 || r.memberId !== "" || r.instanceId !== "";
  if (!isMember) return g.members.size === 0 ? undefined : "UNKNOWN_MEMBER";
  const refused = refusalOf(g, r.memberId, r.instanceId);
  if (refused !== undefined) return refused;
  if (r.generation !== g.generation) return "ILLEGAL_GENERATION";
  if (g.phase === "completing") return "REBALANCE_IN_PROGRESS";
  const m = g.members.get(r.memberId) as Member;
  if (!waits(m)) touch(m, step.now);
  return undefined;
}
