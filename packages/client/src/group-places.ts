import type { OffsetInTopic, TopicPartition } from "./group-types.ts";

/**
 * A partition that the member reads, and how far:
 *
 *   committed <= done <= next <= taken      done: finished by the application; next: not yet given to it; taken: not yet received
 */
export interface Place extends TopicPartition {
  taken: number;
  next: number;
  done: number;
  committed: number;
  /** How often the application moved it: what was on its way before says nothing of it any more. */
  seeks: number;
  /** Being given back: nothing more of it is given to the application. */
  revoking: boolean;
}
export const placeKey = ({ topic, partition }: TopicPartition): string => `${topic}/${partition}`;
export const newPlace = ({ topic, partition }: TopicPartition, offset: number): Place => ({
  topic,
  partition,
  taken: offset,
  next: offset,
  done: offset,
  committed: offset,
  seeks: 0,
  revoking: false,
});
export const bare = ({ topic, partition }: TopicPartition): TopicPartition => ({ topic, partition });

/** What of `places` is past their commit, by how far the application is (\`done\`) or was given (\`next\`). */
export const uncommitted = (places: Iterable<Place>, how: "done" | "next"): OffsetInTopic[] =>
  [...places].filter((p) => p[how] > p.committed).map((p) => ({ ...bare(p), offset: p[how] }));
