import { limits } from "../model/index.ts";
import type { ErrorCode } from "../model/index.ts";
import { isEarlier, lastSequenceOf, nextSequence, sequenceDistance } from "./sequence.ts";

/** What the table learns from a stored batch. */
export interface ProducerBatch {
  readonly firstOffset: number;
  readonly lastOffset: number;
  readonly producerId: number;
  readonly producerEpoch: number;
  /** Below 0 for control batches, which move the epoch only. */
  readonly baseSequence: number;
  /** Broker append time, wall clock. */
  readonly appendMs: number;
}
export interface RememberedBatch {
  readonly firstSequence: number;
  readonly lastSequence: number;
  readonly firstOffset: number;
  readonly lastOffset: number;
}
export interface InFlightBatch extends RememberedBatch {
  readonly epoch: number;
}
/** What is known of one producer in one partition. */
export interface ProducerEntry {
  readonly id: number;
  /** Of the newest stored batch. */
  epoch: number;
  /**
   * First sequence of that epoch, when it did not begin at 0: what is earlier was never stored. 0 = it began at 0, or so long ago that no batch of then
   * can be on its way.
   */
  firstSequence: number;
  /** Stored batches of that epoch, oldest first, at most `limits.producerBatchesRemembered`. */
  batches: RememberedBatch[];
  /** Admitted and not yet durable on two nodes, oldest first: never answered as stored, cleared when the attempt dies. */
  inFlight: InFlightBatch[];
  lastAppendMs: number;
}
/**
 * The producers of one partition. The owner keeps it beside the log (fed by what is committed), a storage node per segment (fed by batch
 * headers): nothing of it is written on its own, it is rebuilt from a snapshot and the batches after it. The map's order is that of
 * use, so that the oldest producer gives way when there are too many.
 */
export interface ProducerTable {
  readonly entries: Map<number, ProducerEntry>;
  readonly producersMax: number;
  /** Highest token of conditional appends; -1 = none. */
  fenceToken: number;
  newest: ProducerEntry | undefined;
  /**
   * Some producer was forgotten (expiry, the bound, a snapshot that was lost): one that is not here may have stored batches all the same.
   */
  forgotten: boolean;
}

export const createProducers = (producersMax: number = limits.producersPerPartitionMax): ProducerTable => ({
  entries: new Map(),
  producersMax,
  fenceToken: -1,
  newest: undefined,
  forgotten: false,
});

/**
 * `duplicate`: stored before at `offset`. `inFlight`: the same batch waits for its second copy at `offset`; answer when that one is
 * answered.
 */
export type SequenceVerdict =
  | { readonly kind: "fresh" }
  | { readonly kind: "duplicate" | "inFlight"; readonly offset: number }
  | { readonly kind: "refused"; readonly code: ErrorCode };
const FRESH: SequenceVerdict = { kind: "fresh" };
const STALE_PRODUCER: SequenceVerdict = { kind: "refused", code: "INVALID_PRODUCER_EPOCH" };
const GAP: SequenceVerdict = { kind: "refused", code: "OUT_OF_ORDER_SEQUENCE" };
const LONG_AGO: SequenceVerdict = { kind: "refused", code: "DUPLICATE_SEQUENCE" };

const UNKNOWN: SequenceVerdict = { kind: "refused", code: "UNKNOWN_PRODUCER" };
/** Records after the first one of an epoch, after which no earlier batch can be on its way; within what `isEarlier` tells apart. */
const FIRST_SEQUENCE_SPAN = 2 ** 29;

/**
 * Judges a batch of an idempotent producer (id 0 or more) against what is stored and in flight. Changes nothing.
 *
 * A producer that is not here starts at sequence 0. Any other sequence is one of three:
 *  - its first batch is still on the way: a proxy that has both sends them again in their order;
 *  - the topic was made again under the producer: with `anySequence` somebody vouches that no earlier batch is missing, and it starts where it is;
 *  - somebody was forgotten, and the batch may be a retry of a stored one: the producer has to start anew, whoever vouches.
 * Kafka takes all three: it lets pipelined batches overtake the first one at a new owner, and stores the retry twice.
 */
export function checkSequence(
  table: ProducerTable,
  id: number,
  epoch: number,
  firstSequence: number,
  records: number,
  anySequence = false,
): SequenceVerdict {
  const entry = table.entries.get(id);
  if (entry === undefined) return firstSequence === 0 || (anySequence && !table.forgotten) ? FRESH : UNKNOWN;
  const { inFlight, batches } = entry;
  const newestInFlight = inFlight[inFlight.length - 1];
  const currentEpoch = newestInFlight === undefined ? entry.epoch : newestInFlight.epoch;
  if (epoch < currentEpoch) return STALE_PRODUCER;
  if (epoch > currentEpoch) return firstSequence === 0 ? FRESH : GAP;
  const lastSequence = lastSequenceOf(firstSequence, records);
  for (let i = inFlight.length - 1; i >= 0; i--) {
    const b = inFlight[i] as InFlightBatch;
    if (b.epoch === epoch && b.firstSequence === firstSequence && b.lastSequence === lastSequence)
      return { kind: "inFlight", offset: b.firstOffset };
  }
  if (entry.epoch === epoch)
    for (let i = batches.length - 1; i >= 0; i--) {
      const b = batches[i] as RememberedBatch;
      if (b.firstSequence === firstSequence && b.lastSequence === lastSequence) return { kind: "duplicate", offset: b.firstOffset };
    }
  const last = newestInFlight ?? batches[batches.length - 1];
  if (last === undefined) return FRESH;
  const expected = nextSequence(last.lastSequence);
  if (firstSequence === expected) return FRESH;
  if (entry.firstSequence > 0 && isEarlier(firstSequence, entry.firstSequence)) return GAP;
  return isEarlier(firstSequence, expected) ? LONG_AGO : GAP;
}

