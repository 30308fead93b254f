import { checkAscii } from "@sluice/core/journal";
import { epoch, EPOCH_MAX, SluiceError, topicId } from "@sluice/core/model";
import type { Epoch } from "@sluice/core/model";
import type { SegmentAddress } from "@sluice/core/replica";

/** Values of the control calls, checked: a peer's numbers may be anything. */
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

const bad = (message: string): SluiceError => new SluiceError("INVALID_ARGUMENT", message);

export function epochOf(n: number, what: string): Epoch {
  if (!Number.isInteger(n) || n < 0 || n > EPOCH_MAX) throw bad(`${what} is not an epoch: ${n}`);
  return epoch(n);
}
/** An offset or end: -1 to 2^53 - 1. */
export function offsetOf(n: bigint, what: string, least = -1): number {
  const value = Number(n);
  if (!Number.isSafeInteger(value) || value < least) throw bad(`${what} is not an offset: ${n}`);
  return value;
}
export function nameOf(text: string, what: string): string {
  try {
    checkAscii(text);
  } catch (cause) {
    throw new SluiceError("INVALID_ARGUMENT", `${what} is not a name`, { cause });
  }
  return text;
}
export function addressOf(
  a: { readonly topicId: string; readonly partition: number; readonly epoch: number; readonly k: number } | undefined,
): SegmentAddress {
  if (a === undefined) throw bad("the segment's address is missing");
  if (!UUID.test(a.topicId)) throw bad("the topic id is not a uuid");
  return {
    partition: { topicId: topicId(a.topicId), partition: a.partition },
    segment: { epoch: epochOf(a.epoch, "the segment's epoch"), k: a.k },
  };
}
