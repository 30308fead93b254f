/**
 * MurmurHash2, 32 bits, as Kafka's default partitioner computes it (org.apache.kafka.common.utils.Utils.murmur2, seed 0x9747b28c):
 * equal keys go to equal partitions whatever client wrote them. Signed 32-bit result.
 */
export function murmur2(data: Uint8Array): number {
  const m = 0x5bd1e995;
  let h = 0x9747b28c ^ data.length;
  let at = 0;
  for (let left = data.length; left >= 4; left -= 4) {
    let k = (data[at] as number) | ((data[at + 1] as number) << 8) | ((data[at + 2] as number) << 16) | ((data[at + 3] as number) << 24);
    k = Math.imul(k, m);
    k ^= k >>> 24;
    k = Math.imul(k, m);
    h = Math.imul(h, m) ^ k;
    at += 4;
  }
  const rest = data.length & 3;
  if (rest > 2) h ^= (data[at + 2] as number) << 16;
  if (rest > 1) h ^= (data[at + 1] as number) << 8;
  if (rest > 0) h = Math.imul(h ^ (data[at] as number), m);
  h ^= h >>> 13;
  h = Math.imul(h, m);
  return h ^ (h >>> 15);
}
/** Kafka's partition of a key: the hash without its sign bit, modulo the number of partitions. */
export const partitionOfKey = (key: Uint8Array, partitions: number): number => (murmur2(key) & 0x7fff_ffff) % partitions;
