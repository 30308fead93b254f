import { limits, type ErrorCode } from "../model/index.ts";
import { classicOf } from "./classic-rebalance.ts";
import { metadataOf, type Classic, type ClassicPhase, type Classics } from "./classic-state.ts";
import { consumerGroupState } from "./consumer-state.ts";
import type { Assignment } from "./membership.ts";
import type { GroupName, GroupRecord } from "./record.ts";
import { entryKey, groupKey, type ConsumerGroup, type Group, type ShardState } from "./state.ts";

/** As Kafka names them. */
export type GroupStateName = "Empty" | "PreparingRebalance" | "CompletingRebalance" | "Stable" | "Assigning" | "Reconciling";
export type GroupKind = "classic" | "consumer";
const classicStates: Readonly<Record<ClassicPhase, GroupStateName>> = {
  empty: "Empty",
  preparing: "PreparingRebalance",
  completing: "CompletingRebalance",
  stable: "Stable",
};
/** The protocol type that clients of the consumer API use, in both kinds of group. */
const CONSUMER_TYPE = "consumer";

export interface ListedGroup {
  readonly group: string;
  readonly kind: GroupKind;
  readonly state: GroupStateName;
  /** "" = it has only offsets. */
  readonly protocolType: string;
}
/** What there is under a name: `known` is stored, `classic` lives in memory; the memory is newer. */
function listed(name: string, known: Group | undefined, classic: Classic | undefined): ListedGroup | undefined {
  if (known?.members?.kind === "consumer" && (classic === undefined || classic.members.size === 0))
    return { group: name, kind: "consumer", state: consumerGroupState(known.members), protocolType: CONSUMER_TYPE };
  if (classic !== undefined && (classic.members.size > 0 || classic.generation > 0))
    return { group: name, kind: "classic", state: classicStates[classic.phase], protocolType: classic.protocolType };
  return known === undefined ? undefined : { group: name, kind: "classic", state: "Empty", protocolType: "" };
}

/** Groups of a tenant in order of name, those after `after`; at most `limit`. */
export function listGroups(
  state: ShardState,
  classics: Classics,
  tenant: string,
  page: { readonly after: string; readonly limit: number; readonly states: readonly string[]; readonly kinds: readonly string[] },
): { readonly groups: readonly ListedGroup[]; readonly more: boolean } {
  const wants = (all: readonly string[], one: string): boolean =>
    all.length === 0 || all.some((s) => s.toLowerCase() === one.toLowerCase());
  const names = new Set<string>();
  for (const g of [...state.groups.values(), ...classics.groups.values()])
    if (g.tenant === tenant && g.group > page.after) names.add(g.group);
  const groups: ListedGroup[] = [];
  for (const name of [...names].sort()) {
    const one = listed(name, state.groups.get(groupKey(tenant, name)), classicOf(classics, tenant, name));
    if (one === undefined || !wants(page.states, one.state) || !wants(page.kinds, one.kind)) continue;
    if (groups.length === page.limit) return { groups, more: true };
    groups.push(one);
  }
  return { groups, more: false };
}

export interface DescribedMember {
  readonly memberId: string;
  readonly instanceId: string;
  readonly rackId: string;
  readonly clientId: string;
  readonly clientHost: string;
  /** classic: the generation. */
  readonly memberEpoch: number;
  readonly metadata: Uint8Array;
  readonly assignment: Uint8Array;
  readonly topics: readonly string[];
  readonly pattern: string;
  readonly assigned: Assignment;
  readonly target: Assignment;
}
export interface DescribedGroup extends ListedGroup {
  readonly protocol: string;
  readonly groupEpoch: number;
  readonly assignmentEpoch: number;
  readonly members: readonly DescribedMember[];
}
export function describeGroup(state: ShardState, classics: Classics, { tenant, group }: GroupName): DescribedGroup | undefined {
  const known = state.groups.get(groupKey(tenant, group));
  const classic = classicOf(classics, tenant, group);
  const head = listed(group, known, classic);
  if (head === undefined) return undefined;
  if (head.kind === "consumer") return describeConsumer(head, known?.members as ConsumerGroup);
  const { protocol = "", generation = 0, members } = classic ?? {};
  return {
    ...head,
    protocol,
    groupEpoch: generation,
    assignmentEpoch: generation,
    members: [...(members?.values() ?? [])].map((m) => ({
      memberId: m.id,
      instanceId: m.instanceId,
      rackId: "",
      clientId: m.clientId,
      clientHost: m.clientHost,
      memberEpoch: generation,
      // While the members still talk about it there is no protocol yet.
      metadata: metadataOf(m, protocol),
      assignment: m.assignment,
      topics: [],
      pattern: "",
      assigned: [],
      target: [],
    })),
  };
}
const NONE = new Uint8Array(0);
const describeConsumer = (head: ListedGroup, g: ConsumerGroup): DescribedGroup => ({
  ...head,
  protocol: g.assignor,
  groupEpoch: g.epoch,
  assignmentEpoch: g.targetEpoch,
  members: [...g.members].map(([memberId, m]) => ({
    memberId,
    instanceId: m.instanceId,
    rackId: m.rackId,
    clientId: m.clientId,
    clientHost: m.clientHost,
    memberEpoch: m.memberEpoch,
    metadata: NONE,
    assignment: NONE,
    topics: m.topics,
    pattern: m.pattern,
    assigned: m.assigned,
    target: m.target,
  })),
});

