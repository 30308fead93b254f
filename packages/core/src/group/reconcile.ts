import { filterPartitions, intersect, subtract, union } from "./assignment.ts";
import type { Assignment, ConsumerMember, MemberPhase } from "./membership.ts";

/**
 * One step of a member towards its target. Nothing is given to anybody before whoever had it has said that it stopped:
 *
 *   has what it shall not have ──► unrevoked: told what is left to it; stays in its epoch until it says that it reads no more than that
 *   misses something free      ──► gets it
 *   misses something not free  ──► unreleased: has the newest epoch, asks again with each heartbeat
 *   has exactly its target     ──► stable in the newest epoch
 */
export function reconcile(
  m: ConsumerMember,
  targetEpoch: number,
  /** What it says it reads; undefined = it did not say. */
  owned: Assignment | undefined,
  /** Nobody else reads the partition, or may still read it. */
  isFree: (topicId: string, partition: number) => boolean,
): ConsumerMember {
  if (m.phase === "unrevoked") {
    const still = owned === undefined ? m.revoking : intersect(m.revoking, owned);
    return still.length > 0 ? m : next({ ...m, revoking: [] }, targetEpoch, owned, isFree);
  }
  if (m.phase === "stable" && m.memberEpoch === targetEpoch) return m;
  return next(m, targetEpoch, owned, isFree);
}

function next(
  m: ConsumerMember,
  targetEpoch: number,
  owned: Assignment | undefined,
  isFree: (topicId: string, partition: number) => boolean,
): ConsumerMember {
  const keeps = intersect(m.assigned, m.target);
  const revokes = subtract(m.assigned, keeps);
  const mustSay = owned === undefined ? revokes : intersect(revokes, owned);
  if (mustSay.length > 0) return { ...m, phase: "unrevoked", assigned: keeps, revoking: revokes };
  const misses = subtract(m.target, keeps);
  const gets = filterPartitions(misses, isFree);
  const phase: MemberPhase = subtract(misses, gets).length > 0 ? "unreleased" : "stable";
  return {
    ...m,
    phase,
    assigned: union(keeps, gets),
    revoking: [],
    previousEpoch: m.memberEpoch === targetEpoch ? m.previousEpoch : m.memberEpoch,
    memberEpoch: targetEpoch,
  };
}
