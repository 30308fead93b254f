import { batchCrc, BatchCursor } from "../log/index.ts";
import type { ErrorCode } from "../model/index.ts";
import { epoch, errorNumber, topicId } from "../model/index.ts";
import type { AppendRequest } from "./api.ts";
import { giveBase, raiseLac } from "./apply.ts";
import { isStale } from "./epoch-check.ts";
import { appendedOne, record } from "./outbox.ts";
import type { Out } from "./outbox.ts";
import type { ReplicaState, Segment } from "./state.ts";

const cursor = new BatchCursor();

/** Append(s, e, off, batch, lac): refused, or written and answered once durable. */
export function onAppend(state: ReplicaState, origin: number, request: AppendRequest, nowMs: number, out: Out): void {
  let s = state.byNumber.get(request.segmentNumber);
  if (s === undefined && state.mutants.M7 === true) s = createImplicitly(state, request, out);
  const refused = s === undefined ? "UNKNOWN_SEGMENT" : admission(state, s, request);
  if (s === undefined || refused !== undefined) {
    refuse(origin, request, s, refused ?? "UNKNOWN_SEGMENT", out);
    return;
  }
  s.heardMs = nowMs;
  if (s.base === undefined) giveBase(s, request.base);
  if (request.payload.length === 0) {
    raiseLac(s, request.lac);
    out.push(appendedOne(origin, { segmentNumber: s.number, code: 0, durable: s.durableLast, barrier: request.barrier }));
    return;
  }
  const from = checkRunOf(state, s, request.payload, request.firstOffset, request.lastOffset, request.epoch);
  if (typeof from !== "number") {
    if (from === "CORRUPT_SEGMENT")
      out.push({ kind: "alarm", segmentNumber: s.number, message: "a retried append differs from what is stored" });
    refuse(origin, request, s, from, out);
    return;
  }
  if (from < request.payload.length) {
    record(
      state,
      {
        kind: "append",
        segmentNumber: s.number,
        epoch: request.epoch,
        firstOffset: s.last + 1,
        lastOffset: request.lastOffset,
        lac: request.lac,
        appendMs: request.appendMs ?? nowMs,
        recovery: false,
        payload: from === 0 ? request.payload : request.payload.subarray(from),
      },
      out,
    );
  } else raiseLac(s, request.lac);
  promise(state, s, origin, request.lastOffset, out);
}

/** Why this append may not even be looked at; undefined = it may. The order is the protocol's. */
function admission(state: ReplicaState, s: Segment, request: AppendRequest): ErrorCode | undefined {
  if (request.epoch !== s.id.epoch || isStale(state, request.epoch, state.partitions.get(s.partitionKey))) return "STALE_EPOCH";
  if (state.failed || s.status === "FAILED") return "IO_FAILED";
  if (s.status !== "OPEN") {
    const predecessor = state.mutants.M16 === true && s.status === "FENCED" && s.fencedBy <= request.epoch + 1;
    if (!predecessor) return "SEGMENT_FENCED";
  }
  if (s.base !== undefined && s.base !== request.base) return "INVALID_ARGUMENT";
  if (s.base === undefined && request.firstOffset !== request.base) return "APPEND_GAP";
  if (request.payload.length > 0 && (state.diskFull || state.rollWanted.has(s.number))) return "DISK_FULL";
  return undefined;
}

/**
 * Judges a run of batches against what is stored: position of the first batch that is new (the length of the run when none is), or the code of the refusal.
 * Batches at or below `last` must be the ones that are stored.
 */
export function checkRunOf(
  state: ReplicaState,
  s: Segment,
  payload: Uint8Array,
  firstOffset: number,
  lastOffset: number,
  batchEpoch: number,
): number | ErrorCode {
  if (firstOffset > s.last + 1) return "APPEND_GAP";
  let expected = firstOffset;
  let newFrom = -1;
  cursor.reset(payload);
  while (cursor.next()) {
    const h = cursor.header;
    if (h.baseOffset !== expected || h.partitionLeaderEpoch !== batchEpoch) return "CORRUPT_BATCH";
    if (state.options.crc32c !== undefined && batchCrc(payload, cursor.position, h.totalBytes, state.options.crc32c) !== h.crc)
      return "CORRUPT_BATCH";
    if (h.baseOffset <= s.last) {
      const known = s.window.find(h.baseOffset);
      if (known === undefined) {
        const oldest = s.window.oldest;
        // Within the window every batch start is known; before it nothing can be compared.
        if (oldest !== undefined && h.baseOffset > oldest.firstOffset) return "CORRUPT_SEGMENT";
        return "OUTCOME_UNKNOWN";
      }
      if (known.crc !== h.crc || known.lastOffset !== h.lastOffset) return "CORRUPT_SEGMENT";
    } else if (newFrom < 0) newFrom = cursor.position;
    expected = h.lastOffset + 1;
  }
  if (cursor.stop !== undefined || expected !== lastOffset + 1) return "CORRUPT_BATCH";
  return newFrom < 0 ? payload.length : newFrom;
}

/** The answer leaves when everything that was given to the journal so far is durable; a retry never overtakes the first copy of its entry. */
function promise(state: ReplicaState, s: Segment, origin: number, last: number, out: Out): void {
  if (state.mutants.M9 === true || (state.mutants.M27 === true && last <= s.last && out.length === 0)) {
    if (state.mutants.M9 === true) s.durableLast = s.last;
    out.push(appendedOne(origin, { segmentNumber: s.number, code: 0, durable: Math.max(s.durableLast, last), barrier: 0 }));
    return;
  }
  if (last <= s.durableLast) out.push(appendedOne(origin, { segmentNumber: s.number, code: 0, durable: s.durableLast, barrier: 0 }));
  else state.appends.push({ sequence: state.sequence, origin, segment: s, last });
}

function refuse(origin: number, request: AppendRequest, s: Segment | undefined, code: ErrorCode, out: Out): void {
  out.push(
    appendedOne(origin, {
      segmentNumber: request.segmentNumber,
      code: errorNumber(code),
      durable: s?.durableLast ?? -1,
      barrier: request.barrier,
    }),
  );
}

/** Mutant M7. */
function createImplicitly(state: ReplicaState, request: AppendRequest, out: Out): Segment | undefined {
  record(
    state,
    {
      kind: "create",
      segmentNumber: request.segmentNumber,
      partition: { topicId: topicId(`implicit-${request.segmentNumber}`), partition: 0 },
      segment: { epoch: epoch(request.epoch), k: 0 },
      base: request.base < request.firstOffset ? request.firstOffset : request.base,
      nonce: "",
      producers: new Uint8Array(0),
    },
    out,
  );
  const s = state.byNumber.get(request.segmentNumber);
  if (s !== undefined) s.base = request.base;
  return s;
}
