import { toAssignment } from "./assignment.ts";
import type { Assignment } from "./membership.ts";

/** What an assignor knows of a member. */
export interface AssignedMember {
  readonly memberId: string;
  readonly instanceId: string;
  /** Ids of the topics that it reads and that exist. */
  readonly topicIds: readonly string[];
  readonly target: Assignment;
}
/**
 *   uniform   about as equal as the subscriptions allow, with few moves; exactly so when all read the same topics
 *   range     of each topic a run of partitions for each member, in order of their names: partitions of the same number go to the same member
 */
export type AssignorName = "uniform" | "range";
export const assignorNames: readonly AssignorName[] = ["uniform", "range"];
export const isAssignor = (name: string): name is AssignorName => (assignorNames as readonly string[]).includes(name);

/** Who shall read what, by member id. `partitions`: number of partitions by topic id. The same input gives the same answer. */
export function assign(
  name: AssignorName,
  members: readonly AssignedMember[],
  partitions: ReadonlyMap<string, number>,
): ReadonlyMap<string, Assignment> {
  const sorted = members.toSorted((a, b) => (rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0));
  const subscribers = new Map<string, AssignedMember[]>();
  for (const m of sorted) {
    for (const t of m.topicIds) {
      const list = subscribers.get(t);
      if (list === undefined) subscribers.set(t, [m]);
      else list.push(m);
    }
  }
  const topics = [...subscribers.keys()].sort();
  return name === "range" ? range(sorted, topics, subscribers, partitions) : new Uniform(sorted, topics, subscribers, partitions).run();
}
const rank = (m: AssignedMember): string => (m.instanceId === "" ? m.memberId : m.instanceId);

function range(
  members: readonly AssignedMember[],
  topics: readonly string[],
  subscribers: ReadonlyMap<string, readonly AssignedMember[]>,
  partitions: ReadonlyMap<string, number>,
): ReadonlyMap<string, Assignment> {
  const sets = new Map(members.map((m) => [m.memberId, new Map<string, number[]>()]));
  for (const t of topics) {
    const readers = subscribers.get(t) as readonly AssignedMember[];
    const count = partitions.get(t) ?? 0;
    const each = Math.floor(count / readers.length);
    const more = count % readers.length;
    let next = 0;
    readers.forEach((m, i) => {
      const own = Array.from({ length: each + (i < more ? 1 : 0) }, (_, k) => next + k);
      next += own.length;
      sets.get(m.memberId)?.set(t, own);
    });
  }
  return new Map([...sets].map(([id, own]) => [id, toAssignment(own)]));
}

/**
 *   1. everybody keeps what it has and may read          3. while somebody has two more than another who may read one of its partitions:
 *   2. what is left goes to who has least                   one moves
 */
class Uniform {
  readonly #members: readonly AssignedMember[];
  readonly #topics: readonly string[];
  readonly #subscribers: ReadonlyMap<string, readonly AssignedMember[]>;
  readonly #partitions: ReadonlyMap<string, number>;
  readonly #own = new Map<string, Map<string, Set<number>>>();
  readonly #load = new Map<string, number>();

  constructor(
    members: readonly AssignedMember[],
    topics: readonly string[],
    subscribers: ReadonlyMap<string, readonly AssignedMember[]>,
    partitions: ReadonlyMap<string, number>,
  ) {
    this.#members = members;
    this.#topics = topics;
    this.#subscribers = subscribers;
    this.#partitions = partitions;
    for (const m of members) {
      this.#own.set(m.memberId, new Map());
      this.#load.set(m.memberId, 0);
    }
  }

  run(): ReadonlyMap<string, Assignment> {
    const free = this.#keep();
    // Those with fewest readers first: the others can still even out.
    const order = this.#topics.toSorted((a, b) => this.#readers(a).length - this.#readers(b).length);
    for (const t of order) for (const p of free.get(t) ?? []) this.#give(this.#leastLoaded(t), t, p);
    this.#even();
    return new Map([...this.#own].map(([id, sets]) => [id, toAssignment(sets)]));
  }

  #readers(t: string): readonly AssignedMember[] {
    return this.#subscribers.get(t) ?? [];
  }
  #loadOf(m: AssignedMember): number {
    return this.#load.get(m.memberId) as number;
  }
  #give(m: AssignedMember, t: string, p: number): void {
    const sets = this.#own.get(m.memberId) as Map<string, Set<number>>;
    const set = sets.get(t);
    if (set === undefined) sets.set(t, new Set([p]));
    else set.add(p);
    this.#load.set(m.memberId, this.#loadOf(m) + 1);
  }
  /** Returns what nobody keeps, by topic. */
  #keep(): ReadonlyMap<string, readonly number[]> {
    const taken = new Map(this.#topics.map((t) => [t, new Set<number>()]));
    for (const m of this.#members) {
      const reads = new Set(m.topicIds);
      for (const { topicId: t, partitions } of m.target) {
        if (!reads.has(t)) continue;
        const known = taken.get(t) as Set<number>;
        for (const p of partitions) {
          if (p >= (this.#partitions.get(t) ?? 0) || known.has(p)) continue;
          known.add(p);
          this.#give(m, t, p);
        }
      }
    }
    const free = new Map<string, number[]>();
    for (const t of this.#topics) {
      const known = taken.get(t) as Set<number>;
      free.set(
        t,
        Array.from({ length: this.#partitions.get(t) ?? 0 }, (_, p) => p).filter((p) => !known.has(p)),
      );
    }
    return free;
  }
  #leastLoaded(t: string): AssignedMember {
    const [first, ...rest] = this.#readers(t) as [AssignedMember, ...AssignedMember[]];
    let least = first;
    for (const m of rest) if (this.#loadOf(m) < this.#loadOf(least)) least = m;
    return least;
  }
  #even(): void {
    let total = 0;
    for (const n of this.#load.values()) total += n;
    // Every move makes the sum of squares smaller; more moves than partitions are never of use.
    for (let moves = 0; moves < total; moves += 1) if (!this.#moveOne()) return;
  }
  #moveOne(): boolean {
    if (this.#members.length === 0) return false;
    const donors = this.#members.toSorted((a, b) => this.#loadOf(b) - this.#loadOf(a));
    const lowest = this.#loadOf(donors.at(-1) as AssignedMember);
    const receivers = new Map<string, AssignedMember>();
    for (const donor of donors) {
      if (this.#loadOf(donor) - lowest < 2) return false;
      for (const [t, set] of this.#own.get(donor.memberId) as Map<string, Set<number>>) {
        const to = receivers.get(t) ?? this.#leastLoaded(t);
        receivers.set(t, to);
        if (set.size === 0 || this.#loadOf(donor) - this.#loadOf(to) < 2) continue;
        const p = Math.max(...set);
        set.delete(p);
        this.#load.set(donor.memberId, this.#loadOf(donor) - 1);
        this.#give(to, t, p);
        return true;
      }
    }
    return false;
  }
}
