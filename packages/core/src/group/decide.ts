import { limits, type ErrorCode } from "../model/index.ts";
import { encodedBytes, encodeGroupRecord, type GroupRecord, type OffsetValue } from "./record.ts";
import { entryBytes, entryKey, groupKey, type CommittedEntry, type ShardState } from "./state.ts";

/** Kafka clients commit offsets below zero to say "none": kafkajs does so to reset a group. */
export const FORGET_OFFSET = -1;
export interface OffsetToCommit {
  readonly topicId: string;
  readonly partition: number;
  /** Next record to read; FORGET_OFFSET = none: what was committed is forgotten. */
  readonly offset: number;
  /** -1 = not told. */
  readonly leaderEpoch: number;
  /** UTF-8. */
  readonly metadata: Uint8Array;
}
export interface CommitRequest {
  readonly kind: "commit";
  readonly tenant: string;
  readonly group: string;
  readonly offsets: readonly OffsetToCommit[];
}
export interface RemoveRequest {
  /** Forgets offsets: of a topic that is gone, or that somebody deletes. */
  readonly kind: "remove";
  readonly tenant: string;
  readonly group: string;
  readonly offsets: readonly { readonly topicId: string; readonly partition: number }[];
}
export type GroupRequest = CommitRequest | RemoveRequest;
export interface GroupReply {
  /** One per offset of the request, in its order; undefined = done. */
  readonly codes: readonly (ErrorCode | undefined)[];
}
/** The reply holds once the records are durable and replayed; without records it holds at once. */
export interface Decision {
  readonly records: readonly GroupRecord[];
  readonly reply: GroupReply;
}

/**
 * Turns a request into records and a reply. Changes nothing: what it decides takes effect when the records are replayed. Requests that are
 * decided before the records of earlier ones are replayed do not see them; a commit depends on the state only for the limits of a shard,
 * which may be passed by what one append holds.
 */
export function decide(state: ShardState, request: GroupRequest, nowMs: number): Decision {
  if (request.offsets.length > limits.groupOffsetsPerRequestMax) return refuseOffsets(request, "INVALID_ARGUMENT");
  return request.kind === "commit" ? decideCommit(state, request, nowMs) : decideRemove(state, request);
}

function decideCommit(state: ShardState, request: CommitRequest, nowMs: number): Decision {
  const { tenant, group } = request;
  const known = state.groups.get(groupKey(tenant, group));
  if (known === undefined && state.groups.size >= limits.groupsPerShardMax) return refuseOffsets(request, "GROUP_LIMIT");
  const records: GroupRecord[] = [];
  const codes: (ErrorCode | undefined)[] = [];
  let grown = 0;
  let logBytes = 0;
  for (const o of request.offsets) {
    // Forgotten also where nothing is seen: a commit may be on its way.
    const value =
      o.offset === FORGET_OFFSET ? undefined : { offset: o.offset, leaderEpoch: o.leaderEpoch, committedAtMs: nowMs, metadata: o.metadata };
    const before = known?.offsets.get(entryKey(o.topicId, o.partition))?.value;
    const growth = bytesOf(value) - bytesOf(before);
    const code = refusal(o) ?? (growth > 0 && state.bytes + grown + growth > limits.groupStateBytesPerShardMax ? "GROUP_LIMIT" : undefined);
    codes.push(code);
    if (code !== undefined) continue;
    grown += growth;
    const record: GroupRecord = { kind: "offset", key: { tenant, group, topicId: o.topicId, partition: o.partition }, value };
    logBytes += encodedBytes(encodeGroupRecord(record));
    records.push(record);
  }
  // All offsets of a request are stored by one append, or none.
  if (logBytes > limits.groupRequestBytesMax) return refuseOffsets(request, "MESSAGE_TOO_LARGE");
  return { records, reply: { codes } };
}

/** An offset may go back (a reset), and be forgotten; below that it means nothing. */
function refusal(o: OffsetToCommit): ErrorCode | undefined {
  if (!Number.isSafeInteger(o.offset) || o.offset < FORGET_OFFSET) return "OFFSET_OUT_OF_RANGE";
  if (!Number.isInteger(o.partition) || o.partition < 0 || o.partition >= limits.topicPartitionsMax) return "UNKNOWN_PARTITION";
  return o.metadata.length > limits.groupMetadataBytesMax ? "OFFSET_METADATA_TOO_LARGE" : undefined;
}

const bytesOf = (value: OffsetValue | undefined): number => (value === undefined ? 0 : entryBytes(value));

function decideRemove(state: ShardState, request: RemoveRequest): Decision {
  const { tenant, group } = request;
  const known = state.groups.get(groupKey(tenant, group));
  const records: GroupRecord[] = [];
  for (const { topicId, partition } of request.offsets) {
    if (known?.offsets.has(entryKey(topicId, partition)) !== true) continue;
    records.push({ kind: "offset", key: { tenant, group, topicId, partition }, value: undefined });
  }
  return { records, reply: { codes: request.offsets.map(() => undefined) } };
}

/** The same answer for every offset. */
export const refuseOffsets = (request: GroupRequest, code: ErrorCode): Decision => ({
  records: [],
  reply: { codes: request.offsets.map(() => code) },
});

/** Committed offsets of a group, all of them or those of the topics asked for (no partitions = all of the topic), in order of topic and partition. */
export function committedOffsets(
  state: ShardState,
  tenant: string,
  group: string,
  topics?: ReadonlyMap<string, ReadonlySet<number>>,
): CommittedEntry[] {
  const known = state.groups.get(groupKey(tenant, group));
  if (known === undefined) return [];
  const out: CommittedEntry[] = [];
  for (const entry of known.offsets.values()) {
    const wanted = topics?.get(entry.topicId);
    if (topics === undefined || (wanted !== undefined && (wanted.size === 0 || wanted.has(entry.partition)))) out.push(entry);
  }
  return out.sort((a, b) => (a.topicId === b.topicId ? a.partition - b.partition : a.topicId < b.topicId ? -1 : 1));
}
