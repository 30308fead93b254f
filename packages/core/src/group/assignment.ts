import type { Assignment, TopicPartitions } from "./membership.ts";

/** Sets of partitions, as values: in order of topic id and partition, nothing twice, no topic without partitions. */
export function toAssignment(sets: ReadonlyMap<string, Iterable<number>>): Assignment {
  const out: TopicPartitions[] = [];
  for (const [topicId, partitions] of sets) {
    const sorted = [...new Set(partitions)].sort((a, b) => a - b);
    if (sorted.length > 0) out.push({ topicId, partitions: sorted });
  }
  return out.sort((a, b) => (a.topicId < b.topicId ? -1 : a.topicId > b.topicId ? 1 : 0));
}
const toSets = (a: Assignment): Map<string, Set<number>> => new Map(a.map(({ topicId, partitions }) => [topicId, new Set(partitions)]));

/** The partitions of `a` for which `keep` holds. */
export function filterPartitions(a: Assignment, keep: (topicId: string, partition: number) => boolean): Assignment {
  const out: TopicPartitions[] = [];
  for (const { topicId, partitions } of a) {
    const kept = partitions.filter((p) => keep(topicId, p));
    if (kept.length > 0) out.push({ topicId, partitions: kept });
  }
  return out;
}
export function intersect(a: Assignment, b: Assignment): Assignment {
  const sets = toSets(b);
  return filterPartitions(a, (t, p) => sets.get(t)?.has(p) === true);
}
export function subtract(a: Assignment, b: Assignment): Assignment {
  const sets = toSets(b);
  return filterPartitions(a, (t, p) => sets.get(t)?.has(p) !== true);
}
export function union(a: Assignment, b: Assignment): Assignment {
  const sets = toSets(a);
  for (const { topicId, partitions } of b) {
    const set = sets.get(topicId) ?? new Set<number>();
    sets.set(topicId, set);
    for (const p of partitions) set.add(p);
  }
  return toAssignment(sets);
}
export function sameAssignment(a: Assignment, b: Assignment): boolean {
  if (a.length !== b.length) return false;
  return a.every(({ topicId, partitions }, i) => {
    const other = b[i] as TopicPartitions;
    return (
      topicId === other.topicId && partitions.length === other.partitions.length && partitions.every((p, k) => p === other.partitions[k])
    );
  });
}
export const isWithin = (a: Assignment, b: Assignment): boolean => subtract(a, b).length === 0;
export const partitionCount = (a: Assignment): number => a.reduce((n, { partitions }) => n + partitions.length, 0);