function entryOf(table: ProducerTable, id: number, epoch: number, firstSequence: number): ProducerEntry {
  let entry = table.entries.get(id);
  if (entry === undefined) {
    entry = { id, epoch, firstSequence, batches: [], inFlight: [], lastAppendMs: 0 };
    if (table.entries.size >= table.producersMax) evictOldest(table);
    table.entries.set(id, entry);
  } else if (table.newest !== entry) {
    table.entries.delete(id);
    table.entries.set(id, entry);
  }
  table.newest = entry;
  return entry;
}
function evictOldest(table: ProducerTable): void {
  for (const [id, entry] of table.entries) {
    if (entry.inFlight.length > 0) continue;
    table.entries.delete(id);
    table.forgotten = true;
    return;
  }
}

/** The batch was admitted at `firstOffset`; it counts for sequence checks until it is stored or its attempt dies. */
export function noteInFlight(
  table: ProducerTable,
  id: number,
  epoch: number,
  firstSequence: number,
  records: number,
  firstOffset: number,
): void {
  entryOf(table, id, epoch, firstSequence).inFlight.push({
    epoch,
    firstSequence,
    lastSequence: lastSequenceOf(firstSequence, records),
    firstOffset,
    lastOffset: firstOffset + records - 1,
  });
}

/**
 * Takes in a stored batch, in offset order. Batches that the table knows already (a snapshot was taken after them) change nothing, so a
 * snapshot
 * may be advanced by a run that starts before it.
 */
export function advanceProducers(table: ProducerTable, batch: ProducerBatch): void {
  const { producerId, producerEpoch, baseSequence } = batch;
  if (producerId < 0) return;
  const known = table.entries.get(producerId);
  if (known !== undefined) {
    const newest = known.batches[known.batches.length - 1];
    if (newest !== undefined && newest.lastOffset >= batch.lastOffset) return;
  }
  const entry = entryOf(table, producerId, producerEpoch, Math.max(0, baseSequence));
  while (entry.inFlight.length > 0 && (entry.inFlight[0] as InFlightBatch).lastOffset <= batch.lastOffset) entry.inFlight.shift();
  if (producerEpoch !== entry.epoch) {
    entry.epoch = producerEpoch;
    entry.firstSequence = Math.max(0, baseSequence);
    entry.batches = [];
  }
  entry.lastAppendMs = batch.appendMs;
  if (baseSequence < 0) return;
  entry.batches.push({
    firstSequence: baseSequence,
    lastSequence: lastSequenceOf(baseSequence, batch.lastOffset - batch.firstOffset + 1),
    firstOffset: batch.firstOffset,
    lastOffset: batch.lastOffset,
  });
  if (entry.batches.length > limits.producerBatchesRemembered) entry.batches.shift();
  if (entry.firstSequence > 0 && sequenceDistance(entry.firstSequence, baseSequence) > FIRST_SEQUENCE_SPAN) entry.firstSequence = 0;
}

/** The attempt died: nothing in flight counts any more. */
export function dropInFlight(table: ProducerTable): void {
  for (const [id, entry] of table.entries) {
    entry.inFlight = [];
    if (entry.batches.length === 0) forget(table, id);
  }
}
function forget(table: ProducerTable, id: number): void {
  if (table.newest?.id === id) table.newest = undefined;
  table.entries.delete(id);
}

/**
 * Forgets what lies above `lastOffset`: a suffix that recovery or a seal gave up. A producer of whom nothing is left keeps its place:
 * which of its batches came
 * before is not known then, and its next one is taken with any sequence.
 */
export function truncateProducers(table: ProducerTable, lastOffset: number): void {
  for (const entry of table.entries.values()) {
    const kept = entry.batches.filter((b) => b.lastOffset <= lastOffset);
    if (kept.length < entry.batches.length) entry.batches = kept;
  }
}

/** Takes from `from` every producer that it knows better (newer epoch, or later offset within it). */
export function mergeProducers(into: ProducerTable, from: ProducerTable): void {
  for (const theirs of from.entries.values()) {
    const ours = into.entries.get(theirs.id);
    const lastOf = (e: ProducerEntry): number => e.batches[e.batches.length - 1]?.lastOffset ?? -1;
    if (ours !== undefined && (ours.epoch > theirs.epoch || (ours.epoch === theirs.epoch && lastOf(ours) >= lastOf(theirs)))) continue;
    const entry = entryOf(into, theirs.id, theirs.epoch, theirs.firstSequence);
    entry.epoch = theirs.epoch;
    entry.firstSequence = theirs.firstSequence;
    entry.batches = [...theirs.batches];
    entry.lastAppendMs = theirs.lastAppendMs;
  }
  into.forgotten ||= from.forgotten;
  into.fenceToken = Math.max(into.fenceToken, from.fenceToken);
}

/** Forgets producers without a batch since `beforeMs` (wall clock). Returns how many. */
export function expireProducers(table: ProducerTable, beforeMs: number): number {
  let expired = 0;
  for (const [id, entry] of table.entries) {
    if (entry.lastAppendMs >= beforeMs || entry.inFlight.length > 0) continue;
    forget(table, id);
    table.forgotten = true;
    expired++;
  }
  return expired;
}
