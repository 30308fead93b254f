/** Sequence numbers of idempotent producers: one per record, int32, from 0 to 2^31 - 1, then 0 again (Kafka's rule). */
export const SEQUENCE_MAX = 0x7fff_ffff;
const MODULUS = 0x8000_0000;

/** The sequence `records` - 1 after `first`: that of the last record of a batch. */
export const lastSequenceOf = (first: number, records: number): number => (first + records - 1) % MODULUS;
export const nextSequence = (sequence: number): number => (sequence === SEQUENCE_MAX ? 0 : sequence + 1);
/** How far `to` lies after `from`, 0 to 2^31 - 1, across the wrap. */
export const sequenceDistance = (from: number, to: number): number => (to - from + MODULUS) % MODULUS;
/** True when `sequence` lies before `expected` rather than after it: less than half the circle back. */
export const isEarlier = (sequence: number, expected: number): boolean =>
  sequence !== expected && sequenceDistance(sequence, expected) < MODULUS / 2;
