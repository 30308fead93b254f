import { limits, murmur2, SluiceError, utf8Bytes, encodeUtf8, type ErrorCode } from "../model/index.ts";
import { assign, isAssignor, type AssignorName } from "./assignors.ts";
import type { GroupConfig } from "./config.ts";
import type { Assignment, ConsumerMember } from "./membership.ts";
import type { ConsumerGroup } from "./state.ts";

/** What a group must know of topics. */
export interface TopicLookup {
  topic(tenant: string, name: string): { readonly topicId: string; readonly partitions: number } | undefined;
  /** Names of the topics that a pattern matches as a whole. */
  matching(tenant: string, pattern: string): readonly string[];
}
export interface ConsumerHeartbeat {
  readonly tenant: string;
  readonly group: string;
  readonly memberId: string;
  /** 0 = joins, -1 = leaves, -2 = a static member leaves for a while. */
  readonly memberEpoch: number;
  /** "" = dynamic. */
  readonly instanceId: string;
  readonly rackId: string;
  readonly clientId: string;
  readonly clientHost: string;
  /** Undefined = as before; the next too. */
  readonly rebalanceTimeoutMs: number | undefined;
  readonly subscription: { readonly topics: readonly string[]; readonly pattern: string } | undefined;
  readonly assignor: string;
  readonly owned: Assignment | undefined;
}
export interface HeartbeatReply {
  readonly code: ErrorCode | undefined;
  readonly message?: string;
  readonly memberId: string;
  readonly memberEpoch: number;
  readonly heartbeatIntervalMs: number;
  /** Undefined = as before. */
  readonly assignment: Assignment | undefined;
}
export interface ConsumerContext {
  readonly config: GroupConfig;
  readonly topics: TopicLookup;
  /** Wall clock. */
  readonly nowMs: number;
  /** Members of a classic group are there under the same name. */
  readonly hasClassicMembers: boolean;
  /** Nothing about topics has changed since the group was looked at last. */
  readonly topicsAreKnown: boolean;
}

export const heartbeatRefusal = (code: ErrorCode, message = ""): HeartbeatReply => ({
  code,
  message,
  memberId: "",
  memberEpoch: 0,
  heartbeatIntervalMs: 0,
  assignment: undefined,
});

export const REBALANCE_TIMEOUT_MS_DEFAULT = 300_000;
const GROUP_REBALANCE_MS_MAX = 86_400_000;

/** What no group could take. Throws INVALID_ARGUMENT. */
export function checkHeartbeat(r: ConsumerHeartbeat): void {
  const bad = (message: string): never => {
    throw new SluiceError("INVALID_ARGUMENT", message);
  };
  for (const [what, s] of Object.entries({
    "member id": r.memberId,
    "instance id": r.instanceId,
    "rack id": r.rackId,
    assignor: r.assignor,
  }))
    if (utf8Bytes(s) > limits.groupTextBytesMax) bad(`the ${what} takes more than ${limits.groupTextBytesMax} bytes`);
  if (r.memberId === "" && r.memberEpoch !== 0) bad("the member id is missing");
  if (r.memberEpoch < -2) bad(`no such member epoch: ${r.memberEpoch}`);
  if (r.memberEpoch === -2 && r.instanceId === "") bad("only a static member leaves for a while");
  if (r.memberEpoch === 0 && r.subscription === undefined) bad("a member that joins says what it subscribes to");
  if (r.memberEpoch === 0 && (r.owned?.length ?? 0) > 0) bad("a member that joins owns nothing");
  const { rebalanceTimeoutMs: ms } = r;
  if (ms !== undefined && (ms <= 0 || ms > GROUP_REBALANCE_MS_MAX)) bad(`the rebalance timeout is 1 to ${GROUP_REBALANCE_MS_MAX} ms`);
  const { topics = [], pattern = "" } = r.subscription ?? {};
  if (utf8Bytes(pattern) > limits.groupPatternBytesMax) bad(`the topic pattern takes more than ${limits.groupPatternBytesMax} bytes`);
  let bytes = 0;
  for (const topic of topics) {
    if (topic.length > limits.nameCharsMax) bad(`a topic name takes more than ${limits.nameCharsMax} characters`);
    bytes += topic.length;
  }
  if (bytes > limits.groupMemberBytesMax) bad(`the subscription takes ${bytes} bytes, the limit is ${limits.groupMemberBytesMax}`);
}

/** Ids of the topics that a member reads and that exist; `partitions` learns how many partitions they have. */
function topicIdsOf(m: ConsumerMember, tenant: string, topics: TopicLookup, partitions: Map<string, number>): string[] {
  const names = new Set(m.topics);
  if (m.pattern !== "") for (const name of topics.matching(tenant, m.pattern)) names.add(name);
  const ids: string[] = [];
  for (const name of names) {
    const topic = topics.topic(tenant, name);
    if (topic === undefined) continue;
    ids.push(topic.topicId);
    partitions.set(topic.topicId, topic.partitions);
  }
  return ids;
}

const HASH_HIGH_MASK = 0x1f_ffff;
const TWO_32 = 4294967296;
/** 53 bits of two hashes: a change of topics that goes unseen is as good as impossible. */
function hashOf(partitions: ReadonlyMap<string, number>): number {
  const text = [...partitions].map(([id, n]) => `${id}:${n}`).sort();
  const half = (salt: string): number => murmur2(encodeUtf8(salt + text.join())) >>> 0;
  return (half("high") & HASH_HIGH_MASK) * TWO_32 + half("low");
}

export interface Subscribed {
  readonly topicIds: ReadonlyMap<string, readonly string[]>;
  readonly partitions: ReadonlyMap<string, number>;
  readonly hash: number;
}
export function subscribed(members: ReadonlyMap<string, ConsumerMember>, tenant: string, topics: TopicLookup): Subscribed {
  const partitions = new Map<string, number>();
  const topicIds = new Map<string, readonly string[]>();
  for (const [id, m] of members) topicIds.set(id, topicIdsOf(m, tenant, topics, partitions));
  return { topicIds, partitions, hash: hashOf(partitions) };
}

/** What most members wish for; uniform when none does. */
export function preferredAssignor(members: ReadonlyMap<string, ConsumerMember>): AssignorName {
  const votes = new Map<AssignorName, number>();
  for (const { assignor } of members.values()) if (isAssignor(assignor)) votes.set(assignor, (votes.get(assignor) ?? 0) + 1);
  return (votes.get("range") ?? 0) > (votes.get("uniform") ?? 0) ? "range" : "uniform";
}

export function targetsOf(
  members: ReadonlyMap<string, ConsumerMember>,
  known: Subscribed,
  assignor: AssignorName,
): ReadonlyMap<string, Assignment> {
  return assign(
    assignor,
    [...members].map(([memberId, m]) => ({
      memberId,
      instanceId: m.instanceId,
      topicIds: known.topicIds.get(memberId) ?? [],
      target: m.target,
    })),
    known.partitions,
  );
}

/** As Kafka names them. */
export function consumerGroupState(g: ConsumerGroup): "Empty" | "Assigning" | "Reconciling" | "Stable" {
  if (g.members.size === 0) return "Empty";
  if (g.epoch > g.targetEpoch) return "Assigning";
  for (const m of g.members.values()) if (m.phase !== "stable" || m.memberEpoch !== g.targetEpoch) return "Reconciling";
  return "Stable";
}
