import { sameRecord, type EncodedRecord } from "@sluice/core/group";
import type { ErrorCode } from "@sluice/core/model";

/** A record of the shard's log, committed. */
export interface LogRecord {
  readonly offset: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
}
export interface AppendCondition {
  /** The append is stored at this offset or not at all; -1 = at the end, wherever that is. */
  readonly expectedBaseOffset: number;
  /** Refused once a higher one was seen. */
  readonly fenceToken: number;
  /** On the monotonic clock. */
  readonly deadlineMs: number;
}
/**
 *   stored    durable on two storage nodes
 *   conflict  not stored: the log's end is elsewhere (or an earlier attempt of the same append is there)
 *   fenced    not stored: a higher token was seen
 *   refused   not stored, for a reason that may pass
 *   unknown   stored, or not, or stored later: only the log tells
 */
export type AppendResult =
  | { readonly kind: "stored"; readonly baseOffset: number }
  | { readonly kind: "conflict" | "fenced" }
  | { readonly kind: "refused" | "unknown"; readonly code: ErrorCode };

/** The log of one shard, as its host needs it. */
export interface ShardLog {
  /** All records, in order and next to each other, or none. Never throws. */
  append(records: readonly EncodedRecord[], condition: AppendCondition): Promise<AppendResult>;
  /** Offset after the last committed record, confirmed after the call began. Throws when nobody confirms it before the deadline. */
  end(deadlineMs: number): Promise<number>;
  /** Some records from `from` on, at most to `end`; empty when they cannot be seen yet. Throws OFFSET_OUT_OF_RANGE for what was trimmed. */
  read(from: number, end: number): Promise<readonly LogRecord[]>;
}

/** Whether `records` lie next to each other in `found`: an earlier attempt may have held them behind others. */
export function holds(found: readonly LogRecord[], records: readonly EncodedRecord[]): boolean {
  for (let at = 0; at + records.length <= found.length; at += 1) {
    if (records.every((record, i) => sameRecord(record, found[at + i] as LogRecord))) return true;
  }
  return false;
}