export interface AdminDecision {
  readonly records: readonly GroupRecord[];
  readonly code: ErrorCode | undefined;
}
/** A group without members is deleted with its offsets, by one record. */
export function decideDelete(state: ShardState, classics: Classics, key: GroupName): AdminDecision {
  const found = describeGroup(state, classics, key);
  if (found === undefined) return { records: [], code: "GROUP_NOT_FOUND" };
  // A client that was only told its id is no member, and may never come back: it does not hold the group, as with Kafka.
  if (found.members.length > 0) return { records: [], code: "NON_EMPTY_GROUP" };
  return { records: [{ kind: "gone", key }], code: undefined };
}

export interface OffsetToDelete {
  readonly topic: string;
  readonly topicId: string;
  readonly partition: number;
}
/** A key of an offset holds two names, an id and a few bytes. */
const OFFSET_KEY_BYTES_MAX = 2 * limits.nameCharsMax + 64;
/** Offsets whose removal fits one append, whatever the names. */
export const groupRemovalOffsetsMax = Math.floor(limits.groupRequestBytesMax / OFFSET_KEY_BYTES_MAX);
/** Offsets of topics that no member reads are forgotten; one code for each. At most `groupRemovalOffsetsMax` at a time, or INVALID_ARGUMENT. */
export function decideDeleteOffsets(
  state: ShardState,
  classics: Classics,
  key: GroupName,
  offsets: readonly OffsetToDelete[],
  matching: (pattern: string) => readonly string[],
): { readonly records: readonly GroupRecord[]; readonly code: ErrorCode | undefined; readonly codes: readonly (ErrorCode | undefined)[] } {
  const found = describeGroup(state, classics, key);
  const none = (code: ErrorCode) => ({ records: [], code, codes: [] });
  if (found === undefined) return none("GROUP_NOT_FOUND");
  if (offsets.length > groupRemovalOffsetsMax) return none("INVALID_ARGUMENT");
  // Nobody but its members knows what such a group reads.
  if (found.members.length > 0 && found.protocolType !== CONSUMER_TYPE) return none("NON_EMPTY_GROUP");
  const read = topicsRead(found, matching);
  const known = state.groups.get(groupKey(key.tenant, key.group))?.offsets;
  const records: GroupRecord[] = [];
  const codes = offsets.map(({ topic, topicId, partition }) => {
    if (read === "unknown" || read.has(topic)) return "GROUP_SUBSCRIBED_TO_TOPIC" as const;
    if (known?.has(entryKey(topicId, partition)) === true)
      records.push({ kind: "offset", key: { ...key, topicId, partition }, value: undefined });
    return undefined;
  });
  return { records, code: undefined, codes };
}
function topicsRead(g: DescribedGroup, matching: (pattern: string) => readonly string[]): ReadonlySet<string> | "unknown" {
  const read = new Set<string>();
  for (const m of g.members) {
    if (g.kind === "classic") {
      const topics = subscriptionTopics(m.metadata);
      if (topics === undefined) return "unknown";
      for (const t of topics) read.add(t);
    }
    for (const t of m.topics) read.add(t);
    if (m.pattern !== "") for (const t of matching(m.pattern)) read.add(t);
  }
  return read;
}

/**
 * Topics of the subscription that consumers of Kafka send as metadata: int16 version, int32 count, strings behind an int16 length. Undefined
 * when it is something else.
 */
export function subscriptionTopics(b: Uint8Array): readonly string[] | undefined {
  const view = new DataView(b.buffer, b.byteOffset, b.byteLength);
  if (b.length < 6) return undefined;
  const count = view.getInt32(2);
  const topics: string[] = [];
  let at = 6;
  for (let i = 0; i < count; i++) {
    if (at + 2 > b.length) return undefined;
    const length = view.getInt16(at);
    if (length < 0 || at + 2 + length > b.length) return undefined;
    topics.push(String.fromCharCode(...b.subarray(at + 2, at + 2 + length)));
    at += 2 + length;
  }
  return topics;
}
