import type { ErrorCode } from "../model/index.ts";
import { limits } from "../model/index.ts";
import { BATCH_HEADER_BYTES, batchCrc, newBatchHeader, readBatchHeader } from "./batch.ts";
import type { BatchHeader } from "./batch.ts";
import type { Crc32c } from "./checksum.ts";
import { codecs, isCodec } from "./compression.ts";
import { RECORD_BYTES_MIN } from "./records.ts";

/** What a partition accepts. The defaults are those of a topic without configuration. */
export interface BatchRules {
  /** `max.message.bytes`: of the whole batch, as the producer sent it. */
  readonly messageBytesMax?: number;
  readonly recordsMax?: number;
  /** Control batches and delete horizons: only from our own coordinator and compactor. Default false. */
  readonly internal?: boolean;
  /** Checked where the batch enters; a broker behind the proxy that checked it passes undefined. */
  readonly crc32c?: Crc32c | undefined;
  /**
   * `message.timestamp.before.max.ms` and `after.max.ms` with the broker's wall clock, for topics of type CreateTime; absent = not checked.
   * The header holds the first and the largest time of the records: these two are checked, the others are not decoded.
   */
  readonly timestamps?: { readonly nowMs: number; readonly beforeMaxMs: number; readonly afterMaxMs: number } | undefined;
}

/**
 * Judges one batch that a producer sent: undefined when it may be stored, else the code of the catalogue. `into` then holds the header (all of it, unless the
 * code is CORRUPT_BATCH or UNSUPPORTED_FORMAT). Allocates nothing when `into` is given. The batch must lie within [at, end).
 */
export function validateBatch(
  bytes: Uint8Array,
  at: number,
  rules: BatchRules,
  into: BatchHeader = newBatchHeader(),
  end: number = bytes.length,
): ErrorCode | undefined {
  const stop = readBatchHeader(bytes, at, end, into);
  if (stop !== undefined) return stop === "unsupported" ? "UNSUPPORTED_FORMAT" : "CORRUPT_BATCH";
  if (into.totalBytes > (rules.messageBytesMax ?? limits.messageBytesDefault)) return "MESSAGE_TOO_LARGE";
  if (!isCodec(into.codec)) return "UNSUPPORTED_CODEC";
  const bad = checkCounts(into, rules.recordsMax ?? limits.recordsPerBatchMax) ?? checkProducer(into);
  if (bad !== undefined) return bad;
  if (rules.internal !== true && (into.isControl || into.hasDeleteHorizon)) return "INVALID_RECORD";
  const late = checkTimestamps(into, rules);
  if (late !== undefined) return late;
  if (rules.crc32c !== undefined && batchCrc(bytes, at, into.totalBytes, rules.crc32c) !== into.crc) return "CORRUPT_BATCH";
  return undefined;
}

/** What a producer's run of batches amounts to. Reused like a header. */
export interface ProducedRun {
  batches: number;
  /** Offsets that it takes. */
  records: number;
  maxTimestamp: number;
}
export const newProducedRun = (): ProducedRun => ({ batches: 0, records: 0, maxTimestamp: -1 });

/**
 * Judges the batches of one write, which are stored together or refused together: undefined when they may be stored, else the code. `first` then holds the
 * header of the first batch, `summary` what they amount to. Several at once must not carry producer ids (INVALID_ARGUMENT): each sequence has an outcome of
 * its own, so those batches go one at a time. Several must be within `limits.produceRunBytesMax` and `limits.produceRunBatchesMax` (MESSAGE_TOO_LARGE).
 */
export function validateRun(bytes: Uint8Array, rules: BatchRules, first: BatchHeader, summary: ProducedRun): ErrorCode | undefined {
  const bad = validateBatch(bytes, 0, rules, first);
  if (bad !== undefined) return bad;
  summary.batches = 1;
  summary.records = first.recordsCount;
  summary.maxTimestamp = first.maxTimestamp;
  if (first.totalBytes === bytes.length) return undefined;
  if (first.producerId >= 0) return "INVALID_ARGUMENT";
  if (bytes.length > limits.produceRunBytesMax) return "MESSAGE_TOO_LARGE";
  for (let at = first.totalBytes; at < bytes.length; at += runHeader.totalBytes) {
    const code = validateBatch(bytes, at, rules, runHeader);
    if (code !== undefined) return code;
    if (runHeader.producerId >= 0) return "INVALID_ARGUMENT";
    if (++summary.batches > limits.produceRunBatchesMax) return "MESSAGE_TOO_LARGE";
    summary.records += runHeader.recordsCount;
    if (runHeader.maxTimestamp > summary.maxTimestamp) summary.maxTimestamp = runHeader.maxTimestamp;
  }
  return undefined;
}
const runHeader = newBatchHeader();

function checkCounts(h: BatchHeader, recordsMax: number): ErrorCode | undefined {
  // A producer's offsets have no gaps, so the count says the same as the delta.
  if (h.recordsCount === 0 || h.recordsCount !== h.lastOffsetDelta + 1) return "INVALID_RECORD";
  if (h.recordsCount > recordsMax) return "MESSAGE_TOO_LARGE";
  // A lie about the count would use up offsets and stop every reader. A compressed batch can still tell it, up to recordsMax: nobody on the way looks inside.
  const bodyBytes = h.totalBytes - BATCH_HEADER_BYTES;
  return h.codec === codecs.none && h.recordsCount > bodyBytes / RECORD_BYTES_MIN ? "INVALID_RECORD" : undefined;
}

function checkProducer(h: BatchHeader): ErrorCode | undefined {
  if (!Number.isSafeInteger(h.producerId) || h.producerId < -1) return "INVALID_RECORD";
  if (h.producerId === -1) return h.isTransactional ? "INVALID_RECORD" : undefined;
  // Control batches carry no sequence.
  return h.producerEpoch < 0 || (h.baseSequence < 0 && !h.isControl) ? "INVALID_RECORD" : undefined;
}

function checkTimestamps(h: BatchHeader, rules: BatchRules): ErrorCode | undefined {
  // -1 = the producer set no time. The append time is the broker's to set.
  if (h.logAppendTime && rules.internal !== true) return "INVALID_TIMESTAMP";
  if (!Number.isSafeInteger(h.baseTimestamp) || !Number.isSafeInteger(h.maxTimestamp)) return "INVALID_TIMESTAMP";
  if (h.baseTimestamp < -1 || h.maxTimestamp < -1) return "INVALID_TIMESTAMP";
  const t = rules.timestamps;
  if (t === undefined) return undefined;
  if (h.maxTimestamp - t.nowMs > t.afterMaxMs) return "INVALID_TIMESTAMP";
  return h.baseTimestamp !== -1 && t.nowMs - h.baseTimestamp > t.beforeMaxMs ? "INVALID_TIMESTAMP" : undefined;
}
