import { classicOf } from "./classic-rebalance.ts";
import type { Classics } from "./classic-state.ts";
import { limits } from "../model/index.ts";
import { encodedBytes, encodeGroupRecord, type GroupName, type GroupRecord } from "./record.ts";
import { groupKey, type Group, type ShardState } from "./state.ts";

/** Since when nobody is in the group: 0 when it has only offsets, Infinity while it has members. Wall ms. */
function emptySinceMs(group: Group, classics: Classics): number {
  const classic = classicOf(classics, group.tenant, group.group);
  if (classic !== undefined && (classic.members.size > 0 || classic.pending.size > 0)) return Infinity;
  const { members } = group;
  if (members === undefined) return 0;
  if (members.kind === "classic") return members.members.length > 0 ? Infinity : members.emptySinceMs;
  return members.members.size > 0 ? Infinity : members.emptySinceMs;
}

/**
 * What is to be forgotten by now: offsets that are `retentionMs` older than both their commit and the last member of their group; a group that
 * has neither members nor offsets. At most what one append holds; the rest comes with the next look.
 */
export function decideExpiry(
  state: ShardState,
  classics: Classics,
  key: GroupName,
  nowMs: number,
  retentionMs: number,
): readonly GroupRecord[] {
  const group = state.groups.get(groupKey(key.tenant, key.group));
  if (group === undefined) return [];
  const sinceMs = emptySinceMs(group, classics);
  if (sinceMs === Infinity) return [];
  const old = [...group.offsets.values()].filter(({ value }) => nowMs - Math.max(sinceMs, value.committedAtMs) >= retentionMs);
  if (old.length === group.offsets.size) return [{ kind: "gone", key }];
  const records: GroupRecord[] = [];
  let bytes = 0;
  for (const { topicId, partition } of old) {
    const record: GroupRecord = { kind: "offset", key: { ...key, topicId, partition }, value: undefined };
    bytes += encodedBytes(encodeGroupRecord(record));
    if (bytes > limits.groupRequestBytesMax) break;
    records.push(record);
  }
  return records;
}
