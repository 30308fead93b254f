import {
  decide,
  encodedBytes,
  encodeGroupRecord,
  groupKey,
  type EncodedRecord,
  type GroupReply,
  type GroupRequest,
  type ShardState,
} from "@sluice/core/group";
import { asSluiceError, limits } from "@sluice/core/model";
import type { Change, ChangeRequest, RequestQueue } from "./request-queue.ts";

/** An append on its way: whose records it holds, from which offset on. */
export interface Round {
  readonly base: number;
  readonly changes: readonly { readonly change: Change; readonly records: readonly EncodedRecord[] }[];
}

/** What a record takes in a batch beside its key and its value, at most, and the batch beside its records. */
const RECORD_OVERHEAD_BYTES = 32;
const BATCH_OVERHEAD_BYTES = 128;
const CHANGE_BYTES_MAX = limits.messageBytesDefault - BATCH_OVERHEAD_BYTES;

/**
 * As many changes as one batch takes, decided on the state as it is. Those that need no record are answered; one that no batch can hold fails
 * alone: the log would refuse it for ever, and with it everything behind it. One that must see what was
 * decided before it for its group waits for the next round, and with it all that follow for that group.
 */
export function composeRound(queue: RequestQueue, state: ShardState): Round {
  const changes: { change: Change; records: EncodedRecord[] }[] = [];
  const held = new Map<string, "shared" | "closed">();
  const later: Change[] = [];
  let bytes = 0;
  for (let change = queue.nextChange(); change !== undefined; change = queue.nextChange()) {
    const { key, isExclusive } = change.request;
    const hold = held.get(key);
    if (hold === "closed" || (hold === "shared" && isExclusive)) {
      held.set(key, "closed");
      later.push(change);
      continue;
    }
    const records = decided(change, state);
    if (records.length === 0) continue;
    const size = appendBytes(records);
    if (size > CHANGE_BYTES_MAX) {
      change.fail("MESSAGE_TOO_LARGE", `the records of the request take ${size} bytes, an append holds ${CHANGE_BYTES_MAX}`);
      continue;
    }
    if (changes.length > 0 && bytes + size > limits.groupRequestBytesMax) {
      later.push(change);
      break;
    }
    held.set(key, isExclusive ? "closed" : "shared");
    changes.push({ change, records });
    bytes += size;
  }
  queue.putBack(later, []);
  return { base: state.nextOffset, changes };
}

function appendBytes(records: readonly EncodedRecord[]): number {
  let bytes = records.length * RECORD_OVERHEAD_BYTES;
  for (const r of records) bytes += encodedBytes(r);
  return bytes;
}
/** Its records; none when it is answered, or cannot be decided: then it fails alone, and not the shard with it. */
function decided(change: Change, state: ShardState): EncodedRecord[] {
  try {
    const decision = change.request.decide(state, change.arrivedMs);
    change.decision = decision;
    const records = decision.records.map(encodeGroupRecord);
    if (records.length === 0) change.answer(decision.reply);
    return records;
  } catch (error) {
    const { code, message } = asSluiceError(error);
    change.fail(code, message);
    return [];
  }
}

const OFFSET_BYTES = 64;
/** A request about offsets as the shard takes it. `refusal` is asked when it is decided: what it returns is the answer for every offset. */
export const offsetsChange = (
  request: GroupRequest,
  refusal?: (state: ShardState) => GroupReply | undefined,
): ChangeRequest<GroupReply> => ({
  key: groupKey(request.tenant, request.group),
  isExclusive: false,
  bytes: requestBytes(request),
  decide(state, nowMs) {
    const refused = refusal?.(state);
    return refused === undefined ? decide(state, request, nowMs) : { records: [], reply: refused };
  },
});
function requestBytes(request: GroupRequest): number {
  let bytes = request.group.length + OFFSET_BYTES;
  for (const o of request.offsets) bytes += OFFSET_BYTES + ("metadata" in o ? o.metadata.length : 0);
  return bytes;
}
