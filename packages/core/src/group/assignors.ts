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

/** A member as the even assignment sees it. */
interface Reader {
  readonly member: AssignedMember;
  /** Its place in order of names. */
  readonly rank: number;
  /** Partitions by topic; in order when the moves begin. */
  readonly own: Map<string, number[]>;
  load: number;
}

/**
 *   1. everybody keeps what it has and may read          3. while somebody has two more than another who may read one of its partitions:
 *   2. what is left goes to who has least                   one moves
 */
class Uniform {
  readonly #readers: readonly Reader[];
  readonly #topics: readonly string[];
  /** By topic. */
  readonly #subscribers = new Map<string, readonly Reader[]>();
  readonly #partitions: ReadonlyMap<string, number>;

  constructor(
    members: readonly AssignedMember[],
    topics: readonly string[],
    subscribers: ReadonlyMap<string, readonly AssignedMember[]>,
    partitions: ReadonlyMap<string, number>,
  ) {
    this.#readers = members.map((member, rank) => ({ member, rank, own: new Map(), load: 0 }));
    this.#topics = topics;
    this.#partitions = partitions;
    const readerOf = new Map(this.#readers.map((r) => [r.member, r]));
    for (const [t, all] of subscribers)
      this.#subscribers.set(
        t,
        all.map((m) => readerOf.get(m) as Reader),
      );
  }

  run(): ReadonlyMap<string, Assignment> {
    const free = this.#keep();
    // Those with fewest readers first: the others can still even out.
    const order = this.#topics.toSorted((a, b) => this.#readersOf(a).length - this.#readersOf(b).length);
    for (const t of order) for (const p of free.get(t) ?? []) give(this.#leastLoaded(t), t, p);
    this.#even();
    return new Map(this.#readers.map(({ member, own }) => [member.memberId, toAssignment(own)]));
  }

  #readersOf(t: string): readonly Reader[] {
    return this.#subscribers.get(t) ?? [];
  }
  /** Returns what nobody keeps, by topic. */
  #keep(): ReadonlyMap<string, readonly number[]> {
    const taken = new Map(this.#topics.map((t) => [t, new Set<number>()]));
    for (const r of this.#readers) {
      const reads = new Set(r.member.topicIds);
      for (const { topicId: t, partitions } of r.member.target) {
        if (!reads.has(t)) continue;
        const known = taken.get(t) as Set<number>;
        for (const p of partitions) {
          if (p >= (this.#partitions.get(t) ?? 0) || known.has(p)) continue;
          known.add(p);
          give(r, t, p);
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
  #leastLoaded(t: string): Reader {
    const readers = this.#readersOf(t);
    let least = readers[0] as Reader;
    for (const r of readers) if (r.load < least.load) least = r;
    return least;
  }
  #even(): void {
    let total = 0;
    for (const { own, load } of this.#readers) {
      total += load;
      for (const list of own.values()) list.sort((a, b) => a - b);
    }
    const donors = this.#readers.toSorted((a, b) => b.load - a.load);
    // Every move makes the sum of squares smaller; more moves than partitions are never of use.
    for (let moves = 0; moves < total; moves += 1) if (!this.#moveOne(donors)) return;
  }
  /** `donors`: those with most first, and so again after the move. */
  #moveOne(donors: Reader[]): boolean {
    const lowest = donors.at(-1)?.load ?? 0;
    const receivers = new Map<string, Reader>();
    for (const [at, donor] of donors.entries()) {
      if (donor.load - lowest < 2) return false;
      for (const [t, list] of donor.own) {
        const to = receivers.get(t) ?? this.#leastLoaded(t);
        receivers.set(t, to);
        if (list.length === 0 || donor.load - to.load < 2) continue;
        give(to, t, list.pop() as number);
        donor.load -= 1;
        settle(donors, at);
        settle(donors, donors.indexOf(to));
        return true;
      }
    }
    return false;
  }
}
function give(r: Reader, t: string, p: number): void {
  const list = r.own.get(t);
  if (list === undefined) r.own.set(t, [p]);
  else list.push(p);
  r.load += 1;
}
/** The reader at `from` has one more or one less: it goes to its place. */
function settle(donors: Reader[], from: number): void {
  const r = donors[from] as Reader;
  const isBefore = (a: Reader, b: Reader): boolean => a.load > b.load || (a.load === b.load && a.rank < b.rank);
  let at = from;
  for (let next = donors[at + 1]; next !== undefined && isBefore(next, r); next = donors[++at + 1]) donors[at] = next;
  for (let last = donors[at - 1]; last !== undefined && isBefore(r, last); last = donors[--at - 1]) donors[at] = last;
  donors[at] = r;
}
