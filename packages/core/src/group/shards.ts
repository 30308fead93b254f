import { encodeUtf8, murmur2, partitionOfKey } from "../model/index.ts";

/**
 *   group ── hash of its name ──► shard ── highest score of all coordinators ──► coordinator
 *
 * The first step is fixed for ever: a group's records lie in the log of its shard. The second may change at any time.
 */
/** The UTF-8 bytes of the name are hashed as Kafka hashes keys. */
export const shardOfGroup = (group: string, shards: number): number => partitionOfKey(encodeUtf8(group), shards);

/**
 * Rendezvous hashing: the coordinator that should own a shard. A member that comes or goes moves only the shards that it wins or had.
 * Undefined when there is none.
 */
export function shardOwner(members: readonly string[], shard: number): string | undefined {
  let best: string | undefined;
  let bestScore = -1;
  for (const member of members) {
    // Twice: the hash of near-equal texts would otherwise be near-equal in its low bits.
    const score = murmur2(encodeUtf8(`${murmur2(encodeUtf8(`${member}/${shard}`))}`)) >>> 0;
    if (score > bestScore || (score === bestScore && best !== undefined && member < best)) {
      best = member;
      bestScore = score;
    }
  }
  return best;
}
