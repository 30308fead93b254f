import type { Incarnation, MemberId } from "../model/index.ts";

/** A storage node that could hold a copy. */
export interface ReplicaCandidate {
  readonly node: MemberId;
  readonly incarnation: Incarnation;
  readonly zone: string;
  readonly freeBytes: number;
}
export interface ReplicaChoice<C extends ReplicaCandidate = ReplicaCandidate> {
  readonly count: number;
  /** Copies that stay: their zones count as taken. */
  readonly have?: readonly C[];
  /** In [0, 1): one draw per copy. */
  readonly random: () => number;
}
/**
 * Above this many nodes the sets are drawn from a limited list of triples: fewer triples, fewer ways for three deaths to hit all copies of
 * something.
 */
export const COPYSET_NODES_MIN = 10;
/** Each node shares its copies with about this many others. */
const SCATTER_WIDTH = 4;
const COPIES = 3;

/**
 * Chooses `count` nodes for a new segment, fewer when there are not enough: zones that have no copy first, then weighted by free space.
 * Pure: the same candidates and draws give the same choice. The caller leaves out nodes it does not want (suspect, draining, failed).
 */
export function chooseReplicas<C extends ReplicaCandidate>(candidates: readonly C[], choice: ReplicaChoice<C>): C[] {
  const have = choice.have ?? [];
  const free = candidates.filter((c) => !have.some((h) => h.node === c.node));
  if (have.length === 0 && choice.count === COPIES && free.length >= COPYSET_NODES_MIN) {
    const set = weighted(copysets(free), (s) => Math.min(...s.map(weightOf)), choice.random());
    if (set !== undefined) return set;
  }
  const chosen: C[] = [];
  const zones = new Set(have.map((h) => h.zone));
  while (chosen.length < choice.count) {
    const left = free.filter((c) => !chosen.includes(c));
    const spread = left.filter((c) => !zones.has(c.zone));
    const next = weighted(spread.length > 0 ? spread : left, weightOf, choice.random());
    if (next === undefined) break;
    chosen.push(next);
    zones.add(next.zone);
  }
  return chosen;
}

const weightOf = (c: ReplicaCandidate): number => Math.max(1, c.freeBytes);

function weighted<T>(items: readonly T[], weight: (item: T) => number, draw: number): T | undefined {
  let total = 0;
  for (const item of items) total += weight(item);
  let left = draw * total;
  for (const item of items) {
    left -= weight(item);
    if (left < 0) return item;
  }
  return items[items.length - 1];
}

/**
 * The triples of a cluster: the nodes in a few fixed orders (by a hash of name and round, zones taken in turn), each order cut into threes.
 * A node that comes or goes moves few of the others, because an order depends on names alone.
 */
export function copysets<C extends ReplicaCandidate>(candidates: readonly C[]): C[][] {
  const rounds = Math.ceil(SCATTER_WIDTH / (COPIES - 1));
  const sets: C[][] = [];
  for (let round = 0; round < rounds; round++) {
    const byZone = new Map<string, C[]>();
    const order = [...candidates].sort((a, b) => rank(a.node, round) - rank(b.node, round) || (a.node < b.node ? -1 : 1));
    for (const c of order) byZone.set(c.zone, [...(byZone.get(c.zone) ?? []), c]);
    const zones = [...byZone.values()].sort((a, b) => b.length - a.length);
    const line = interleave(zones);
    for (let i = 0; i + COPIES <= line.length; i += COPIES) sets.push(line.slice(i, i + COPIES));
    const rest = line.length % COPIES;
    if (rest > 0) sets.push([...line.slice(line.length - rest), ...line.slice(0, COPIES - rest)]);
  }
  return sets;
}
function interleave<C>(zones: readonly C[][]): C[] {
  const line: C[] = [];
  for (let i = 0; zones.some((z) => i < z.length); i++)
    for (const zone of zones) {
      const c = zone[i];
      if (c !== undefined) line.push(c);
    }
  return line;
}
/** FNV-1a of name and round. */
function rank(node: MemberId, round: number): number {
  let h = 0x811c_9dc5 ^ round;
  for (const ch of node) h = Math.imul(h ^ (ch.codePointAt(0) ?? 0), 0x0100_0193);
  return h >>> 0;
}
