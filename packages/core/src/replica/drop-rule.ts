import type { ReplicaMutants } from "./input.ts";

/** What one linearizable read of the metadata showed about a copy that this node has. */
export interface DropFacts {
  /** The partition's register; undefined = missing: then nothing is ever dropped. */
  readonly stateEpoch: number | undefined;
  /** `found` false: no key and no manifest entry names the segment. */
  readonly found: boolean;
  /** Phase of the segment's key is SEALED or later. */
  readonly sealed: boolean;
  /** This node at this incarnation is in its replicas. */
  readonly member: boolean;
  /** Replicas other than this node. */
  readonly otherReplicas: number;
  /** Revision of the segment's key; 0 when not found. */
  readonly keyRevision: number;
}
export interface LocalCopy {
  readonly madeBy: number;
  /** A repair's copy: revision of the key at which it was ordered. */
  readonly keyRevision: number | undefined;
}

/**
 * The one rule for dropping a local copy that nobody told this node to drop: it is no member, no transaction of the epoch that made it can commit any more,
 * and the segment is either gone or complete without it. Absence from a listing is no reason.
 */
export function mayDropCopy(facts: DropFacts, copy: LocalCopy, mutants: ReplicaMutants = {}): boolean {
  if (facts.member || facts.stateEpoch === undefined) return false;
  if (facts.stateEpoch <= copy.madeBy && mutants.M30 !== true) return false;
  if (!facts.found) return true;
  if (!facts.sealed || facts.otherReplicas < 3) return false;
  return copy.keyRevision === undefined || facts.keyRevision > copy.keyRevision;
}
