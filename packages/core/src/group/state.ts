import { SluiceError } from "../model/index.ts";
import type { GroupRecord, OffsetKey, OffsetValue } from "./record.ts";

/** A committed offset with the partition that it belongs to. */
export interface CommittedEntry {
  readonly topicId: string;
  readonly partition: number;
  readonly value: OffsetValue;
}
export interface Group {
  readonly tenant: string;
  readonly group: string;
  /** By `<topicId>/<partition>`, in order of the first commit. */
  readonly offsets: Map<string, CommittedEntry>;
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
  if (record.kind === "offset") return replayOffset(state, record.key, record.value);
  // Older than the newest: the late record of a coordinator that had lost the shard by then.
  if (record.epoch <= state.epoch) return;
  state.epoch = record.epoch;
  state.member = record.member;
  state.instance = record.instance;
}

function replayOffset(state: ShardState, key: OffsetKey, value: OffsetValue | undefined): void {
  const id = groupKey(key.tenant, key.group);
  const at = entryKey(key.topicId, key.partition);
  let group = state.groups.get(id);
  const before = group?.offsets.get(at);
  if (before !== undefined) {
    state.bytes -= entryBytes(before.value);
    state.offsetCount -= 1;
  }
  if (value === undefined) {
    group?.offsets.delete(at);
    if (group?.offsets.size === 0) state.groups.delete(id);
    return;
  }
  if (group === undefined) {
    group = { tenant: key.tenant, group: key.group, offsets: new Map() };
    state.groups.set(id, group);
  }
  group.offsets.set(at, { topicId: key.topicId, partition: key.partition, value });
  state.bytes += entryBytes(value);
  state.offsetCount += 1;
}
